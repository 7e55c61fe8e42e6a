package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/internal/policy/imports"
	"github.com/toolguard/toolguard/internal/policy/policyload"
)

// exitLeft is the exit status of an import that isn't complete.
const exitLeft = 3

func newImport(a *app) *cobra.Command {
	var from string
	cmd := &cobra.Command{
		Use:   "import --from FORMAT FILE",
		Short: "print another system's policy as one of toolguard's",
		Long: `toolguard policy import: prints the policy that FILE is in another system, never a wider one. A comment at each rule
names the key that it comes from. What has no equivalent is on standard error, one a line, and the exit status is 3
then. Where the other system is open unless it's configured, the policy has the stricter choice as a key.

FORMAT is jp (config.toml), openclaw (openclaw.json or exec-approvals.json), clawdbot (clawdbot.json), agents-kt (a
permission manifest), llm-proxy (config.yaml) or claude-code (settings.json).`,
		Example: `  toolguard policy import --from claude-code .claude/settings.json > policy.toml
  toolguard policy import --from openclaw ~/.openclaw/openclaw.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef(cmd, "name one file, or - for standard input")
			}
			text, err := a.readFile(args[0])
			if err != nil {
				return err
			}
			r, err := imports.Import(from, args[0], text)
			if err != nil {
				return err
			}
			if err := policyload.Try("imported.toml", r.Policy, r.Tools); err != nil {
				return fmt.Errorf("the policy that %s is doesn't load: %w", args[0], err)
			}
			if _, err := a.out.W.Write(r.Policy); err != nil {
				return fmt.Errorf("write the policy: %w", err)
			}
			for _, line := range r.Left {
				a.err.Message("%s", line)
			}
			if len(r.Left) > 0 {
				return exitStatus(exitLeft)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "the format of FILE: `FORMAT`")
	complete(cmd, "from", imports.Formats()...)
	return cmd
}
