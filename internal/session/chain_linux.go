package session

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/event"
)

// maxAncestors bounds how many processes are told beside the refused one.
const maxAncestors = 32

// ancestors are a process and those that it comes from, as far as they are inside the session that self started, and still alive. What is
// known of some of them is used, and what is found out added to it.
func ancestors(pid, self int, known map[int][]event.Process) (list []event.Process) {
	var pids []int
	for pid > 1 && pid != self && len(list) < maxAncestors {
		if others, ok := known[pid]; ok {
			list = append(list, others[:min(len(others), maxAncestors-len(list))]...)
			break
		}
		dir := fmt.Sprintf("/proc/%d", pid)
		p, ok := processAt(dir, pid)
		if !ok {
			break
		}
		list, pids = append(list, p.Former()), append(pids, pid)
		if pid, ok = parentOf(dir); !ok {
			break
		}
	}
	for i, pid := range pids {
		known[pid] = list[i:len(list):len(list)]
	}
	return list
}

func processAt(dir string, pid int) (event.Process, bool) {
	status, err := readSome(dir + "/status")
	if err != nil {
		return event.Process{}, false
	}
	p := event.Process{PID: pid, UID: -1}
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "Name:\t"); ok {
			p.Comm = strings.TrimSuffix(v, "\n")
		}
		if v, ok := strings.CutPrefix(line, "Uid:\t"); ok {
			p.UID, _ = strconv.Atoi(strings.Fields(v)[0])
			break
		}
	}
	if start, ok := startOf(dir); ok {
		p.Start = booted().Add(start)
	}
	p.Exe, _ = os.Readlink(dir + "/exe")
	if args, err := readSome(dir + "/cmdline"); err == nil {
		for _, a := range bytes.Split(bytes.TrimSuffix(args, []byte{0}), []byte{0}) {
			p.Argv = append(p.Argv, string(a))
		}
	}
	return p, true
}

// booted is when the clock began that the kernel's times since boot are told by: always the same, so that a process's start is.
var booted = sync.OnceValue(func() time.Time {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // doesn't fail
	return time.Now().Add(-time.Duration(ts.Nano()))
})

// readSome reads the beginning of a file in /proc. How long a command line is, a process says itself (PR_SET_MM), up to all
// of its memory.
func readSome(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 8<<10))
}
