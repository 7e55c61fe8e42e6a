package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/grant/lastrun"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/userfiles"
)

func newWhy(a *app) *cobra.Command {
	var workspace string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why [flags] [N]",
		Short: "explain what the last run was denied",
		Long: `toolguard why: lists again what the last 'toolguard exec' in this workspace was denied, numbered as in its report. With
a number: which rules matched in that denial, which of them won and why, under the policy of that run as it is now.

The denials are stored in $XDG_STATE_HOME/toolguard (or ~/.local/state/toolguard), of the last run of each workspace
alone, and none of a run with --report never.`,
		Example: `  toolguard why
  toolguard why 2
  toolguard why --json | jq -r '.denials[].target'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef(cmd, "name one number: %q is a second one", args[1])
			}
			run, err := lastRun(workspace)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return a.answer(asJSON, output.RunJSON(run), func() { a.out.LastRun(run) })
			}
			n, err := denialNumber(cmd, run, args[0])
			if err != nil {
				return err
			}
			return a.explainDenial(run, n, asJSON)
		},
		ValidArgsFunction: completeDenials(&workspace),
	}
	workspaceFlag(cmd, &workspace)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func workspaceFlag(cmd *cobra.Command, p *string) {
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(p, "workspace", "", "the last run in `DIR` (default: in the current folder, or the nearest one above it)")
	if err := cmd.MarkFlagDirname("workspace"); err != nil {
		panic(err) // a mistake in this program
	}
}

// completeDenials completes the numbers of the last run's denials.
func completeDenials(workspace *string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) (words []string, _ cobra.ShellCompDirective) {
		if run, err := lastRun(*workspace); err == nil {
			for i, d := range run.Denials {
				words = append(words, fmt.Sprintf("%d\t%s %s", i+1, d.Capability, output.Clean(d.Target)))
			}
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// lastRun returns the stored record of the last run in a workspace; "" is the current folder's.
func lastRun(workspace string) (*userfiles.Run, error) {
	if workspace == "" {
		dir, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("find the current folder: %w", err)
		}
		workspace = dir
	}
	run, err := policyload.OwnFolders().LastRun(workspace)
	if err == nil && run == nil {
		err = errors.New("no denials are stored of a run in this folder or above: the last one had none, or they couldn't be seen " +
			"('toolguard doctor' shows what that needs), or it was elsewhere (--workspace DIR)")
	}
	return run, err
}

// denialNumber reads the number of a denial.
func denialNumber(cmd *cobra.Command, run *userfiles.Run, word string) (int, error) {
	n, err := strconv.Atoi(word)
	if err != nil || n < 1 || n > len(run.Denials) {
		return 0, usagef(cmd, "%q is no denial of the last run: they have the numbers 1 to %d", word, len(run.Denials))
	}
	return n, nil
}

// explainDenial asks the policy of the run again.
func (a *app) explainDenial(run *userfiles.Run, n int, asJSON bool) error {
	d := &run.Denials[n-1]
	asked := lastrun.Grant(d)
	q, ok := asked.Question()
	if !ok { // no rule is about it
		return a.answer(asJSON, output.WhyJSON(n, d, nil), func() { a.out.Denial(run, n) })
	}
	p, by := flagsOf(run)
	c, err := p.Load("")
	if err != nil {
		return fmt.Errorf("the policy of that run can't be read again: %w", err)
	}
	if q.Resource == policy.Commands && len(q.Argv) == 0 {
		q.Argv = []string{d.Target}
	}
	e, here := by.evaluator(c).explain(q)
	if q.Resource == policy.Commands {
		e.Answer.Suggest = d.Suggest // the denial's own suggestion has the arguments, if they are known
	}
	j := output.ExplanationJSON(e, here)
	return a.answer(asJSON, output.WhyJSON(n, d, &j), func() { a.out.Explained(run, n, q, e, here) })
}
