package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/tool"
)

// agent is a coding agent that has a preset.
type agent struct {
	output.Agent
	install string   // how it comes to be there
	env     []string // variables by which its state is apart from its settings, unless they're set; ~/ begins a path
	file    string   // one beneath the home that it can't do without, which Landlock grants only where it's there
	empty   string   // what is in that at first
}

var agents = []agent{
	{Agent: output.Agent{Program: "claude", Preset: "claude-code"}, install: "npm install -g @anthropic-ai/claude-code", file: ".claude.json", empty: "{}"},
	{
		Agent:   output.Agent{Program: "codex", Preset: "codex", Note: "neither its background server nor its own sandbox can start within this one: leave them out by -- --no-daemon -s danger-full-access"},
		install: "npm install -g @openai/codex", env: []string{"CODEX_SQLITE_HOME=~/.codex/sqlite"},
		file: ".codex/installation_id",
	},
	{Agent: output.Agent{Program: "gemini", Preset: "gemini"}, install: "npm install -g @google/gemini-cli"},
	{Agent: output.Agent{Program: "cursor-agent", Preset: "cursor-agent"}, install: "curl -fsS https://cursor.com/install | bash"},
	{
		Agent: output.Agent{Program: "opencode", Preset: "opencode"}, install: "npm install -g opencode-ai",
		env: []string{"OPENCODE_DB=~/.local/share/opencode/storage/opencode.db", `OPENCODE_CONFIG_CONTENT={"snapshot":false}`},
	},
	{Agent: output.Agent{Program: "aider", Preset: "aider"}, install: "uv tool install aider-chat"},
}

func newAgent(a *app) *cobra.Command {
	var f execFlags
	var names []string
	for _, x := range agents {
		names = append(names, x.Program)
	}
	cmd := &cobra.Command{
		Use:   "agent NAME [flags] [-- ARG...]",
		Short: "run a coding agent under a policy that is made for it",
		Long: `toolguard agent: run a coding agent, and everything it starts, as exec does: with the workspace to work in, the
agent's own state and the hosts of its model. It can't change its settings, hooks and servers (MCP) outside of the
workspace, nor read the keys of other agents.

NAME is ` + orList(names) + `. The policy is the agent's preset
(toolguard policy show preset:NAME), the presets detected for the workspace, and the policies that --policy adds, or
else the user's own for the workspace. The agent starts although this machine can't enforce some rules of the preset,
such as the hosts under landlock without root: the second of the three lines at the start names them. The exit
status is that of exec.`,
		Example: `  toolguard agent claude
  toolguard agent codex -- --no-daemon -s danger-full-access    # arguments after -- go to the agent
  toolguard agent opencode --policy ../more.toml                # further files, hosts and variables
  toolguard agent claude --dry-run                              # what would be enforced here, and what wouldn't`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef(cmd, "name the agent to run: %s", orList(names))
			}
			i := slices.IndexFunc(agents, func(x agent) bool { return args[0] == x.Program || args[0] == x.Preset })
			if i < 0 {
				return &output.UsageError{Command: cmd.CommandPath(), Msg: fmt.Sprintf("there is no preset for an agent %q: use %s", args[0], orList(names)), Hint: "any other runs by 'toolguard exec'"}
			}
			if err := f.checkSupport(cmd); err != nil {
				return err
			}
			return a.agent(&f, agents[i], args[1:])
		},
	}
	f.defineFiles(cmd, "a policy to add to the agent's preset: `FILE` or preset:NAME; repeated ones are merged")
	f.defineWorkspace(cmd)
	f.defineRun(cmd)
	return cmd
}

func (a *app) agent(f *execFlags, x agent, args []string) error {
	if _, err := exec.LookPath(x.Program); err != nil {
		return &status{exitNotFound, fmt.Errorf("there is no program %s in PATH; to install it: %s", x.Program, x.install)}
	}
	f.Agent, f.Presets = x.Preset, []string{"preset:" + x.Preset}
	for _, kv := range x.env {
		name, _, _ := strings.Cut(kv, "=")
		if _, set := os.LookupEnv(name); !set {
			f.env = append(f.env, strings.Replace(kv, "=~", "="+policyload.Home(), 1))
		}
	}
	if x.file != "" && !f.dryRun {
		makeFile(x.file, x.empty)
	}
	f.begin = func(r backend.Report, c *policy.Compiled) { a.err.BeginAgent(x.Agent, r, c) }
	return a.exec(f, append([]string{x.Program}, args...))
}

// makeFile makes a missing file beneath the home, and ignores a failure.
func makeFile(path, text string) {
	root, err := os.OpenRoot(policyload.Home())
	if err != nil {
		return
	}
	defer root.Close()
	_ = root.MkdirAll(filepath.Dir(path), 0o700)
	if file, err := root.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		_, _ = file.WriteString(text)
		_ = file.Close()
	}
}

// compile is load; for an agent lookups of names are granted too where its hosts are granted by their ports alone, since toolguard answers
// lookups only where it can distinguish hosts.
func (a *app) compile(f *execFlags, tmp string) (*policy.Compiled, error) {
	c, err := a.load(&f.policyFlags, tmp)
	if err == nil && f.Tool != "" && f.Agent != "" { // which must see the tool
		err = tool.Visible(f.Document.Tools(), f.visibilityCaller(), f.Tool)
	}
	if err != nil || f.Presets == nil {
		return c, err
	}
	r, err := backend.ReportFor(c, f.backend, f.daemon, f.allowed(c))
	if err != nil || !slices.ContainsFunc(r.Notes, output.AboutHosts) {
		return c, err
	}
	f.Presets = append([]string{output.NamesPreset}, f.Presets...)
	return a.load(&f.policyFlags, tmp)
}

// allowed returns the ids of the rules that need not be enforced: the named ones, and with an agent those of its presets.
func (f *execFlags) allowed(c *policy.Compiled) []string {
	ids := slices.Clone(f.degraded)
	for _, r := range c.Rules {
		if slices.Contains(f.Presets, r.Position.File) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}
