package main

import (
	"cmp"
	"errors"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/calls/ask"
	"github.com/toolguard/toolguard/internal/calls/host"
	"github.com/toolguard/toolguard/internal/desktop"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/session"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/launch"
	"github.com/toolguard/toolguard/internal/terminal"
	"github.com/toolguard/toolguard/internal/tool/access"
)

// execFlags are the flags of exec.
type execFlags struct {
	policyFlags
	backendFlags
	events  string
	format  string
	report  string
	passFDs []int
	dryRun  bool
	json    bool
	linger  bool
	ask     bool
	queue   *event.Queue       // of events, if it's open before the session begins
	inner   *terminal.Announce // of exec --ask: reports where the calls are served; nil without --ask
	env     []string           // what a coding agent gets that the environment doesn't have
	begin   func(backend.Report, *policy.Compiled)

	unrecorded bool // the command wasn't started, as no event can be written
}

func newExec(a *app) *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec [flags] [--] COMMAND [ARG...]",
		Short: "run a command under a policy",
		Long: `toolguard exec: run a command, and everything it starts, with access to what the policy grants and to nothing else.

The exit status is the command's own, 128+N when signal N ended it, 125 when toolguard failed or the policy can't be
enforced (nothing was started), 126 when the command may not be executed, 127 when there is no such command. Standard
output belongs to the command alone. Denials are reported on standard error after the command ends; with --report json
as one line, {"toolguard":{...}}, for models: each denial with the rule that decided, and the command that requests the
grant. Events that go where the command can write too (--events -, a pipe) aren't trustworthy, as it can write false
ones; a file is rejected there.

Flags end at the first word that isn't one, or at "--": what follows is the command with its own flags.`,
		Example: `  toolguard exec -- python3 build.py                            # under the policy of 'policy init', or the default
  toolguard exec --policy ../policy.toml -- make test
  toolguard exec --policy preset:python --policy ../more.toml -- python3 build.py
  toolguard exec --policy ../policy.toml --dry-run              # what would be enforced here, and what wouldn't
  toolguard exec --policy ../policy.toml --limits memory=1GiB,wall_time=10m -- ./train.sh
  toolguard exec --policy ../policy.toml --events ../denials.jsonl -- ./untrusted`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !f.dryRun {
				return usagef(cmd, "name the command to run")
			}
			if err := f.checkSupport(cmd); err != nil {
				return err
			}
			return a.exec(&f, args)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().SetInterspersed(false)
	f.policyFlags.define(cmd)
	f.defineRun(cmd)
	cmd.Flags().IntSliceVar(&f.passFDs, "pass-fd", nil, "pass descriptor `N` to the command, in addition to 0, 1 and 2")
	cmd.Flags().BoolVar(&f.linger, "linger", false, "leave the command's other processes running when it ends")
	return cmd
}

// defineRun adds the flags of a command that runs another one under a policy.
func (f *execFlags) defineRun(cmd *cobra.Command) {
	f.backendFlags.define(cmd)
	cmd.Flags().StringVar(&f.events, "events", "", "append events to `FILE`; - is standard output, fd:N an open descriptor")
	choiceFlag(cmd, &f.format, "format", "how events are written", "ocsf", "ocsf-1.8", "ecs", "text")
	choiceFlag(cmd, &f.report, "report", "when to report denials; auto: when there are some; json: always, as one line of JSON", "auto", "always", "never", "json")
	cmd.Flags().BoolVar(&f.ask, "ask", false, "ask on this terminal about calls and grants that wait for a person")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be enforced and start nothing")
	cmd.Flags().StringVar(&f.Limits, "limits", "", "limits `K=V,…` in addition to the policy's, such as memory=1GiB,pids=64; the smaller one applies")
	cmd.Flags().BoolVar(&f.quiet, "quiet", false, "no remarks: on what isn't enforced, on rules that match nothing, on which policy is used, on denials that can't be seen")
	cmd.Flags().BoolVar(&f.json, "json", false, "with --dry-run: print JSON, for machines")
}

// checkSupport rejects flags that this build doesn't support, before anything is read.
func (f *execFlags) checkSupport(cmd *cobra.Command) error {
	switch {
	case f.json && !f.dryRun:
		return usagef(cmd, "--json goes with --dry-run")
	case f.ask && f.dryRun:
		return usagef(cmd, "--ask goes with a command, not with --dry-run")
	}
	for _, fd := range f.passFDs {
		if fd < 3 {
			return usagef(cmd, "--pass-fd %d: the command always keeps 0, 1 and 2; name one from 3 on", fd)
		}
	}
	return nil
}

// ready completes the flags for a command line; empty where there is none.
func (f *execFlags) ready(a *app, argv []string) {
	f.ownEvents()
	if len(argv) > 0 {
		f.Command = argv[0]
	}
	a.quiet = f.quiet
	if f.Ensure = !f.dryRun; f.Ensure && f.Snapshot == nil {
		f.Snapshot = hostfs.NewSnapshot()
	}
}

func (a *app) exec(f *execFlags, argv []string) error {
	f.ready(a, argv)
	if f.dryRun {
		return a.dryRun(f)
	}
	if f.ask {
		if f.inner = terminal.Inner(); f.inner == nil {
			return askAtTerminal()
		}
	}
	if launch.HasChildren() {
		code, err := launch.Reexec()
		return cmp.Or(err, exitStatus(code))
	}
	r, err := a.runSession(f, argv)
	return a.finish(f, r, err)
}

// finish writes the line of --report json.
func (a *app) finish(f *execFlags, r session.Result, err error) error {
	if f.report == "json" {
		return cmp.Or(err, a.err.Trailer(r, exitCode(err)))
	}
	return err
}

