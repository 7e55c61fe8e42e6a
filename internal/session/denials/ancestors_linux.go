package denials

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/proc"
)

// maxAncestors bounds the processes of an event in addition to the first one.
const maxAncestors = 32

// ancestors returns a process and its ancestors, as far as they are in the session that self started and still alive. It uses the processes
// in known, and adds those that it finds.
func ancestors(pid, self int, known map[int][]event.Process) (list []event.Process) {
	var pids []int
	for pid > 1 && pid != self && len(list) < maxAncestors {
		if others, ok := known[pid]; ok {
			list = append(list, others[:min(len(others), maxAncestors-len(list))]...)
			break
		}
		p, ok := processAt(pid)
		if !ok {
			break
		}
		list, pids = append(list, p.AsAncestor()), append(pids, pid)
		parent, err := proc.Parent(pid)
		if err != nil {
			break
		}
		pid = parent
	}
	for i, pid := range pids {
		known[pid] = list[i:len(list):len(list)]
	}
	return list
}

func processAt(pid int) (event.Process, bool) {
	dir := fmt.Sprintf("/proc/%d", pid)
	status, err := proc.ReadBeginning(dir + "/status")
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
	if start, err := proc.Start(pid); err == nil {
		p.Start = proc.Booted().Add(start)
	}
	p.Exe, _ = os.Readlink(dir + "/exe")
	if args, err := proc.ReadBeginning(dir + "/cmdline"); err == nil {
		for _, a := range bytes.Split(bytes.TrimSuffix(args, []byte{0}), []byte{0}) {
			p.Argv = append(p.Argv, string(a))
		}
	}
	return p, true
}
