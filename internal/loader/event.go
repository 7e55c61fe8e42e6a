package loader

import (
	"time"

	"github.com/toolguard/toolguard/internal/policy"
)

// Event is something that the kernel denied or, with OpExec, that was executed.
type Event struct {
	Time       time.Time
	Sequence   uint64 // of the session; one that is missing was lost
	Generation uint32 // of the image that decided

	PID, TID, UID int
	Start         time.Time // of the process
	Comm          string
	Other         int // the process that it was about; 0: none
	Parent        Parent

	Op     Op
	Why    Why
	Errno  int
	Detail uint32 // by Op
	Paths  []Asked
	Walk   Walk   // what came of following the path that is denied
	Args   string // what a program is called and the beginning of its arguments, each with a NUL after it; MaxArgs bytes at most
	Asked  string // OpExec: the name that it was executed by
	Cut    bool   // the last path isn't complete

	// Who was the first to withhold something: places in the policy's Layers and Rules. -1: nobody, no rule.
	Layer, Rule int
}

// Parent is who started a process, or who has it now, as it was when the event happened.
type Parent struct {
	PID, UID int
	Comm     string
}

// MaxArgs is how much of a program's denied arguments an event has (bpf/lib/report.h).
const MaxArgs = 256

// Asked is what was needed on a path, and what there is.
type Asked struct {
	Path       string
	Need, Have policy.Caps
}

// Op is what was tried.
type Op uint32

// What can be tried: bpf/lib/report.h has the same list.
const (
	OpOpen Op = 1 + iota
	OpTruncate
	OpCreate
	OpDelete
	OpRename
	OpLink
	OpMetadata
	OpExecute
	OpMap
	OpCommand // Detail isn't 0 where Args is the name that it was executed by, and it was called otherwise
	OpUnix
	OpIoctl
	OpReceive
	OpSignal
	OpTrace
	OpMount
	OpNamespace
	OpSocket
	OpKernel
	OpFork
	OpWatch
	OpPriority
	OpCall // a system call, denied by a filter: Detail is its number, Errno the signal that ended the process, negative
	OpExec // a program was executed: Detail is the number of its arguments
	OpReadlink
	OpOption // of a socket: Detail is its level, and its number in the upper half
)

var opNames = [...]string{
	"", "open", "truncate", "create", "delete", "rename", "link", "metadata", "execute", "map", "command", "unix", "ioctl", "receive",
	"signal", "trace", "mount", "namespace", "socket", "kernel", "fork", "watch", "priority", "call", "exec", "readlink", "option",
}

func (o Op) String() string { return name(opNames[:], uint32(o)) }

// doors are the names of what Detail distinguishes: bpf/lib/report.h has the same lists.
var doors = map[Op][]string{
	OpMount:  {"", "mount", "move_mount", "umount", "remount", "pivot_root", "chroot"},
	OpKernel: {"", "bpf", "perf_event", "loading a module", "code for the kernel", "io_uring"},
}

// Door is what exactly was tried, where the operation has several ways; "" where it doesn't.
func (e *Event) Door() string {
	if names := doors[e.Op]; names != nil {
		return name(names, e.Detail)
	}
	return ""
}

// Why is why it was denied.
type Why uint32

// The reasons, as in bpf/lib/decide.h.
const (
	WhyRule       Why = 1 + iota // something needed isn't given
	WhyGain                      // a rename or link would give something
	WhyDevice                    // devices are never made
	WhyUnresolved                // Walk says how
	WhyEnded                     // the session isn't there any more
	WhyAlways                    // denied to every session
	WhyArgs                      // the command is listed, these arguments aren't
	WhyCommand                   // the command isn't listed
	WhyOutside                   // it's about a task, a socket, a pipe or memory of another than the session
	WhyNet                       // the policy grants nothing that takes such a socket
	WhyFiles                     // the session, or its user, has as many files that send signals (F_SETOWN, O_ASYNC, leases) as one may have
)

// CreateUnknown, in the Detail of OpCreate, says that the kernel didn't know yet whether there is something of that name: bpf/lib/report.h has the same.
const CreateUnknown = 1

// What moves, in the Detail of WhyGain: bpf/lsm/directory.c has the same list.
const (
	MoveDir     = 1 << iota // a folder
	MoveBack                // the other way, too
	MoveBackDir             // and that is a folder
)

var whyNames = [...]string{"", "rule", "gain", "device", "unresolved", "ended", "always", "args", "command", "outside", "net", "files"}

func (w Why) String() string { return name(whyNames[:], uint32(w)) }

// Walk is what came of following a path.
type Walk uint32

// The outcomes, as in bpf/lib/walk.h.
const (
	WalkOK        Walk = iota
	WalkInternal       // no path leads there: a pipe, a socket, memory
	WalkDeep           // more components than are followed
	WalkDetached       // in no tree, or in another one than the policy's
	WalkBusy           // renamed again and again meanwhile
	WalkBroken         // the kernel's structures could not be read
	WalkMoved          // followed, and renamed since: an event's path is what it's called now
	WalkExchanged      // the session got another policy before the decision was whole
	WalkCostly         // more names and patterns than may be followed for one decision
)

var walkNames = [...]string{"followed", "nowhere", "too deep", "detached", "too busy", "unreadable", "moved", "the policy was exchanged meanwhile", "too many names and patterns"}

func (w Walk) String() string { return name(walkNames[:], uint32(w)) }

func name(names []string, i uint32) string {
	if int(i) < len(names) {
		return names[i]
	}
	return "unknown"
}
