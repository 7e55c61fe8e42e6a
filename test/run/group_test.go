//go:build linux

package run

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A command is in the process group of toolguard and its caller, as the terminal requires. A signal to that group ends only the session;
// before Landlock ABI 6, which has no scope for signals, it ends the whole group, and doctor reports that.
func TestSignalsToTheGroup(t *testing.T) {
	doctor, err := exec.Command(binary, "doctor", "--verbose").Output()
	must(t, err)
	unscoped := strings.Contains(string(doctor), "signals to processes of the same user")
	for _, u := range users() {
		for name, signal := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL} {
			t.Run(u.Name+"/"+name, func(t *testing.T) {
				p := newFixture(t, u)
				// The caller prints how its command has ended, unless the signal ended the caller, too.
				caller := func(argv []string) outcome {
					cmd := p.command(append([]string{"sh", "-c", `"$@"; echo "ended: $?"`, "sh"}, argv...)...)
					cmd.SysProcAttr.Setpgid = true
					return run(t, cmd)
				}
				attack := []string{"sh", "-c", "kill -" + name + " 0; sleep 5"}
				if got := caller(attack); got.stdout != "" || got.code != -1 {
					t.Fatalf("control: %+v", got)
				}
				got := caller(p.confined(append([]string{"--backend", "landlock"}, policy...), attack...).Args)
				want := fmt.Sprintf("ended: %d\n", 128+signal)
				if unscoped {
					want = ""
				}
				if got.stdout != want {
					t.Errorf("%+v", got)
				}
			})
		}
	}
}
