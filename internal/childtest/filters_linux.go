package childtest

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// Filters returns how many system call filters a process has in addition to this one's (Linux 5.9).
func Filters(t testingT, pid int) int {
	t.Helper()
	return filters(t, strconv.Itoa(pid)) - filters(t, "self")
}

func filters(t testingT, pid string) int {
	t.Helper()
	status, err := os.ReadFile("/proc/" + pid + "/status")
	Must(t, err)
	m := regexp.MustCompile(`\nSeccomp_filters:\t(\d+)\n`).FindSubmatch(status)
	if m == nil {
		Must(t, fmt.Errorf("the kernel doesn't report the number of filters of process %s", pid))
	}
	n, err := strconv.Atoi(string(m[1]))
	Must(t, err)
	return n
}
