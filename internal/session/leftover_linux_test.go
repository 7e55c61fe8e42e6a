package session

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Where one signal reaches all, few are sent; where processes must be looked for, none is given time to fork.
func TestPausesBetweenKills(t *testing.T) {
	const ms = time.Millisecond
	for abi, want := range map[int][]time.Duration{
		6: {20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, 1000 * ms, 1000 * ms},
		5: {20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms},
	} {
		r := &run{backend: backend{level: abi}, in: &inside{closed: true}} // the session has ended: nobody is signalled
		var got []time.Duration
		r.kill(func(wait time.Duration) bool {
			got = append(got, wait)
			return len(got) == len(want)
		})
		if !slices.Equal(got, want) {
			t.Errorf("ABI %d: %v", abi, got)
		}
	}
}

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
		must(t, err)
		said, _ := bufio.NewReader(out).ReadString('\n')
		pid := cmd.Process.Pid
		if list := fmt.Sprintln(descendants(pid, children())); list != "["+strings.TrimSpace(said)+"]\n" || !slices.Contains(children()(os.Getpid()), pid) {
			t.Errorf("%s: beneath %d: %s, want %s", name, pid, list, said)
		}
		signalBeneath(pid, syscall.SIGKILL, children())
		if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 5 {
			t.Errorf("%s: %v", name, cmd.ProcessState)
		}
	}
}
