package proc

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// StartTicks returns the start of a process, in clock ticks since boot.
func StartTicks(pid int) (uint64, error) { return Stat(pid, 22) }

// Start returns the start of a process since boot, up to 10 ms early (USER_HZ).
func Start(pid int) (time.Duration, error) {
	ticks, err := StartTicks(pid)
	return time.Duration(ticks) * 10 * time.Millisecond, err
}

// IsStopped reads the state letter of /proc/PID/stat, which follows the name in parentheses (proc_pid_stat(5)).
func IsStopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	i := bytes.LastIndexByte(stat, ')')
	return err == nil && i >= 0 && i+2 < len(stat) && stat[i+2] == 'T'
}

// Stat returns a field of /proc/PID/stat, the third or a later one; the second, in parentheses, may have any characters (proc_pid_stat(5)).
func Stat(pid, field int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) <= field-3 {
		return 0, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	return strconv.ParseUint(string(f[field-3]), 10, 64)
}

// Parent returns the pid of a process's parent.
func Parent(pid int) (int, error) {
	parent, err := Stat(pid, 4)
	return int(parent), err
}
