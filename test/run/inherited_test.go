//go:build linux

package run

import (
	"strings"
	"syscall"
	"testing"
)

// inPlaceOf is a shell that runs script and then gives its place, with all its children, to toolguard.
func (p place) inPlaceOf(script string, argv ...string) []string {
	before := []string{"sh", "-c", script + ` exec "$@"`, "sh", binary, "exec"}
	return append(append(append(before, policy...), "--"), argv...)
}

// What was there before toolguard, in whose caller's place it has come, isn't the session's: it is neither waited for nor ended
// nor told of, nor are those that it starts meanwhile, whose parent then ends. What the session leaves is ended all the same.
func TestCallersChildren(t *testing.T) {
	for _, u := range users() {
		t.Run(u.name, func(t *testing.T) {
			p := newPlace(t, u)
			theirs, late, ours := "1000.0801"+u.name[:1], "1000.0802"+u.name[:1], "1000.0803"+u.name[:1]
			script := strings.NewReplacer("T", theirs, "L", late).Replace(
				`sh -c ': T; while :; do sleep 1; done' >/dev/null 2>&1 & (sleep 0.2; sh -c ': L; while :; do sleep 1; done' &) >/dev/null 2>&1 &`)
			out := run(t, p.command(p.inPlaceOf(script, "sh", "-c", "sh -c ': "+ours+"; while :; do sleep 1; done' & sleep 0.5; exit 7")...))
			if out.code != 7 || out.stderr != "" {
				t.Errorf("%+v", out)
			}
			for mark, want := range map[string]int{theirs: 1, late: 1, ours: 0} {
				if got := marked(t, mark); len(got) != want {
					t.Errorf("%d processes with %s, not %d", len(got), mark, want)
				}
			}
			for _, pid := range append(marked(t, theirs), marked(t, late)...) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		})
	}
}

// With children of its caller's toolguard behaves as without: signals, stops and kill -9 reach the command.
func TestCallersChildrenChangeNothing(t *testing.T) {
	p := newPlace(t, users()[0])
	place := func(script string) []string { return p.inPlaceOf("sleep 20 >/dev/null 2>&1 &", "sh", "-c", script) }

	t.Run("signal", func(t *testing.T) {
		cmd := p.command(place(`trap 'echo got; exit 33' TERM; echo ready; while :; do sleep 0.05; done`)...)
		r := begin(t, cmd)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if code, rest := ended(t, cmd, r); code != 33 || rest != "got\n" {
			t.Errorf("exit %d, %q", code, rest)
		}
	})
	t.Run("stop", func(t *testing.T) {
		cmd := p.command(place("echo ready; kill -STOP $$; echo continued")...)
		stopsAndContinues(t, cmd)
	})
	t.Run("kill -9", func(t *testing.T) {
		const mark = "1000.0804"
		cmd := p.command(place("echo ready; exec sleep " + mark)...)
		begin(t, cmd)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		gone(t, "\x00"+mark)
	})
}
