package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// Both ways to find processes find a child's child, and none else, and signals reach it.
func TestDescendants(t *testing.T) {
	for name, children := range map[string]func() func(int) []int{
		"as the kernel lists them": func() func(int) []int { return listedChildren },
		"by their parents":         scannedChildren,
	} {
		cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait; exit 5")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		childtest.Must(t, err)
		said, _ := bufio.NewReader(out).ReadString('\n')
		pid := cmd.Process.Pid
		if list := fmt.Sprintln(Descendants(pid, children())); list != "["+strings.TrimSpace(said)+"]\n" || !slices.Contains(children()(os.Getpid()), pid) {
			t.Errorf("%s: beneath %d: %s, want %s", name, pid, list, said)
		}
		SignalDescendants(pid, syscall.SIGKILL, children())
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 5 {
			t.Errorf("%s: %v", name, cmd.ProcessState)
		}
	}
}
