package session

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// How long processes that outlive the first one have between SIGTERM and SIGKILL, and how long toolguard then waits for
// those that the kernel can't end at once (uninterruptible sleep).
const (
	grace    = 2 * time.Second
	patience = 5 * time.Second
)

// lastMoment is how long what is about to end by itself, as the parts of a pipe are, has for that before it counts as left behind.
const lastMoment = 10 * time.Millisecond

// everyone signals all processes of the session. Before Landlock ABI 6, and in a session within another, which would hear of
// every other process of the machine that signalAll asks for, they are looked for in /proc, which those that fork fast
// enough escape for a while; toolguard is their subreaper, so that none can leave the tree.
func (r *run) everyone(sig syscall.Signal) {
	if !r.within && r.backend.level >= 6 && r.in.signalAll(sig) == nil {
		return
	}
	signalBeneath(os.Getpid(), sig, childrenOf())
}

func signalBeneath(pid int, sig syscall.Signal, children func(pid int) []int) {
	for _, child := range children(pid) {
		if sig == syscall.SIGKILL {
			_ = syscall.Kill(child, syscall.SIGSTOP) // a stopped process doesn't fork
		}
		signalBeneath(child, sig, children)
		_ = syscall.Kill(child, sig)
	}
}

// kill sends all processes of the session SIGKILL until ended, which may take as long as it's told, says that they have. From
// within one signal reaches all, and has the kernel log a refusal for every other process of the machine: there the pauses grow.
func (r *run) kill(ended func(wait time.Duration) bool) {
	for pause := 20 * time.Millisecond; ; {
		r.everyone(syscall.SIGKILL)
		if ended(pause) {
			return
		}
		if r.backend.level >= 6 {
			pause = min(2*pause, time.Second)
		}
	}
}

// endLeftovers ends what the command left behind: SIGTERM, and after the grace SIGKILL until nothing is left. It returns
// how many there were and how many are still there.
func (r *run) endLeftovers() (ended, left int) {
	if reapUntil(time.Now().Add(lastMoment)) {
		return 0, 0 // they were about to end by themselves
	}
	ended = max(1, len(descendants(os.Getpid(), childrenOf())))
	r.everyone(syscall.SIGTERM)
	r.everyone(syscall.SIGCONT)
	if reapUntil(time.Now().Add(grace)) {
		return ended, 0
	}
	deadline := time.Now().Add(patience)
	r.kill(func(wait time.Duration) bool {
		return reapUntil(time.Now().Add(wait)) || time.Now().After(deadline)
	})
	return ended, len(descendants(os.Getpid(), childrenOf()))
}

// reap collects what has ended. none is true when no child is left.
func reap() (n int, none bool) {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return n, true // ECHILD
		case pid == 0:
			return n, false
		default:
			n++
		}
	}
}

func reapUntil(deadline time.Time) (none bool) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if _, none := reap(); none {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
}

// descendants lists all processes beneath pid. A number can't be taken by a stranger between the look and the signal unless a
// member of the session ended in between and was reaped by another member; the window is that of kill(1).
func descendants(pid int, children func(pid int) []int) []int {
	var all []int
	for queue := children(pid); len(queue) > 0; queue = queue[1:] {
		all = append(all, queue[0])
		queue = append(queue, children(queue[0])...)
	}
	return all
}

// childrenOf is how to find a process's children. The kernel lists those of each thread (proc_pid_children(5)); where it wasn't built so,
// all processes are looked at, for the parent that each /proc/PID/stat names.
func childrenOf() func(pid int) []int {
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
		if parent, ok := parentOf(d); ok {
			beneath[parent] = append(beneath[parent], child)
		}
	}
	return func(pid int) []int { return beneath[pid] }
}

func listedChildren(pid int) (list []int) {
	dir := fmt.Sprintf("/proc/%d/task/", pid)
	threads, _ := os.ReadDir(dir) // filepath.Glob would list each thread's folder, too: many times the work, while others fork
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

func parentOf(dir string) (int, bool) {
	parent, ok := statOf(dir, 4)
	return int(parent), ok
}

// startOf is when a process began, since boot, up to 10 ms early (USER_HZ).
func startOf(dir string) (time.Duration, bool) {
	ticks, ok := statOf(dir, 22)
	return time.Duration(ticks) * 10 * time.Millisecond, ok
}

// statOf is a number in /proc/PID/stat, by its place in proc_pid_stat(5) from 4 on.
func statOf(dir string, place int) (int64, bool) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return 0, false
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < place-2 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(f[place-3]), 10, 64)
	return n, err == nil
}
