package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/calls"
	"github.com/toolguard/toolguard/internal/calls/host"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/session"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/launch"
	"github.com/toolguard/toolguard/internal/session/streams"
	"github.com/toolguard/toolguard/internal/tool/access"
	"github.com/toolguard/toolguard/internal/tool/gate"
)

// maxStream is how much of each stream of a tool --json prints, in bytes.
const maxStream = 1 << 20

func newTool(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tool",
		Short:   "run the local tools of a policy",
		Example: `  echo '{"pattern":"TODO"}' | toolguard tool run --policy ../policy.toml search`,
		Args:    cobra.ArbitraryArgs,
		RunE:    nameOne,
	}
	cmd.AddCommand(newToolRun(a))
	return cmd
}

// toolFlags are the flags of tool run.
type toolFlags struct {
	execFlags
	invocation string
}

func newToolRun(a *app) *cobra.Command {
	var f toolFlags
	cmd := &cobra.Command{
		Use:   "run [flags] NAME < ARGUMENTS",
		Short: "run a local tool on behalf of a model",
		Long: `toolguard tool run: run the command of a local tool, one whose table in the policy has "command", as exec --tool NAME
does. The arguments are read from standard input: a JSON object, which must match the tool's schema. Each is a whole
element of the command line, never an option, and no shell reads it.

The call passes what the policy says about calls: which tools the caller sees, the gate, hooks, constraints. Only the
flags name the caller. Nobody is asked: a call that needs an approval doesn't run.

The output and the exit status are the command's; the exit status is 125 if it wasn't started. Its input is empty. With
--json, its output is printed as JSON with the denials, of each stream at most 1 MiB.`,
		Example: `  echo '{"pattern":"TODO"}' | toolguard tool run --policy ../policy.toml search
  toolguard tool run --policy ../policy.toml --agent coder --json search < arguments.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 1:
				return usagef(cmd, "name one tool")
			case f.Tool != "":
				return usagef(cmd, "NAME is the tool: leave --tool out")
			case f.ask:
				return usagef(cmd, "--ask goes with exec: tool run asks nobody")
			case f.json && !f.dryRun && slices.Contains([]string{"-", "fd:1", "fd:2"}, f.events):
				return usagef(cmd, "--events %s: with --json, only the result is written there", f.events)
			}
			f.Tool = args[0]
			if f.dryRun {
				return a.exec(&f.execFlags, nil)
			}
			return a.runTool(&f)
		},
	}
	f.policyFlags.define(cmd)
	f.defineCaller(cmd)
	cmd.Flags().StringVar(&f.invocation, "invocation", "", "the invocation `ID` of the agent, by which a policy with max_invocations or only_after counts calls")
	f.defineRun(cmd)
	cmd.Flags().Lookup("json").Usage = "print the output and the denials as JSON, for machines"
	return cmd
}

// runTool runs a local tool with the arguments on standard input.
func (a *app) runTool(f *toolFlags) error {
	if launch.HasChildren() { // before standard input is read
		code, err := launch.Reexec()
		return cmp.Or(err, exitStatus(code))
	}
	queue, written, err := a.openEvents(&f.execFlags)
	if err != nil {
		return err
	}
	defer written()
	f.queue = queue
	argv, end, err := a.toolCommand(f)
	if err != nil {
		return err
	}
	if err := streams.NoInput(); err != nil {
		return err
	}
	f.ready(a, argv)
	if f.json {
		err = a.runToolJSON(&f.execFlags, argv)
	} else {
		r, failed := a.runSession(&f.execFlags, argv)
		err = a.finish(&f.execFlags, r, failed)
	}
	if s := (*status)(nil); errors.As(err, &s) && s.err != nil { // it wasn't started
		s.code = exitNotStarted
	}
	if failed := end(err == nil); failed != nil {
		a.err.Warn("the end of the call can't be recorded, so no call runs that must come after it: %v", failed)
	}
	return err
}

// toolCommand decides on the call, and returns the command line that it runs. end records that the call has ended, without an error or with one.
func (a *app) toolCommand(f *toolFlags) (argv []string, end func(ok bool) error, err error) {
	arguments, err := io.ReadAll(io.LimitReader(a.in, gate.MaxCall+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read the arguments: %w", err)
	}
	state := ""
	if policyload.OwnFolders().State != "" { // without, a policy that counts calls is an error
		if state, err = host.StateFolder(); err != nil {
			return nil, nil, err
		}
		state = filepath.Join(state, "calls.json")
	}
	c := &gate.Call{
		ID: rand.Text(), Tool: f.Tool, Arguments: arguments, Agent: f.Agent, Provider: f.Caller.Provider, Model: f.Caller.Model, Group: f.Caller.Group,
		Owner: f.Caller.Owner, Depth: int(f.Caller.Depth), Invocation: f.invocation,
	}
	record := &calls.Recorder{Emit: func(e event.Event) {
		if e.Tool, e.Agent, e.Mode = f.Tool, f.Agent, "enforce"; f.queue != nil {
			f.queue.Write(&e)
		}
	}}
	f.ownEvents()
	e, err := a.engine(&f.policyFlags, "tool run", "", state, record)
	if err == nil {
		argv, err = e.Local(c, f.visibilityCaller())
	}
	if err != nil {
		record.NotRun(c, err)
		return nil, nil, err
	}
	return argv, func(ok bool) error {
		if e.Store == nil {
			return nil
		}
		return e.End(&gate.End{ID: c.ID, Invocation: c.Invocation, OK: ok})
	}, nil
}

// runToolJSON runs the command and prints its output as JSON.
func (a *app) runToolJSON(f *execFlags, argv []string) error {
	captured, err := streams.Begin(maxStream)
	if err != nil {
		return err
	}
	a.out, a.err = output.NewFile(captured.Out()), output.NewFile(captured.Err())
	f.report = "json"
	r, err := a.runSession(f, argv)
	stdout, stderr, truncated, failed := captured.End()
	if s := (*status)(nil); err != nil && !(errors.As(err, &s) && s.err == nil && r.Session != "") {
		return err // the command wasn't started
	}
	if failed != nil {
		return failed
	}
	return cmp.Or(a.out.JSON(output.ToolRunJSON(r, exitCode(err), stdout, stderr, truncated)), err)
}

// hostConfig is what serves the calls of a session needs to know.
func (a *app) hostConfig(f *execFlags) *host.Config {
	h := &host.Config{Options: &f.Options, Ask: f.ask, Notice: a.notice, Check: func(c *policy.Compiled) error {
		r, err := backend.ReportFor(c, f.backend, f.daemon, f.allowed(c))
		if err == nil && len(r.Blocking) > 0 {
			err = fmt.Errorf("%s can't be enforced here: %s", r.Blocking[0].ID, r.Blocking[0].Why)
		}
		return err
	}}
	if f.inner != nil {
		h.Serves = f.inner.Serves
	}
	return h
}

// serves returns what the session serves to the command: the calls, and with --tool the tool's access.
func (f *execFlags) serves(calls *host.Server, c *policy.Compiled) (list []session.Server, err error) {
	if calls != nil {
		list = append(list, func(of session.Serving) (*session.Served, error) { return calls.Begin(of, c) })
	}
	if f.Tool != "" {
		text, err := access.New(c, f.Tool).JSON()
		if err != nil {
			return nil, err
		}
		list = append(list, session.Provide(access.Variable, text))
	}
	return list, nil
}
