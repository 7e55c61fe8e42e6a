package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/internal/calls/ask"
	"github.com/toolguard/toolguard/internal/desktop"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/tool/message"
)

func newApprovals(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "approvals COMMAND",
		Short: "decide what tools ask for: list, watch, show, allow, deny",
		Long: `toolguard approvals: decide about tool calls and grants that wait for a person. A policy with [approvals] makes calls
wait; 'toolguard request' in a session asks for a grant. A process of a session can't decide.

The beginning of an approval's id is enough. The exit status is 1 if it was decided otherwise or is gone, and 2 for an
error.`,
		Example: `  toolguard approvals list
  toolguard approvals watch
  toolguard approvals allow 3fa9c0d1
  toolguard approvals allow 3fa9c0d1 --always
  toolguard approvals deny 3fa9c0d1`,
		Args: cobra.ArbitraryArgs,
		RunE: nameOne,
	}
	cmd.AddCommand(
		&cobra.Command{Use: "list", Short: "list what is pending, the oldest first", Example: "  toolguard approvals list", Args: noArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := approvals().List(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.out.ASCIIJSON(message.List{Approvals: append([]message.Approval{}, list...)})
			}
			a.out.Approvals(list, time.Now())
			return nil
		}},
		&cobra.Command{Use: "watch", Short: "show what is asked for, and each decision, until interrupted", Example: "  toolguard approvals watch", Args: noArgs, RunE: func(*cobra.Command, []string) error {
			return a.watchApprovals(asJSON)
		}},
		&cobra.Command{Use: "show ID", Short: "show all of an approval", Example: "  toolguard approvals show 3fa9c0d1", RunE: func(cmd *cobra.Command, args []string) error {
			found, err := findApproval(cmd, args)
			if err != nil {
				return err
			}
			if asJSON {
				return a.out.ASCIIJSON(found)
			}
			a.out.Approval(found, time.Now())
			return nil
		}},
		newApprovalsAllow(a, &asJSON),
		&cobra.Command{Use: "deny ID", Short: "deny something", Example: "  toolguard approvals deny 3fa9c0d1", RunE: func(cmd *cobra.Command, args []string) error {
			what := message.Deny
			return a.decide(cmd, args, message.Decided{Decision: &what}, asJSON)
		}})
	for _, c := range cmd.Commands() {
		jsonFlag(c, &asJSON)
	}
	return cmd
}

func approvals() ask.Source { return ask.All(policyload.Home(), os.Getenv) }

func (a *app) watchApprovals(asJSON bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var notices desktop.Notices
	defer notices.Close()
	changes := ask.Changes{
		Asked: func(p *message.Approval) error {
			notices.Notify(p)
			return a.out.ApprovalAsked(p, time.Now(), asJSON)
		},
		Ended: func(p *message.Approval, gone bool) error { return a.out.ApprovalEnded(p, gone, time.Now(), asJSON) },
	}
	return changes.Watch(ctx, approvals())
}

func newApprovalsAllow(a *app, asJSON *bool) *cobra.Command {
	var always bool
	var long time.Duration
	cmd := &cobra.Command{
		Use:     "allow ID",
		Short:   "allow something once, or always",
		Example: "  toolguard approvals allow 3fa9c0d1\n  toolguard approvals allow 3fa9c0d1 --always\n  toolguard approvals allow 3fa9c0d1 --for 10m    # a grant",
		RunE: func(cmd *cobra.Command, args []string) error {
			what := message.AllowOnce
			if always {
				what = message.AllowAlways
			}
			if cmd.Flags().Changed("for") && (always || long < time.Second) {
				return usagef(cmd, "--for is how long a grant is in force, a second or longer, such as 10m; --always has no end")
			}
			return a.decide(cmd, args, message.Decided{Decision: &what, For: long.Milliseconds()}, *asJSON)
		},
	}
	cmd.Flags().BoolVar(&always, "always", false, "store the rule that 'approvals show' shows, so that nobody is asked again")
	cmd.Flags().DurationVar(&long, "for", 0, "how `LONG` a grant is in force, such as 10m (default: as long as the session)")
	return cmd
}

// findApproval returns the pending approval that a command line names.
func findApproval(cmd *cobra.Command, args []string) (*message.Approval, error) {
	if len(args) != 1 || args[0] == "" {
		return nil, usagef(cmd, "name one approval, by the beginning of its id: 'toolguard approvals list' has them")
	}
	list, err := approvals().List(cmd.Context())
	if err != nil {
		return nil, err
	}
	found, err := ask.Find(list, args[0])
	if errors.Is(err, ask.ErrGone) {
		err = &status{exitNo, err}
	}
	return found, err
}

// decide decides about the approval that a command line names.
func (a *app) decide(cmd *cobra.Command, args []string, d message.Decided, asJSON bool) error {
	found, err := findApproval(cmd, args)
	if err == nil {
		err = ask.CheckDecision(found, &d)
	}
	if err != nil {
		return err
	}
	d.Via = "command"
	made, err := approvals().Decide(cmd.Context(), found.ID, d)
	if already := (*ask.DecidedError)(nil); errors.Is(err, ask.ErrGone) || errors.As(err, &already) {
		err = &status{exitNo, err}
	}
	if err != nil {
		return err
	}
	d.Effect = made.Effect
	return a.answer(asJSON, d, func() { a.out.Decided(found, d) })
}
