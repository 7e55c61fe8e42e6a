package proc

import (
	"os/exec"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

// A process is known by more than its number, and its end is seen.
func TestProcess(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	childtest.Must(t, cmd.Start())
	p, err := Open(cmd.Process.Pid, 0)
	childtest.Must(t, err)
	if same, err := Open(p.PID, p.Start); err != nil {
		t.Error(err)
	} else {
		same.Close()
	}
	if _, err := Open(p.PID, p.Start+1); err == nil {
		t.Error("another process was opened")
	}
	over := make(chan struct{})
	go func() {
		p.Wait()
		close(over)
	}()
	select {
	case <-over:
		t.Error("a running process has ended")
	case <-time.After(50 * time.Millisecond):
	}
	_ = cmd.Process.Kill()
	<-over
	_ = cmd.Wait()
	if err := p.Alive(); err == nil {
		t.Error("an ended process is alive")
	}
	p.Close()
}
