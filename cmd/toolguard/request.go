package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/internal/calls/ask"
	"github.com/toolguard/toolguard/internal/calls/client"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/tool/message"
)

func newRequest(a *app) *cobra.Command {
	var g message.Grant
	var long, wait time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "request [flags] RESOURCE ACTION TARGET",
		Short: "ask the user for a grant, from within a session",
		Long: `toolguard request: ask the user for the smallest grant that allows something, from within a session, and wait for the
answer. It says whether the grant is in force now, or when the session starts again.

` + questionHelp + `

The exit status is 0 if the grant was given, 1 if it wasn't, 3 if nobody has decided yet, and 2 without an answer.`,
		Example: `  toolguard request fs read ~/.config/tool.toml
  toolguard request --why 'the tests download fixtures' --for 10m net connect https://example.com
  toolguard request --wait 0s command run -- git push`,
		ValidArgsFunction: completeQuestion,
		RunE: func(cmd *cobra.Command, args []string) error {
			if long < 0 || cmd.Flags().Changed("for") && long < time.Second {
				return usagef(cmd, "--for is how long the grant is needed, a second or longer, such as 10m")
			}
			q, err := question(cmd, args)
			if err != nil {
				return err
			}
			if q.Resource == policy.FS { // relative to this process, as any program has it
				if q.Target, err = filepath.Abs(q.Target); err != nil {
					return err
				}
			}
			address := os.Getenv("TOOLGUARD_SOCKET")
			if address == "" {
				return a.notRequested(q)
			}
			g.Resource, g.Action, g.Target, g.Argv, g.For = args[0], args[1], q.Target, q.Argv, long.Milliseconds()
			if !cmd.Flags().Changed("wait") {
				wait = -1
			}
			r, err := ask.Request(cmd.Context(), (&client.Client{Address: address}).Do, g, wait)
			if err == nil {
				err = a.answer(asJSON, r, func() { a.out.Requested(&r) })
			}
			switch d := r.Approval.Decision; {
			case err != nil:
				return err
			case r.Open:
				return exitStatus(exitAsk)
			case d == nil || *d == message.Deny:
				return exitStatus(exitNo)
			}
			return nil
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().StringVar(&g.Why, "why", "", "the `TEXT` that the user sees as the reason")
	cmd.Flags().DurationVar(&long, "for", 0, "how `LONG` the grant is needed, such as 10m (default: as long as the session)")
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait at most that `LONG`; 0s doesn't wait (default: until the request expires)")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// notRequested reports that there is nobody to ask, and the rule that would allow it.
func (a *app) notRequested(q explain.Question) error {
	p := policyFlags{quiet: true}
	var answer explain.Answer
	if c, err := a.load(&p, ""); err == nil {
		_, answer = explain.Ask(c, hostfs.Machine{}, q)
	}
	a.err.NotRequested(answer.Suggest, answer.Advice)
	return exitStatus(exitTrouble)
}
