package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/session"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// plainScreen is a screen without colours, and what is on it.
func plainScreen() (*output.Screen, *strings.Builder) {
	var b strings.Builder
	return output.New(&b, false, false), &b
}

// A command that failed where denials can't be seen ends with two lines or three, on a terminal or not. Removed variables are named where one failed.
func TestReportOfFailure(t *testing.T) {
	unseen := "toolguard: it ended with 1, and whether something was denied can't be seen by this user\n" +
		"  'toolguard check --policy p.toml fs read PATH' shows what the policy allows; 'toolguard doctor' shows what is needed to see denials (--quiet: without this)\n"
	removed := session.Result{Summary: denials.Summary{Visible: true, Total: 1, Denials: []denials.Denial{{Count: 1, Event: event.Event{
		Capability: "read", Target: "/home/u/.ssh/key0", Reason: string(policy.NoRule),
	}}}}}
	removed.RemovedEnv = []string{"A_TOKEN"}
	for _, row := range []struct {
		report string
		quiet  bool
		r      session.Result
		well   bool
		want   string
	}{
		{"auto", false, session.Result{Code: 1}, false, unseen},
		{"auto", false, session.Result{Code: 1, NoUnix: true}, false, unseen + "  no unix socket can be made here, which tmux, screen and ssh-agent need: docs/BACKENDS.md#everyday-commands\n"},
		{"auto", true, session.Result{Code: 1, NoUnix: true}, false, ""},
		{"never", false, session.Result{Code: 1}, false, ""},
		{"auto", false, session.Result{Code: 1, Summary: denials.Summary{Visible: true}}, false, ""},
		{"auto", false, session.Result{}, true, ""},
		{"auto", false, removed, true, "toolguard: 1 denial (policy x)\n  read  /home/u/.ssh/key0  no rule allows it\n"},
		{"auto", false, removed, false, "toolguard: 1 denial (policy x)\n  read  /home/u/.ssh/key0  no rule allows it\n  not in its environment: A_TOKEN\n"},
		{"always", false, removed, true, "toolguard: 1 denial (policy x)\n  read  /home/u/.ssh/key0  no rule allows it\n  not in its environment: A_TOKEN\n"},
	} {
		s, b := plainScreen()
		f := execFlags{report: row.report, policyFlags: policyFlags{quiet: row.quiet, Options: policyload.Options{Files: []string{"p.toml"}}}}
		(&app{err: s}).reportDenials(&f, &policy.Compiled{Name: "x"}, row.r, row.well, false)
		if b.String() != row.want {
			t.Errorf("%+v: the report is\n%s\nnot\n%s", row, b, row.want)
		}
	}
}

// TestEveryCommandHelps: every command says what it's for and shows how it's used.
func TestEveryCommandHelps(t *testing.T) {
	s, _ := plainScreen()
	a := &app{in: strings.NewReader(""), out: s, err: s}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: %q isn't a short text without a full stop", cmd.CommandPath(), cmd.Short)
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Long + "\n" + cmd.Example) {
			if n := utf8.RuneCountInString(line); n > 121 {
				t.Errorf("%s: a line of %d characters: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(a.root(nil))
}

// TestCrash: a mistake in toolguard ends exec with 125, not with Go's own 2, which could be the command's.
func TestCrash(t *testing.T) {
	for _, row := range []struct {
		args []string
		code int
	}{{[]string{"exec", "--dry-run"}, exitNotStarted}, {[]string{"check", "fs", "read", "x"}, exitTrouble}} {
		s, b := plainScreen()
		a := &app{in: strings.NewReader(""), err: s} // nothing to write answers to
		if got := a.run(row.args); got != row.code || !strings.Contains(b.String(), "toolguard: a mistake in toolguard: ") {
			t.Errorf("%v ends with %d, not %d:\n%s", row.args, got, row.code, b)
		}
	}
}
