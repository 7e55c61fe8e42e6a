package childtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Processes returns the processes that have mark in their arguments.
func Processes(t testingT, mark string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	Must(t, err)
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), mark) {
			pid, err := strconv.Atoi(strings.Split(f, "/")[2])
			Must(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}