// runSession runs the command, and reports what it was denied.
func (a *app) runSession(f *execFlags, argv []string) (r session.Result, err error) {
	s, err := session.Begin(f.report == "never" && f.events == "", f.daemon != "none" && f.backend != "landlock")
	if err != nil {
		return r, err
	}
	defer a.endSession(s)
	events, end, err := a.openEvents(f)
	if err != nil {
		return r, err
	}
	defer end()
	f.OwnOf = host.Own
	c, err := a.compile(f, s.Tmp)
	var server *host.Server
	if err == nil {
		server, c, err = host.Prepare(a.hostConfig(f), c)
	}
	var serves []session.Server
	if err == nil {
		serves, err = f.serves(server, c)
	}
	if err != nil {
		if events != nil {
			e := session.NotStarted(session.Config{Tool: f.Tool, Agent: f.Agent, Argv: argv}, "", err)
			events.Write(&e)
		}
		return r, err
	}
	a.warnUnmatched(f, c)
	r, err = s.Run(session.Config{
		Policy: c, System: hostfs.Machine{}, Tool: f.Tool, Agent: f.Agent, Backend: f.backend, Daemon: f.daemon, AllowDegraded: f.allowed(c),
		Argv: argv, Env: append(access.Environ(), f.env...), PassFDs: f.passFDs, Events: events, Linger: f.linger, Begins: a.begins(f, c),
		Serve: serves, Notice: func(s string) { a.notice("%s", s) },
	})
	if err == nil || len(r.Denials) > 0 {
		a.reportDenials(f, c, r, err == nil && r.Code == 0, a.saveRun(f, c, argv, r))
	}
	if err != nil {
		f.unrecorded = errors.Is(err, session.ErrUnrecorded)
		return r, a.startError(c, err)
	}
	if r.Code != 0 {
		return r, exitStatus(r.Code)
	}
	return r, nil
}

// exitCode is the exit status of exec that ends with an error, or without one.
func exitCode(err error) int {
	var s *status
	switch {
	case err == nil:
		return 0
	case errors.As(err, &s):
		return s.code
	}
	return exitNotStarted
}

// askAtTerminal runs this command line again, and asks at the terminal what its session's calls wait for.
func askAtTerminal() error {
	var notices desktop.Notices
	defer notices.Close()
	code, err := terminal.Run(terminal.Config{
		Args: os.Args[1:], Appeared: notices.Notify,
		Source: func(address string) (ask.Source, error) { return ask.Connect(address), nil },
	})
	if err == nil && code != 0 {
		err = exitStatus(code)
	}
	return err
}

// begins reports what isn't enforced, unless --quiet.
func (a *app) begins(f *execFlags, c *policy.Compiled) func(backend.Report) {
	switch {
	case f.quiet:
		return nil
	case f.begin != nil:
		return func(r backend.Report) { f.begin(r, c) }
	}
	return a.err.Begin
}

// warnUnmatched warns of names without a table, and of the rules that can match nothing here.
func (a *app) warnUnmatched(f *execFlags, c *policy.Compiled) {
	if f.quiet {
		return
	}
	a.warnUnknown(&f.policyFlags)
	for _, w := range explain.Unmatched(c, hostfs.Machine{}) {
		a.err.Warn("%s", w)
	}
}

// endSession leaves nothing of the session behind.
func (a *app) endSession(s *session.Session) {
	if err := s.Close(); err != nil {
		a.err.Warn("not everything of the session could be removed: %v", err)
	}
}

// reportDenials is the report after the command.
func (a *app) reportDenials(f *execFlags, c *policy.Compiled, r session.Result, well, kept bool) {
	switch {
	case f.report == "always" || f.report == "auto" && (len(r.Denials) > 0 || r.WhyLost != ""):
		if well && f.report != "always" {
			r.RemovedEnv = nil // the command succeeded without them
		}
		rest := ""
		switch {
		case kept:
			rest = " ('toolguard why' lists them)"
		case f.events == "":
			rest = " (all of them with --events FILE)"
		}
		a.err.Report(r, c.Name, output.ReportOptions{Rest: rest, Numbered: kept, Lines: output.ReportLines})
	case f.report == "auto" && !well && !r.Visible && !f.quiet:
		policies := slices.Concat(f.Presets, f.Files)
		if f.UserPolicy != "" && f.Presets == nil {
			policies = nil // check uses it, too
		}
		a.err.DenialsUnseen(r, policies)
	}
}

// startError chooses the exit status of a command that never ran.
func (a *app) startError(c *policy.Compiled, err error) error {
	var notEnforceable *session.NotEnforceable
	var missing *launch.NotFound
	var denied *launch.NotExecutable
	switch {
	case errors.As(err, &notEnforceable):
		a.err.NotEnforceable(notEnforceable.Report, c.Name)
		return exitStatus(exitNotStarted)
	case errors.As(err, &missing):
		return &status{exitNotFound, err}
	case errors.As(err, &denied):
		return &status{exitNotExecutable, err}
	}
	return err
}

// dryRun prints the enforceability report; the exit status is what exec would begin with.
func (a *app) dryRun(f *execFlags) (err error) {
	tmp, remove, err := launch.MakeTempDir(api.TmpPrefix) // the report is about a session, which has one
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	c, err := a.compile(f, tmp)
	if err != nil {
		return err
	}
	a.warnUnmatched(f, c)
	r, err := backend.ReportFor(c, f.backend, f.daemon, f.allowed(c))
	if err != nil {
		return err
	}
	err = a.answer(f.json, output.EnforceabilityJSON(r, c), func() { a.out.Enforceability(r, c) })
	if err == nil && len(r.Blocking) > 0 {
		err = exitStatus(exitNotStarted)
	}
	return err
}
