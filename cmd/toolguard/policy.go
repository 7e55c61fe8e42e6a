package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/darwin"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/policy/tomlformat"
	"github.com/toolguard/toolguard/internal/policy/written"
)

func newPolicy(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "write, read, test and compare policies",
		Example: `  toolguard policy init                      # a commented starter for this workspace, which exec uses from then on
  toolguard policy lint policy.toml          # mistakes, and probable mistakes
  toolguard policy show policy.toml          # every rule in force, with where it came from
  toolguard policy diff old.toml new.toml    # what the new one allows that the old one didn't, and the reverse
  toolguard policy render --backend seatbelt --policy policy.toml    # the sandbox profile for macOS
  toolguard policy import --from claude-code settings.json           # another system's policy as one of toolguard's`,
		Args: cobra.ArbitraryArgs,
		RunE: nameOne,
	}
	cmd.AddCommand(newInit(a), newLint(a), newShow(a), newDiff(a), newFmt(a), newSchema(a), newRender(a), newImport(a))
	return cmd
}

func newLint(a *app) *cobra.Command {
	p := policyFlags{Options: policyload.Options{Reads: true}}
	var by backendFlags
	var asJSON, scan, here bool
	cmd := &cobra.Command{
		Use:   "lint [flags] [FILE...]",
		Short: "find errors and probable mistakes",
		Long: `toolguard policy lint: errors (the policy doesn't load) and warnings (it does, but probably not as intended), each
with file, line and column. With --here, also what this machine doesn't enforce of it. The exit status is 1 when there
are errors, and with --here when no command would start.

Several files are one policy, merged in this order, as with --policy repeated.`,
		Example: `  toolguard policy lint policy.toml
  toolguard policy lint base.toml more.toml --tool fs_read
  toolguard policy lint --scan policy.toml     # and hard links that go round a rule: reads whole folders
  toolguard policy lint --here policy.toml     # and what isn't enforced on this machine
  toolguard policy lint --json policy.toml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !here && by.given(cmd) {
				return usagef(cmd, "--backend, --daemon and --allow-degraded go with --here")
			}
			p.Files = append(p.Files, args...)
			c, err := a.load(&p, "")
			mistakes, err := mistakesOf(err)
			if err != nil {
				return err
			}
			var warnings []explain.Warning
			if mistakes == nil {
				warnings = explain.Lint(c, hostfs.Machine{}, netname.IsPublicSuffix)
			}
			if mistakes == nil && scan {
				found, err := explain.Scan(c, hostfs.Machine{}.Linked)
				if err != nil {
					return err
				}
				warnings = append(warnings, found...)
			}
			var starts *output.Starts
			if here && mistakes == nil {
				j := by.evaluator(c)
				starts, warnings = j.starts(), append(warnings, j.warnings()...)
			}
			err = a.answer(asJSON, output.LintJSON(mistakes, warnings, starts), func() { a.out.Lint(mistakes, warnings, starts) })
			if err == nil && (mistakes != nil || starts != nil && !starts.Starts) {
				err = exitStatus(exitNo)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&scan, "scan", false, "look through the folders that rules name for hard links that go round a rule")
	cmd.Flags().BoolVar(&here, "here", false, "show what isn't enforced on this machine, and whether a command would start")
	p.define(cmd)
	by.define(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// mistakesOf separates the errors in a policy from any other error of loading it, which it returns.
func mistakesOf(err error) (policy.Errors, error) {
	var all policy.Errors
	var one *policy.Error
	switch {
	case errors.As(err, &all):
		return all, nil
	case errors.As(err, &one):
		return policy.Errors{one}, nil
	}
	return nil, err
}

func newShow(a *app) *cobra.Command {
	p := policyFlags{Options: policyload.Options{Reads: true}}
	var asJSON, tools bool
	cmd := &cobra.Command{
		Use:   "show [flags] [FILE...]",
		Short: "print every rule in force, with where it came from",
		Long: `toolguard policy show: the policy as it's compiled. Every rule of every authority, with its id, its text and its
file and line, those of the built-in sets and presets included. Without a file: the built-in default policy.

With --tools, the tool layer instead: groups, profiles, stages, tools, the gate, approvals and hooks, each key with its
file and line, those of each author apart, and the settings that apply together.`,
		Example: `  toolguard policy show policy.toml
  toolguard policy show --tools policy.toml
  toolguard policy show preset:python
  toolguard policy show --tool fs_write --json policy.toml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			p.Files = append(p.Files, args...)
			c, err := a.load(&p, "")
			if err != nil {
				return err
			}
			if tools {
				set := p.Document.Tools()
				return a.answer(asJSON, output.ToolLayerJSON(c, set), func() { a.out.ToolLayer(c, set) })
			}
			return a.answer(asJSON, output.PolicyJSON(c), func() { a.out.Policy(c) })
		},
	}
	cmd.Flags().BoolVar(&tools, "tools", false, "print the tool layer: groups, profiles, stages, tools, gate, approvals, hooks")
	p.define(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newFmt(a *app) *cobra.Command {
	var write, check bool
	cmd := &cobra.Command{
		Use:   "fmt [flags] FILE...",
		Short: "write policy files in the one usual form",
		Long:  `toolguard policy fmt: prints a policy file in the one usual form; comments stay. "-" is standard input.`,
		Example: `  toolguard policy fmt policy.toml             # print it
  toolguard policy fmt --write *.toml          # rewrite the files
  toolguard policy fmt --check policy.toml     # exit 1, with a message, if it would change`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usagef(cmd, `name the files, or "-" for standard input`)
			case write && check:
				return usagef(cmd, "--write and --check exclude each other")
			}
			return a.format(args, write, check)
		},
	}
	cmd.Flags().BoolVarP(&write, "write", "w", false, "rewrite the files instead of printing them")
	cmd.Flags().BoolVar(&check, "check", false, "print only the names of files that would change; exit 1 if there are any")
	return cmd
}

