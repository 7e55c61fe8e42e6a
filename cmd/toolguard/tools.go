package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/catalog"
	"github.com/toolguard/toolguard/internal/tool/visibility"
)

const toolsHelp = `The list of tools is read from standard input: an MCP tools/list result, the tools of OpenAI or Anthropic, Gemini's
functionDeclarations, or [{"name","source","owner_only"}]. Only the flags name the caller.`

func newTools(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "which tools a model sees",
		Example: `  toolguard tools list --policy policy.toml --agent coder --provider openai < tools.json
  toolguard tools explain --policy policy.toml --agent coder exec`,
		Args: cobra.ArbitraryArgs,
		RunE: nameOne,
	}
	cmd.AddCommand(newToolsList(a), newToolsExplain(a))
	return cmd
}

func newToolsList(a *app) *cobra.Command {
	p := policyFlags{Options: policyload.Options{Reads: true}}
	var asJSON bool
	var server string
	cmd := &cobra.Command{
		Use:   "list [flags] < TOOLS",
		Short: "remove the tools that a caller doesn't see from a list",
		Long: `toolguard tools list: print a list of tools without those that the caller doesn't see, in the same shape.

` + toolsHelp + `
With --provider openai, schemas that have a union at their root, which OpenAI rejects, are flattened.`,
		Example: `  toolguard tools list --policy policy.toml --agent coder --provider openai < tools.json
  toolguard tools list --policy policy.toml --group family --json < tools.json    # with what removed each tool`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := noArgs(cmd, args); err != nil {
				return err
			}
			c, set, err := a.toolset(&p)
			if err != nil {
				return err
			}
			list, err := a.readTools()
			if err == nil && list == nil {
				err = errors.New("standard input has no list of tools")
			}
			if err != nil {
				return err
			}
			r := visibility.Decide(set, p.visibilityCaller(), offered(list, server, cmd.Flags().Changed("server")))
			for _, w := range r.Warnings {
				a.err.Message("%s", w)
			}
			if asJSON {
				return a.out.JSON(output.ToolListJSON(r, c))
			}
			if p.Caller.Provider == "openai" {
				if err := list.Flatten(); err != nil {
					return err
				}
			}
			keep := make([]bool, len(r.Tools))
			for i, t := range r.Tools {
				keep[i] = t.Removed == nil
			}
			if _, err := a.out.W.Write(append(list.Filter(keep), '\n')); err != nil {
				return fmt.Errorf("write the list: %w", err)
			}
			return nil
		},
	}
	p.define(cmd)
	p.defineCaller(cmd)
	serverFlag(cmd, &server)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newToolsExplain(a *app) *cobra.Command {
	p := policyFlags{Options: policyload.Options{Reads: true}}
	var asJSON bool
	var server string
	cmd := &cobra.Command{
		Use:   "explain [flags] NAME [< TOOLS]",
		Short: "which stage and rule remove a tool",
		Long: `toolguard tools explain: each stage of visibility in its order, and what it does to one tool. The exit status is 0 if
the caller sees the tool, 1 if not.

` + toolsHelp + ` Without a list, the tool is
decided on alone.`,
		Example: `  toolguard tools explain --policy policy.toml --agent coder exec
  toolguard tools explain --policy policy.toml --provider anthropic --json apply_patch`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef(cmd, "name one tool")
			}
			_, set, err := a.toolset(&p)
			if err != nil {
				return err
			}
			var given []visibility.Tool
			if !a.noInput() {
				list, err := a.readTools()
				if err != nil {
					return err
				}
				if list != nil {
					given = offered(list, server, cmd.Flags().Changed("server"))
				}
			}
			e := visibility.Explain(set, p.visibilityCaller(), given, args[0])
			err = a.answer(asJSON, output.ToolExplanationJSON(e), func() { a.out.ToolExplanation(e) })
			if err == nil && e.Removed != nil {
				err = exitStatus(exitNo)
			}
			return err
		},
	}
	p.define(cmd)
	p.defineCaller(cmd)
	serverFlag(cmd, &server)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// defineCaller adds the flags that name the caller, besides --agent and --environment.
func (p *policyFlags) defineCaller(cmd *cobra.Command) {
	f, c := cmd.Flags(), &p.Caller
	f.StringVar(&c.Profile, "profile", "", "start from the profile `NAME`, whatever the policy says")
	f.StringVar(&c.Provider, "provider", "", "the `PROVIDER` of the model, such as openai")
	f.StringVar(&c.Model, "model", "", "the `MODEL`, as its provider names it")
	f.StringVar(&c.Group, "group", "", "the `NAME` of the group in which the caller is")
	f.BoolVar(&c.Owner, "owner", false, "the caller is the owner")
	f.Uint16Var(&c.Depth, "depth", 0, "the caller is a sub-agent, `N` levels deep")
}

func serverFlag(cmd *cobra.Command, p *string) {
	cmd.Flags().StringVar(p, "server", "server", "the `NAME` of the MCP server that offers the tools of a tools/list result; if it's given, of every list")
	cmd.PreRunE = func(*cobra.Command, []string) error { return visibility.CheckServer(*p) }
}

func (p *policyFlags) visibilityCaller() visibility.Caller {
	return visibility.Caller{
		Agent: p.Agent, Profile: p.Caller.Profile, Provider: p.Caller.Provider, Model: p.Caller.Model, Group: p.Caller.Group,
		Owner: p.Caller.Owner, Depth: int(p.Caller.Depth), Sandboxed: sandboxed(),
	}
}

// toolset loads a policy, compiled and as the tool layer.
func (a *app) toolset(p *policyFlags) (*policy.Compiled, *toolset.Set, error) {
	c, err := a.load(p, "")
	if err != nil {
		return nil, nil, err
	}
	set := p.Document.Tools()
	if name := p.Caller.Profile; name != "" && !slices.ContainsFunc(set.Layers, func(l *toolset.Layer) bool { return l.Profiles[name] != nil }) {
		return nil, nil, fmt.Errorf("--profile %q: the policy has no profile of that name", name)
	}
	if p.Caller.Model != "" && p.Caller.Provider == "" {
		return nil, nil, fmt.Errorf("--model %q: name its provider, too: --provider PROVIDER", p.Caller.Model)
	}
	return c, set, nil
}

// readTools reads a list of tools from standard input; nil without input.
func (a *app) readTools() (*catalog.List, error) {
	text, err := io.ReadAll(io.LimitReader(a.in, catalog.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read the list of tools: %w", err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	return catalog.Parse(text)
}

// noInput reports that standard input is a terminal, closed, or /dev/null, so that nobody sends a list.
func (a *app) noInput() bool {
	f, ok := a.in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err != nil || info.Mode()&os.ModeCharDevice != 0
}

// offered are the tools of a list. all: they're the server's, whatever it writes about them.
func offered(list *catalog.List, server string, all bool) []visibility.Tool {
	out := make([]visibility.Tool, len(list.Tools))
	for i, t := range list.Tools {
		if out[i] = (visibility.Tool{Name: t.Name, OwnerOnly: t.OwnerOnly}); t.MCP || all {
			out[i].Server = server
		}
	}
	return out
}

// sandboxed reports that this process is in a session, or in another sandbox: it has a system call filter, as every session's process
// has. Without a sandbox it isn't so: toolguard itself begins without one.
func sandboxed() bool {
	if runtime.GOOS != "linux" {
		return false
	}
	status, err := os.ReadFile("/proc/self/status")
	return err != nil || bytes.Contains(status, []byte("\nSeccomp:\t2"))
}
