package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/calls"
	"github.com/toolguard/toolguard/internal/calls/host"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/tool"
	"github.com/toolguard/toolguard/internal/tool/gate"
)

// exitAsk is the exit status for a call about which a person has to be asked.
const exitAsk = 3

func newGate(a *app) *cobra.Command {
	var p policyFlags
	var mode, state string
	var batch bool
	cmd := &cobra.Command{
		Use:   "gate [flags] < CALL",
		Short: "whether a tool call may run",
		Long: `toolguard gate: decide whether a tool call may run. The call is read from standard input as one line of JSON, and the
answer is written as one:

  {"id":"1","tool":"Bash","arguments":{"command":"git status"}}

A call may also have source, agent, provider, model, group, session, invocation, cwd, owner, depth, traceparent and
tool_use_id. Nothing is executed or opened. The exit status is 0 if the call may run, 1 if it's denied, 3 if a person
has to be asked; 2 without an answer. With --batch, each line is a call and is answered by a line, in order; the exit
status is 0, or 2 if a line was no call.

With --state, calls are counted for max_invocations and only_after. A line that has the id and invocation of a call and
its "result" or "error" records that the call has ended.`,
		Example: `  echo '{"id":"1","tool":"Bash","arguments":{"command":"git status"}}' | toolguard gate --policy policy.toml
  toolguard gate --policy policy.toml --batch < calls.jsonl
  toolguard gate --policy policy.toml --gate strict < call.json     # deny what isn't understood`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := noArgs(cmd, args); err != nil {
				return err
			}
			if p.Tool != "" || p.Agent != "" {
				return usagef(cmd, "the call names its tool and its agent: leave --tool and --agent out")
			}
			e, err := a.engine(&p, "gate", mode, state, &calls.Recorder{Emit: func(event.Event) {}})
			if err != nil {
				return err
			}
			if batch {
				return a.gateBatch(e)
			}
			return a.gateOne(e)
		},
	}
	p.define(cmd)
	cmd.Flags().StringVar(&state, "state", "", "count calls in `FILE`, for a policy with max_invocations or only_after")
	cmd.Flags().StringVar(&mode, "gate", "", "`on`, off or strict: overrides $TOOLGUARD_GATE, which overrides the policy's [gate]; off doesn't apply to what the host's files turn on")
	cmd.Flags().BoolVar(&batch, "batch", false, "read calls as JSON lines from standard input, answer each with one")
	return cmd
}

// engine loads the policy and all that decides about calls, for a command.
func (a *app) engine(p *policyFlags, command, mode, state string, record *calls.Recorder) (*tool.Engine, error) {
	p.Snapshot = hostfs.NewSnapshot()
	if state != "" { // which no policy lets a tool write
		p.Own = append(p.Own, state, state+".lock", state+".new")
	}
	c, err := a.load(p, "")
	if err != nil {
		return nil, err
	}
	if key := tool.NotEnforced(c); key != nil {
		return nil, fmt.Errorf("%[1]s doesn't enforce %[2]s (%[3]s): take the key out of the policies that %[1]s reads", command, key.ID, key.Position)
	}
	return host.EngineWithHooks(&p.Options, c, state, mode, sandboxed(), record)
}

// gateOne answers one call.
func (a *app) gateOne(e *tool.Engine) error {
	text, err := io.ReadAll(io.LimitReader(a.in, gate.MaxCall+1))
	if err != nil {
		return fmt.Errorf("read the call: %w", err)
	}
	answer, code, err := gateLine(e, text)
	if err != nil {
		return err
	}
	if err := a.out.JSONLine(answer); err != nil {
		return err
	}
	if code != 0 {
		return exitStatus(code)
	}
	return nil
}

// gateLine answers one line, with the exit status of the answer. The error is that of a line that is neither a call nor the end of one, or
// that of the policy or the state; then the answer is the denial of the call.
func gateLine(e *tool.Engine, line []byte) (answer any, code int, err error) {
	c, end, err := gate.Parse(line)
	if err != nil {
		return nil, 0, err
	}
	if end != nil {
		err := e.End(end)
		if err != nil {
			code = exitNo
		}
		return output.GateEndJSON(end.ID, err), code, nil
	}
	a, err := e.Answer(c)
	if err != nil {
		return output.GateAnswerJSON(gate.Denied(c, string(policy.EngineError), nil, err.Error())), 0, err
	}
	return output.GateAnswerJSON(a), map[string]int{gate.Allow: 0, gate.Deny: exitNo, gate.Ask: exitAsk}[a.Decision], nil
}

// gateBatch answers JSON lines until there are no more. A line that is no call is denied.
func (a *app) gateBatch(e *tool.Engine) error {
	return a.answerLines(gate.MaxCall, func(line []byte, err error) (answer any, code int) {
		if err != nil {
			err = &gate.BadCall{Err: err}
		} else {
			answer, _, err = gateLine(e, line)
		}
		if bad := (*gate.BadCall)(nil); errors.As(err, &bad) {
			return output.GateAnswerJSON(gate.Denied(&gate.Call{}, gate.ReasonBadCall, nil, bad.Err.Error())), exitTrouble
		}
		return answer, 0
	})
}