func (a *app) format(files []string, write, check bool) error {
	changed := false
	for _, name := range files {
		src, err := a.readFile(name)
		if err != nil {
			return err
		}
		shown := name
		if name == "-" {
			shown = "standard input"
		}
		out, err := tomlformat.Format(shown, src)
		if err != nil {
			return err
		}
		switch same := bytes.Equal(src, out); {
		case check && !same:
			changed = true
			a.out.FileName(shown)
		case check || write && same:
		case write && name != "-":
			if err := hostfs.Replace(name, out); err != nil {
				return err
			}
		default:
			if _, err := a.out.W.Write(out); err != nil {
				return fmt.Errorf("write the policy: %w", err)
			}
		}
	}
	if changed {
		return exitStatus(exitNo)
	}
	return nil
}

func newDiff(a *app) *cobra.Command {
	p := policyFlags{Options: policyload.Options{Reads: true}}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "diff [flags] OLD NEW",
		Short: "show what a policy allows that another one doesn't",
		Long: `toolguard policy diff: the differences in meaning between two policies, whatever their text is: what only the
new one allows ("wider"), and what only the old one allows ("narrower"). The exit status is 0 when their meaning
is the same, 1 when they differ, 2 when one doesn't load. Targets for which the same rules decide in the same way
share a line; --json has them all.`,
		Example: `  toolguard policy diff policy.toml.orig policy.toml
  git show HEAD:policy.toml > /tmp/old.toml && toolguard policy diff /tmp/old.toml policy.toml
  toolguard policy diff --json preset:readonly policy.toml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef(cmd, "name two policies, the old one and the new one")
			}
			old, err := p.With(args[0]).Load("")
			if err != nil {
				return err
			}
			new, err := p.With(args[1]).Load("")
			if err != nil {
				return err
			}
			changes := explain.Diff(old, new)
			err = a.answer(asJSON, output.ChangesJSON(changes), func() { a.out.Changes(changes) })
			if err == nil && len(changes) > 0 {
				err = exitStatus(exitNo)
			}
			return err
		},
	}
	p.defineContext(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newSchema(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "print the JSON Schema of the policy format",
		Long:  `toolguard policy schema: the JSON Schema of the policy format, for editors and other programs.`,
		Example: `  toolguard policy schema > toolguard.schema.json
  #:schema ./toolguard.schema.json       as the first line of a policy, for editors with TOML support (taplo)`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if _, err := a.out.W.Write(policyfile.Schema()); err != nil {
				return fmt.Errorf("write the schema: %w", err)
			}
			return nil
		},
	}
}

func newRender(a *app) *cobra.Command {
	var of written.Request
	cmd := &cobra.Command{
		Use:   "render --backend seatbelt --policy FILE",
		Short: "print the sandbox profile that a backend would use, on any system",
		Long: `toolguard policy render: the profile for macOS that exec would use, its parameters, and how far it enforces each rule,
as JSON. It looks at no file system: every path is taken as it is written, for a Mac. The port of egress is 3128 here,
and a free one in exec.`,
		Example: `  toolguard policy render --backend seatbelt --policy policy.toml --workspace /Users/me/project --home /Users/me`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if of.Dir, err = (&policyload.Options{}).Folder(); err != nil {
				return err
			}
			c, err := written.Compile(of, nil)
			if err != nil {
				return err
			}
			p, err := darwin.Render(c, darwin.Options{Home: of.Home, EgressPort: darwin.ExampleEgress})
			if err != nil {
				return err
			}
			return a.out.JSON(output.ProfileJSON(p))
		},
	}
	choiceFlag(cmd, new(string), "backend", "whose profile", "seatbelt")
	cmd.Flags().StringArrayVar(&of.Policies, "policy", nil, "a policy: `FILE` or preset:NAME; repeated ones are merged (default: the built-in one)")
	cmd.Flags().StringVar(&of.Workspace, "workspace", "", "relative paths are relative to `DIR` (default: the policy's workspace, else the current folder)")
	cmd.Flags().StringVar(&of.Home, "home", policyload.Home(), "the user's home is `DIR`")
	return cmd
}
