package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Descendants lists all processes beneath pid. A pid can be reused between the list and a signal only if a process of the session ends in
// between and another one reaps it; the window is that of kill(1).
func Descendants(pid int, children func(pid int) []int) []int {
	var all []int
	for queue := children(pid); len(queue) > 0; queue = queue[1:] {
		all = append(all, queue[0])
		queue = append(queue, children(queue[0])...)
	}
	return all
}

// Children returns a function that finds a process's children. It reads the kernel's list for each thread (proc_pid_children(5)) or, if the
// kernel was built without, the parents of all processes in /proc/PID/stat.
func Children() func(pid int) []int {
	if _, err := os.Stat("/proc/thread-self/children"); err == nil {
		return listedChildren
	}
	return scannedChildren()
}

func scannedChildren() func(pid int) []int {
	beneath := map[int][]int{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		child, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			continue
		}
		if parent, err := Parent(child); err == nil {
			beneath[parent] = append(beneath[parent], child)
		}
	}
	return func(pid int) []int { return beneath[pid] }
}

func listedChildren(pid int) (list []int) {
	dir := fmt.Sprintf("/proc/%d/task/", pid)
	threads, _ := os.ReadDir(dir) // filepath.Glob would list each thread's folder, too: many times the work, during which processes fork
	for _, thread := range threads {
		text, _ := os.ReadFile(dir + thread.Name() + "/children")
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				list = append(list, child)
			}
		}
	}
	return list
}

// SignalDescendants signals all processes beneath pid, children before parents.
func SignalDescendants(pid int, sig syscall.Signal, children func(pid int) []int) {
	for _, child := range children(pid) {
		if sig == syscall.SIGKILL {
			_ = syscall.Kill(child, syscall.SIGSTOP) // a stopped process doesn't fork
		}
		SignalDescendants(child, sig, children)
		_ = syscall.Kill(child, sig)
	}
}
