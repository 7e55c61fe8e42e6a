package session

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/proc"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// testProcesses returns Linux's processes as macOS lists them: the parent of an orphan is process 1.
func testProcesses(t *testing.T) func() ([]launch.ProcessRow, error) {
	t.Helper()
	out, err := exec.Command("sh", "-c", "sleep 10 >/dev/null 2>&1 & echo $!").Output()
	must(t, err)
	orphan, err := strconv.Atoi(strings.TrimSpace(string(out)))
	must(t, err)
	time.Sleep(10 * time.Millisecond)
	reaper, _ := proc.Parent(orphan)
	return func() (rows []launch.ProcessRow, err error) {
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				continue
			}
			f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
			parent, _ := strconv.Atoi(f[1])
			group, _ := strconv.Atoi(f[2])
			start, _ := strconv.ParseInt(f[19], 10, 64)
			if f[0] == "Z" {
				continue
			}
			if parent == reaper && reaper != os.Getpid() {
				parent = 1
			}
			rows = append(rows, launch.ProcessRow{PID: pid, Parent: parent, Group: group, Start: time.Unix(start, 0)})
		}
		return rows, nil
	}
}
