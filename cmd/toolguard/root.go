package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/api"
)

// The exit statuses that are toolguard's own.
const (
	exitNo            = 1   // the answer is no: denied, a policy with errors, two policies that differ
	exitTrouble       = 2   // there is no answer
	exitNotStarted    = 125 // exec, agent, tool run: nothing was started
	exitNotExecutable = 126 // exec, agent, tool run: the command may not be executed
	exitNotFound      = 127 // exec, agent, tool run: there is no such command
)

// app is the common state of the commands: the three streams.
type app struct {
	in  io.Reader
	out *output.Screen // answers
	err *output.Screen // every other message

	quiet bool // no remarks

	noticing sync.Mutex // see notice
}

// notice shows one line to people, from any goroutine.
func (a *app) notice(format string, args ...any) {
	a.noticing.Lock()
	defer a.noticing.Unlock()
	a.err.Message(format, args...)
}

// slow reports that toolguardd doesn't answer. A signal from then on ends the waiting.
func (a *app) slow() <-chan os.Signal {
	if !a.quiet {
		a.err.Message("toolguardd doesn't answer yet; Ctrl-C ends the waiting ('sudo systemctl status toolguardd' shows how it is)")
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals
}

// answer writes the answer of a command, as JSON or as text.
func (a *app) answer(asJSON bool, machines any, people func()) error {
	if asJSON {
		return a.out.JSON(machines)
	}
	people()
	return nil
}

// status ends a command with an exit status. A nil err means that the message has been written.
type status struct {
	code int
	err  error
}

func (s *status) Error() string {
	if s.err == nil {
		return fmt.Sprintf("exit status %d", s.code)
	}
	return s.err.Error()
}

func (s *status) Unwrap() error { return s.err }

// exitStatus is the error that ends a command with a status and without a message.
func exitStatus(code int) error { return &status{code: code} }

func usagef(cmd *cobra.Command, format string, args ...any) error {
	return &output.UsageError{Command: cmd.CommandPath(), Msg: fmt.Sprintf(format, args...)}
}

// top is a command of the first level, what help lists it under, and how to build it.
type top struct {
	name  string
	about string
	build func(*app) *cobra.Command
}

func tops() []top {
	const run, policies, happened, machine = "Run commands", "Write and ask policies", "See what happens", "This machine"
	return []top{
		{"exec", run, newExec},
		{"agent", run, newAgent},
		{"tool", run, newTool},
		{"policy", policies, newPolicy},
		{"check", policies, newCheck},
		{"explain", policies, newExplain},
		{"tools", policies, newTools},
		{"gate", policies, newGate},
		{"manifest", policies, newManifest},
		{"why", policies, newWhy},
		{"allow", policies, newAllow},
		{"approvals", happened, newApprovals},
		{"request", happened, newRequest},
		{"sessions", happened, newSessions},
		{"events", happened, newEvents},
		{"report", happened, newReport},
		{"audit", happened, newAudit},
		{"doctor", machine, newDoctor},
		{"version", machine, newVersion},
		{"completion", machine, newCompletion},
		{"man", machine, newMan},
	}
}

// run is the whole program; it returns the exit status. A panic mustn't look like the command's own exit status.
func (a *app) run(args []string) (code int) {
	defer func() {
		if p := recover(); p != nil {
			a.err.Crash(p, debug.Stack())
			if code = exitTrouble; len(args) > 0 && runs(args[0]) {
				code = exitNotStarted
			}
		}
	}()
	api.Slow = a.slow
	root := a.root(args)
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	err = cmp.Or(a.out.Failed(), err) // an answer that could not be written is an error, whatever it was
	if err == nil {
		return 0
	}
	code = exitTrouble
	if runs(cmd.Name()) {
		code = exitNotStarted
	}
	var s *status
	if errors.As(err, &s) {
		code = s.code
		if s.err == nil {
			return code
		}
	}
	a.err.Failure(err)
	return code
}

// runs reports whether a command of that name runs another one.
func runs(name string) bool {
	return name == "exec" || name == "agent" || name == "tool" || name == "run"
}

// root builds the command line, but only the one command that args name, when they name one: exec is started often, and
// each command costs it time.
func (a *app) root(args []string) *cobra.Command {
	var printVersion bool
	root := &cobra.Command{
		Use:   "toolguard",
		Short: "run commands under a policy that the kernel enforces",
		Long: `toolguard runs a command with access to what a policy grants and to nothing else, enforced by the kernel, and
reports which rule decided when something is denied.`,
		Example: `  toolguard exec -- python3 build.py                    # without a policy of your own: under the built-in one
  toolguard policy init                                 # a starter for this workspace, which exec uses from then on
  toolguard exec -- make test
  toolguard why 1                                       # why something was denied
  toolguard allow 1                                     # add to the policy what allows it
  toolguard agent claude                                # a coding agent, with what it needs and no more
  toolguard check fs read ~/.ssh/id_ed25519
  toolguard doctor                                      # what this machine can enforce`,
		Args:              cobra.ArbitraryArgs,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return noEmptyFlags(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			if printVersion {
				a.out.Version(buildInfo())
				return nil
			}
			return nameOne(cmd, args)
		},
	}
	root.Flags().BoolVar(&printVersion, "version", false, "print the version, as the command does")
	root.SetIn(a.in)
	root.SetOut(a.out.W)
	root.SetErr(a.err.W)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { a.out.Help(cmd) })
	root.SetFlagErrorFunc(flagError)
	cobra.EnableCommandSorting = false // they come in the order in which they're needed
	all := tops()
	for _, t := range all {
		if len(args) > 0 && args[0] == t.name {
			all = []top{t}
			break
		}
	}
	for _, t := range all {
		if !root.ContainsGroup(t.about) {
			root.AddGroup(&cobra.Group{ID: t.about})
		}
		cmd := t.build(a)
		cmd.GroupID = t.about
		root.AddCommand(cmd)
	}
	return root
}

// nameOne runs a command that only has subcommands: it prints the help where none is named, and rejects an unknown one.
func nameOne(parent *cobra.Command, args []string) error {
	if len(args) == 0 {
		return parent.Help()
	}
	parent.SuggestionsMinimumDistance = 2
	u := &output.UsageError{Command: parent.CommandPath(), Msg: fmt.Sprintf("there is no command %q", parent.CommandPath()+" "+args[0])}
	if near := parent.SuggestionsFor(args[0]); len(near) > 0 {
		u.Hint = fmt.Sprintf("did you mean %q?", parent.CommandPath()+" "+near[0])
	}
	return u
}
