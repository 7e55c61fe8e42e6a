//go:build linux

package run

import (
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// replacing is a shell that runs script and then executes toolguard, which so inherits its children.
func (p fixture) replacing(script string, argv ...string) []string {
	before := []string{"sh", "-c", script + ` exec "$@"`, "sh", binary, "exec", "--quiet"}
	return append(append(append(before, policy...), "--"), argv...)
}

// Inherited children of a caller that executed toolguard aren't the session's: toolguard neither waits for them nor ends or reports them,
// nor their orphaned children. The session's own orphans are ended nevertheless.
func TestCallersChildren(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		theirs, late, ours := ": 1000.0801"+p.user.Name[:1], ": 1000.0802"+p.user.Name[:1], ": 1000.0803"+p.user.Name[:1]
		waits := func(mark, file string) string {
			return "sh -c '" + mark + "; : > " + file + "; while :; do sleep 1; done'"
		}
		script := waits(theirs, "theirs") + " >/dev/null 2>&1 & (until [ -e ours ]; do sleep 0.05; done; " + waits(late, "late") + " &) >/dev/null 2>&1 &"
		out := run(t, p.command(p.replacing(script, "sh", "-c",
			waits(ours, "ours")+" & until [ -e theirs ] && [ -e late ] && [ -e ours ]; do sleep 0.05; done; exit 7")...))
		if out.code != 7 || out.stderr != "toolguard: 2 processes that the command had left in the background ended with it (--linger leaves such running)\n" {
			t.Errorf("%+v", out)
		}
		for mark, stays := range map[string]bool{theirs: true, late: true, ours: false} {
			pids := childtest.Processes(t, "\x00"+mark) // at an argument's beginning: other processes have it inside an argument
			if stays != (len(pids) > 0) {
				t.Errorf("processes with %s: %v", mark, pids)
			}
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
}

// With children of its caller's toolguard behaves as without: signals, stops and kill -9 reach the command.
func TestCallersChildrenChangeNothing(t *testing.T) {
	p := newFixture(t, users()[0])
	replace := func(script string) []string { return p.replacing("sleep 20 >/dev/null 2>&1 &", "sh", "-c", script) }

	t.Run("signal", func(t *testing.T) {
		cmd := p.command(replace(`trap 'echo got; exit 33' TERM; echo ready; while :; do sleep 0.05; done`)...)
		r := begin(t, cmd)
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		if code, rest := ended(t, cmd, r); code != 33 || rest != "got\n" {
			t.Errorf("exit %d, %q", code, rest)
		}
	})
	t.Run("stop", func(t *testing.T) {
		cmd := p.command(replace("echo ready; kill -STOP $$; echo continued")...)
		stopsAndContinues(t, cmd)
	})
	t.Run("kill -9", func(t *testing.T) {
		const mark = "1000.0804"
		cmd := p.command(replace("echo ready; exec sleep " + mark)...)
		begin(t, cmd)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		gone(t, "\x00"+mark)
	})
}
