package session

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/kernelaudit"
)

// chain is the process that was refused and its ancestors inside the session. The first comes from the kernel's record;
// the others from /proc, if they are still alive: best effort.
func chain(k kernelaudit.Denial) []event.Process {
	list := []event.Process{{PID: k.PID, UID: k.UID, Exe: k.Exe, Comm: k.Comm}}
	parent := k.PPID
	if parent == 0 {
		parent, _ = parentOf(fmt.Sprintf("/proc/%d", k.PID))
	}
	for self := os.Getpid(); parent > 1 && parent != self && len(list) < 32; {
		dir := fmt.Sprintf("/proc/%d", parent)
		p, ok := processAt(dir, parent)
		if !ok {
			break
		}
		list = append(list, p)
		if parent, ok = parentOf(dir); !ok {
			break
		}
	}
	return list
}

func processAt(dir string, pid int) (event.Process, bool) {
	status, err := os.ReadFile(dir + "/status")
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
	p.Exe, _ = os.Readlink(dir + "/exe")
	if args, err := os.ReadFile(dir + "/cmdline"); err == nil {
		for _, a := range bytes.Split(bytes.TrimSuffix(args, []byte{0}), []byte{0}) {
			p.Argv = append(p.Argv, string(a))
		}
	}
	return p, true
}
