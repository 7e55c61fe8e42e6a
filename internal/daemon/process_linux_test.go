package daemon

import (
	"os/exec"
	"testing"
)

// A session's home is what its toolguard was started with.
func TestHomeOf(t *testing.T) {
	for _, x := range []struct{ env, home string }{{"HOME=/srv/me", "/srv/me"}, {"HOME=me", ""}, {"XHOME=/srv", ""}} {
		cmd := exec.Command("cat")
		cmd.Env = []string{"A=b", x.env, "C=d"}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// Start may return in the midst of the execution, when the process has no environment yet: cat runs once it answers.
		if _, err := in.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
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
