package event

import "time"

// Event is one reported fact, such as a denial or a session's start. The formats differ only in how they write it.
type Event struct {
	Time     time.Time // when it happened; with Count > 1, when the last one happened
	First    time.Time // with Count > 1, when the first one happened; zero if unknown
	UID      string    // unique; the key for at-least-once consumers
	Boot     string    // the kernel's boot id
	Host     string    // the machine's name
	Version  string    // toolguard's
	Sequence uint64    // gapless within one stream
	Previous string    // in a spool: the fingerprint of the previous record, in hexadecimal; Genesis in the first one
	Kind     Kind

	Session string // session id
	Owner   string // the uid of the session's user; "" if unknown, or if the event belongs to no session
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

	Resource   string // "fs", "net", "env", "commands", "syscall", "tools"
	Capability string // "read", "create", …; for a system call its name
	Target     string // as the kernel resolved it
	Asked      string // as the process named it, if known and different

	Process   []Process // the process itself first, then its ancestors up to the session's first process
	Cgroup    string
	Mechanism string // which hook, filter or proxy: "landlock:fs.read_file", "seccomp"
	Errno     string // "EACCES", "EPERM", …
	Count     uint64 // how often it happened; 0 and 1 are the same
	Execs     uint64 // in a gap: how many of the counted events were of kind Exec

	Degraded []string          // session start, or start failure: rules that aren't enforced
	Removed  []string          // session start: the names of the variables that were removed from the environment
	Exit     *Exit             // session end
	Extra    map[string]string // kind-specific facts, documented with the kind

	clean bool // returned by Clean
}

// Kind is the kind of an event.
type Kind string

// The kinds.
const (
	Denial         Kind = "denial"
	Exec           Kind = "exec" // a program was executed, and the session's policy has audit = "exec"
	SessionStart   Kind = "session_start"
	SessionEnd     Kind = "session_end"
	SessionRefused Kind = "session_refused" // a command wasn't started: Reason and Extra have the cause
	Gap            Kind = "gap"             // events were lost; Count is their number
	Checkpoint     Kind = "checkpoint"      // a spool's signature of all records before it
	Daemon         Kind = "daemon"          // toolguardd started, stopped, took sessions over or reloaded one: Extra has which

	ToolDeny   Kind = "tool_denied" // a tool call doesn't run
	ToolCall   Kind = "tool_call"   // a tool call ran
	Approval   Kind = "approval"    // a person is asked about a call, or has decided: Extra has which
	Grant      Kind = "grant"       // the same about a request for a grant
	HookFailed Kind = "hook_failed" // a hook gave no valid answer
)

// Process is one member of the process chain. Unknown fields are zero; an unknown UID is -1.
type Process struct {
	PID   int
	UID   int // -1: not known
	Exe   string
	Comm  string
	Argv  []string
	Start time.Time

	redacted bool // Argv has no secrets
}

// Observed is a process as the kernel observed it. It may have ended since, and its pid may have been reused.
type Observed struct {
	PID, UID int // 0: unknown
	Comm     string
	SeenAt   time.Duration // since boot, including suspension
}

// Exit is the result of a session and the resources that it used.
type Exit struct {
	Code    int
	Signal  int // 0: none
	Wall    time.Duration
	User    time.Duration
	System  time.Duration
	MaxRSS  uint64 // bytes
	Denials uint64
	Orphans int    // processes that toolguard ended after the session's first process had exited
	Usage   *Usage // nil: not measured
}

// Usage is the resources that all processes of a session together used, as the kernel counts them for the session's cgroup.
// Unknown values are nil.
type Usage struct {
	CPU     *uint64 `json:"cpu_ms,omitempty"`      // processor time in milliseconds
	Memory  *uint64 `json:"memory_peak,omitempty"` // bytes, the peak
	Read    *uint64 `json:"io_read,omitempty"`     // bytes, from disks
	Written *uint64 `json:"io_written,omitempty"`  // bytes, to disks
	Missing string  `json:"missing,omitempty"`     // which values aren't counted, and why
}
