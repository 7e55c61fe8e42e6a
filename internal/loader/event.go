package loader

import (
	"time"

	"github.com/toolguard/toolguard/internal/policy"
)

// Event is a denial by the kernel or, with OpExec, an executed program.
type Event struct {
	Time       time.Time
	Sequence   uint64 // of the session; a missing number is a lost event
	Generation uint32 // of the image that decided

	PID, TID, UID int
	Start         time.Time // of the process
	Comm          string
	Other         int // the process that it's about; 0: none
	Parent        Parent

	Op     Op
	Why    Why
	Errno  int
	Detail uint32 // by Op
	Paths  []Asked
	Walk   Walk   // the outcome of following the denied path
	Args   string // argv[0] and the beginning of the arguments, each with its NUL; at most MaxArgs bytes
	Asked  string // OpExec: the name that it was executed by
	Cut    bool   // the last path is truncated

	// The indices of the first layer and rule that denied, in the policy's Layers and Rules. -1: none.
	Layer, Rule int
}

// Parent is a process's parent at the time of the event.
type Parent struct {
	PID, UID int
	Comm     string
}

// MaxArgs limits the denied arguments in an event, in bytes (bpf/lib/report.h).
const MaxArgs = 256

// Asked is a path with the capabilities that were needed and those that are granted.
type Asked struct {
	Path       string
	Need, Have policy.Caps
}

// Op is the denied operation.
type Op uint32

// The operations; bpf/lib/report.h has the same list.
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
	OpCommand // Detail isn't 0 if Args has the name that it was executed by in place of argv[0]
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

// variants are the names of Detail's values; bpf/lib/report.h has the same lists.
var variants = map[Op][]string{
	OpMount:  {"", "mount", "move_mount", "umount", "remount", "pivot_root", "chroot"},
	OpKernel: {"", "bpf", "perf_event", "loading a module", "code for the kernel", "io_uring"},
}

// Door is the variant of the operation; "" if it has none.
func (e *Event) Door() string {
	if names := variants[e.Op]; names != nil {
		return name(names, e.Detail)
	}
	return ""
}

// Why is the reason of a denial.
type Why uint32

// The reasons, as in bpf/lib/decide.h.
const (
	WhyRule       Why = 1 + iota // the rules don't grant a needed capability
	WhyGain                      // a rename or link would add a capability
	WhyDevice                    // no session creates devices
	WhyUnresolved                // Walk has the cause
	WhyEnded                     // the session has ended
	WhyAlways                    // denied to every session
	WhyArgs                      // the command is listed, these arguments aren't
	WhyCommand                   // the command isn't listed
	WhyOutside                   // the task, socket, pipe or memory belongs to a process outside the session
	WhyNet                       // the policy grants nothing that needs such a socket
	WhyFiles                     // the session or its user has reached the limit of files that send signals (F_SETOWN, O_ASYNC, leases)
)

// CreateUnknown, in the Detail of OpCreate: the kernel hadn't looked the name up yet. bpf/lib/report.h has the same.
const CreateUnknown = 1

// The Detail of WhyGain; bpf/lsm/directory.c has the same list.
const (
	MoveDir     = 1 << iota // a folder
	MoveBack                // the other way, too
	MoveBackDir             // and that is a folder
)

var whyNames = [...]string{"", "rule", "gain", "device", "unresolved", "ended", "always", "args", "command", "outside", "net", "files"}

func (w Why) String() string { return name(whyNames[:], uint32(w)) }

// Walk is the outcome of following a path.
type Walk uint32

// The outcomes, as in bpf/lib/walk.h.
const (
	WalkOK        Walk = iota
	WalkInternal       // it has no path: a pipe, a socket, memory
	WalkDeep           // more components than are followed
	WalkDetached       // in no tree, or in another one than the policy's
	WalkBusy           // renamed during every attempt
	WalkBroken         // the kernel's structures could not be read
	WalkMoved          // renamed after the decision: the event has the new path
	WalkExchanged      // the session got another policy during the decision
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
