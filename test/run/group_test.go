//go:build linux

package run

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A command is in the process group of toolguard and of who started it, as the terminal wants it. It ends itself by a signal to that
// group, and nobody else; below Landlock ABI 6, where signals have no scope, everybody, and doctor says so.
func TestSignalsToTheGroup(t *testing.T) {
	doctor, err := exec.Command(binary, "doctor", "--verbose").Output()
	must(t, err)
	unscoped := strings.Contains(string(doctor), "signals to processes of the same user")
	for _, u := range users() {
		for name, signal := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL} {
			t.Run(u.name+"/"+name, func(t *testing.T) {
				p := newPlace(t, u)
				// The caller tells how what it runs has ended, unless it's ended too.
				caller := func(argv []string) outcome {
					cmd := p.command(append([]string{"sh", "-c", `"$@"; echo "ended: $?"`, "sh"}, argv...)...)
					cmd.SysProcAttr.Setpgid = true
					return run(t, cmd)
				}
				attack := []string{"sh", "-c", "kill -" + name + " 0; sleep 5"}
				if got := caller(attack); got.stdout != "" || got.code != -1 {
					t.Fatalf("control: %+v", got)
				}
				got := caller(p.guarded(append([]string{"--backend", "landlock"}, policy...), attack...).Args)
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
