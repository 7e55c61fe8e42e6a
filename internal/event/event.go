package event

import "time"

// Event is one thing worth telling: a denial, a session's start or end. Every producer fills the same type;
// renderings differ only in how they write it.
type Event struct {
	Time     time.Time // when it happened; of several, when the last one did
	First    time.Time // of several, when the first one did; zero when that isn't told
	UID      string    // unique; the key for at-least-once consumers
	Boot     string    // the kernel's boot id
	Host     string    // the machine's name
	Version  string    // toolguard's
	Sequence uint64    // gapless within one stream
	Previous string    // in a spool: the fingerprint of the record before it, in hexadecimal; of the first one Genesis
	Kind     Kind

	Session string // session id
	Owner   string // the number of the user whose session it is; "" where that isn't told, and of what is no session's
	Tool    string
	Agent   string
	Mode    string // "enforce" or "audit"

	Policy    string // policy name
	Digest    string
	Authority string
	Rule      string // rule id, "" when no rule decided
	Place     string // file:line:col of the rule
	Reason    string // a policy.Reason
	Suggest   string // the smallest grant that would allow it

	Resource   string // "fs", "net", "env", "commands", "syscall"
	Capability string // "read", "create", …; for a system call its name
	Target     string // as the kernel resolved it
	Asked      string // as it was asked for, where known and different

	Process   []Process // the process itself first, then its ancestors up to the session's first process
	Cgroup    string
	Mechanism string // which hook, filter or proxy: "landlock:fs.read_file", "seccomp"
	Errno     string // "EACCES", "EPERM", …
	Count     uint64 // how many this stands for; 0 and 1 are the same
	Execs     uint64 // of a gap: how many of those it counts were programs that were executed

	Degraded []string          // session start, or none: what isn't enforced
	Removed  []string          // session start: the names of the variables that the command doesn't get
	Exit     *Exit             // session end
	Extra    map[string]string // kind-specific facts, documented with the kind

	clean bool // it has been through Clean
}

// Kind says what happened.
type Kind string

// The kinds.
const (
	Denial       Kind = "denial"
	Exec         Kind = "exec" // a program was executed, and its session's policy has that recorded
	SessionStart Kind = "session_start"
	SessionEnd   Kind = "session_end"
	Refused      Kind = "session_refused" // a command wasn't started: Reason and Extra say why
	Gap          Kind = "gap"             // events were lost; Count says how many
	Checkpoint   Kind = "checkpoint"      // a spool's signature of all that is before it
	Daemon       Kind = "daemon"          // toolguardd started, stopped, took sessions over, reloaded one: Extra says what
)

// Process is one member of the process chain. Fields that the source didn't tell are zero, or for the user -1.
type Process struct {
	PID   int
	UID   int // -1: not known
	Exe   string
	Comm  string
	Argv  []string
	Start time.Time

	masked bool // Argv is without secrets
}

// Observed is a process as the kernel observed it. It may have ended since, and its number be another one's.
type Observed struct {
	PID, UID int // 0: none is known
	Comm     string
	SeenAt   time.Duration // since boot, suspended or not
}

// Exit is how a session ended and what it used.
type Exit struct {
	Code     int
	Signal   int // 0: none
	Wall     time.Duration
	User     time.Duration
	System   time.Duration
	MaxRSS   uint64 // bytes
	Denials  uint64
	Leftover int    // processes that had to be ended after the first one
	Usage    *Usage // nil: nobody has counted
}

// Usage is what all processes of a session together have taken, as the kernel counts it with the session's cgroup. What can't be known is
// nil.
type Usage struct {
	CPU     *uint64 `json:"cpu_ms,omitempty"`      // processor time in milliseconds
	Memory  *uint64 `json:"memory_peak,omitempty"` // bytes, the most at a time
	Read    *uint64 `json:"io_read,omitempty"`     // bytes, from disks
	Written *uint64 `json:"io_written,omitempty"`  // bytes, to disks
	Missing string  `json:"missing,omitempty"`     // what isn't counted, and why
}
