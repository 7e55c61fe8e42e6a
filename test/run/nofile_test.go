//go:build linux

package run

import "testing"

// The command has the limit of open files that toolguard was started with, not the one that the Go runtime raised it to.
func TestOpenFilesLimitIsKept(t *testing.T) {
	for _, limits := range []string{"ulimit -Sn 777;", "ulimit -Sn 777; ulimit -Hn 4000;", "ulimit -n 4000;"} {
		p := newFixture(t, users()[0])
		show := []string{"sh", "-c", "ulimit -Sn; ulimit -Hn"}
		bare := run(t, p.command(append([]string{"sh", "-c", limits + ` exec "$@"`, "sh"}, show...)...))
		if got := run(t, p.command(p.replacing(limits, show...)...)); got != bare || bare.stdout == "" {
			t.Errorf("%s\nbare:    %+v\nguarded: %+v", limits, bare, got)
		}
	}
}
