package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
	"github.com/toolguard/toolguard/internal/policy/policyload"
)

// policyFlags select the policy, and the tool, agent and workspace that it applies to.
type policyFlags struct {
	policyload.Options
	quiet bool // no remarks
}

// define adds the flags to a command that has a policy.
func (p *policyFlags) define(cmd *cobra.Command) {
	p.defineFiles(cmd, "a policy: `FILE` or preset:NAME; repeated ones are merged (default: the user's own for the workspace, else the built-in one)")
	p.defineContext(cmd)
}

// defineFiles adds the flags that select the policies.
func (p *policyFlags) defineFiles(cmd *cobra.Command, help string) {
	cmd.Flags().StringArrayVar(&p.Files, "policy", nil, help)
	if err := cmd.RegisterFlagCompletionFunc("policy", completePolicy); err != nil {
		panic(err) // a mistake in this program
	}
	cmd.Flags().BoolVar(&p.NoDetect, "no-detect", false, "don't add detected presets for the workspace, the command and PATH to the built-in default policy")
}

// defineContext adds the flags that select the tool, agent and workspace of a policy.
func (p *policyFlags) defineContext(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&p.Tool, "tool", "", "on behalf of which tool: the policy's [tools.`NAME`.access] applies too")
	p.Caller.DefaultEnvironment = os.Getenv("TOOLGUARD_ENVIRONMENT")
	cmd.Flags().StringVar(&p.Caller.Environment, "environment", "", "which environment of the policy applies: one of `NAME`s in [environments] (default: $TOOLGUARD_ENVIRONMENT, else the policy's own choice)")
	cmd.Flags().StringVar(&p.Agent, "agent", "", "on behalf of which agent: the policy's rules for `NAME` apply too")
	p.defineWorkspace(cmd)
}

func (p *policyFlags) defineWorkspace(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.Workspace, "workspace", "", "relative paths are relative to `DIR`; overrides the policy's workspace")
	if err := cmd.MarkFlagDirname("workspace"); err != nil {
		panic(err) // a mistake in this program
	}
}

// useUserPolicy selects the user's own policy for the workspace where the flags name none, and reports it.
func (a *app) useUserPolicy(p *policyFlags) error {
	of, err := p.UseUserPolicy()
	if err == nil && of != "" && !p.quiet {
		a.err.Message("the policy is %s, the user's own for %s", p.UserPolicy, of)
	}
	return err
}

// load reads and compiles the policy that the flags name, or else the user's own. tmp is the session's private TMPDIR, or "" without a
// session.
func (a *app) load(p *policyFlags, tmp string) (*policy.Compiled, error) {
	if err := a.useUserPolicy(p); err != nil {
		return nil, err
	}
	return p.Load(tmp)
}

// most is the most of a file that fmt reads.
const most = 1 << 20

// readFile reads a file, or standard input for "-".
func (a *app) readFile(name string) ([]byte, error) {
	if name == "-" {
		text, err := io.ReadAll(io.LimitReader(a.in, most+1))
		if err == nil && len(text) > most {
			err = fmt.Errorf("standard input has more than %d bytes", most)
		}
		return text, err
	}
	return hostfs.Machine{}.Read(name, most+1)
}

// completePolicy completes presets and TOML files.
func completePolicy(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	if strings.HasPrefix("preset:", typed) && typed != "" || strings.HasPrefix(typed, "preset:") {
		var names []string
		for _, p := range policyfile.Presets() {
			names = append(names, p.Name+"\t"+p.Doc)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"toml"}, cobra.ShellCompDirectiveFilterFileExt
}

// noArgs rejects arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(cmd, "%q is an argument, and the command has none", args[0])
	}
	return nil
}

// environNames returns the names of the variables in env.
func environNames(env []string) []string {
	var names []string
	for _, kv := range env {
		if name, _, ok := strings.Cut(kv, "="); ok && name != "" {
			names = append(names, name)
		}
	}
	return names
}
