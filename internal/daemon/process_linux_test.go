package daemon

import (
	"os/exec"
	"testing"
)

// A session's home is what its toolguard was started with.
func TestHomeOf(t *testing.T) {
	for _, x := range []struct{ env, home string }{{"HOME=/srv/me", "/srv/me"}, {"HOME=me", ""}, {"XHOME=/srv", ""}} {
		cmd := exec.Command("sleep", "1000")
		cmd.Env = []string{"A=b", x.env, "C=d"}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if got := homeOf(cmd.Process.Pid); got != x.home {
			t.Errorf("%s: %q", x.env, got)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		if got := homeOf(cmd.Process.Pid); got != "" {
			t.Errorf("of none: %q", got)
		}
	}
}
