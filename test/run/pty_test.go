//go:build linux

package run

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Programs that make terminals work under the preset for them, and not without it.
func TestOwnTerminals(t *testing.T) {
	needs(t, "script", "python3")
	for _, u := range users() {
		p := newFixture(t, u)
		for _, argv := range [][]string{
			{"script", "-qc", "tty; echo done", "/dev/null"},
			{"python3", "-c", `import pty; pty.spawn(["sh", "-c", "tty; echo done"])`},
		} {
			if out := run(t, p.confined(policy, argv...)); out.code == 0 || strings.Contains(out.stdout, "done") {
				t.Errorf("%s, %s: control: %+v", u.Name, argv[0], out)
			}
			out := run(t, p.confined(append([]string{"--policy", "preset:pty"}, policy...), argv...))
			if out.code != 0 || !strings.HasPrefix(out.stdout, "/dev/pts/") || !strings.Contains(out.stdout, "done") {
				t.Errorf("%s, %s: %+v", u.Name, argv[0], out)
			}
		}
	}
}

// The user's other terminals, where passwords are typed, are denied; the preset for terminals grants them, as documented.
func TestOtherTerminals(t *testing.T) {
	for _, u := range users() {
		p := newFixture(t, u)
		other := open(t, p.command("sleep", "1000"))
		n, err := unix.IoctlGetInt(int(other.master.Fd()), unix.TIOCGPTN)
		must(t, err)
		name := fmt.Sprintf("/dev/pts/%d", n)
		must(t, os.Chown(name, u.ID, -1))
		argv := []string{"sh", "-c", "head -n 1 <" + name}
		secret := func(flags []string) string {
			if _, err := other.master.WriteString("a secret\n"); err != nil {
				t.Fatal(err)
			}
			return run(t, p.confined(flags, argv...)).stdout
		}
		if got := secret(policy); got != "" {
			t.Errorf("%s: read %q", u.Name, got)
		}
		if got := secret(append([]string{"--policy", "preset:pty"}, policy...)); got != "a secret\n" {
			t.Errorf("%s: control: read %q", u.Name, got)
		}
	}
}
