package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/tool/manifest"
	"github.com/toolguard/toolguard/internal/tool/manifest/load"
)

func newManifest(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "manifest",
		Short: "review what a policy permits: each tool, agent and stage",
		Example: `  toolguard manifest generate --policy policy.toml > permissions.json
  toolguard manifest verify permissions.json new.json           # what only the new one permits
  toolguard manifest compare permissions.json --events events.jsonl`,
		Args: cobra.ArbitraryArgs,
		RunE: nameOne,
	}
	cmd.AddCommand(newManifestGenerate(a), newManifestVerify(a), newManifestCompare(a))
	return cmd
}

func newManifestGenerate(a *app) *cobra.Command {
	p := policyFlags{Options: policyload.Options{Reads: true}}
	cmd := &cobra.Command{
		Use:   "generate [flags]",
		Short: "print what each tool, agent and stage may touch, as JSON",
		Long: `toolguard manifest generate: what each tool, agent and stage of a policy may touch, with risks and constraints, and a
digest. It's the same on every machine: paths are relative to the workspace or the home, nothing is detected, and the
machine's own policies, which only restrict, aren't in it.`,
		Example: `  toolguard manifest generate --policy policy.toml > permissions.json
  toolguard manifest generate --policy policy.toml | jq '.tools[] | {name, risk, declared}'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if p.Tool != "" || p.Agent != "" {
				return usagef(cmd, "a manifest has every tool and agent: leave --tool and --agent out")
			}
			if err := a.useUserPolicy(&p); err != nil {
				return err
			}
			m, err := load.Generate(p.Options)
			if err != nil {
				return err
			}
			text, err := m.JSON()
			if err != nil {
				return err
			}
			if _, err := a.out.W.Write(text); err != nil {
				return fmt.Errorf("write the manifest: %w", err)
			}
			return nil
		},
	}
	p.define(cmd)
	return cmd
}

func newManifestVerify(a *app) *cobra.Command {
	var failOn string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify [flags] OLD NEW",
		Short: "list what only the new one of two manifests permits",
		Long: `toolguard manifest verify: every widening between two manifests, with a code, a severity, the rule that permits it and,
for access, a question of 'toolguard check' that the old policy denies and the new one allows. It compares decisions,
not texts. The exit status is 0, 1 with a widening at or above --fail-on, and 2 without an answer, also where the
digest of a manifest is wrong.`,
		Example: `  toolguard manifest verify permissions.json new.json
  toolguard manifest verify --fail-on high --json permissions.json new.json
  toolguard manifest verify --json permissions.json new.json | jq -c '.widenings[].witness | values'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef(cmd, "name two manifests, the old one and the new one")
			}
			old, err := load.Read(args[0])
			if err != nil {
				return err
			}
			new, err := load.Read(args[1])
			if err != nil {
				return err
			}
			r, err := manifest.Verify(old, new)
			if err != nil {
				return fmt.Errorf("compare the manifests: %w", err)
			}
			err = a.answer(asJSON, r, func() { a.out.Widenings(r) })
			if err == nil && r.Fails(manifest.Severity(failOn)) {
				err = exitStatus(exitNo)
			}
			return err
		},
	}
	choiceFlag(cmd, &failOn, "fail-on", "the least severity for exit status 1", "medium", "info", "high")
	jsonFlag(cmd, &asJSON)
	return cmd
}

func newManifestCompare(a *app) *cobra.Command {
	var asJSON bool
	var file, workspace string
	cmd := &cobra.Command{
		Use:   "compare MANIFEST --events FILE",
		Short: "compare what a manifest permits with what was done",
		Long: `toolguard manifest compare: what the events of sessions report and the manifest doesn't permit ("undeclared": widen the
policy, or remove the use), what it permits and nothing used, and the tools that have no table. The exit status is 1 if
something is undeclared. Events of files, hosts and variables exist only where they were denied; those of commands with
audit = "exec" in the policy.`,
		Example: `  toolguard exec --events events.jsonl -- make test
  toolguard manifest compare permissions.json --events events.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || file == "" {
				return usagef(cmd, "name one manifest, and the events: --events FILE")
			}
			m, err := load.Read(args[0])
			if err != nil {
				return err
			}
			at := manifest.Place{Workspace: workspace, Home: policyload.Home()}
			if workspace == "" {
				if at.Workspace, err = new(policyload.Options).Folder(); err != nil {
					return err
				}
			}
			var uses []manifest.Use
			if err := a.eachEvent(nil, "", file, func(e *event.Event) { uses = append(uses, manifest.Uses(e)...) }); err != nil {
				return err
			}
			c, err := manifest.Compare(m, at, uses)
			if err != nil {
				return err
			}
			err = a.answer(asJSON, c, func() { a.out.Uses(c) })
			if err == nil && len(c.Undeclared) > 0 {
				err = exitStatus(exitNo)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&file, "events", "", "the events in `FILE`, as --format ocsf has them, or on standard input (-)")
	cmd.Flags().StringVar(&workspace, "workspace", "", "the sessions' workspace is `DIR` (default: the current folder)")
	jsonFlag(cmd, &asJSON)
	return cmd
}
