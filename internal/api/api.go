package api

import (
	"net/netip"
	"time"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/policy"
)

// TmpPrefix is what the names of sessions' private TMPDIRs begin with.
const TmpPrefix = "toolguard-"

// Socket is where toolguardd listens.
const Socket = "/run/toolguard/toolguard.sock"

// The paths of the requests. What is about one session has its id after Sessions, and then one of the others.
const (
	Status   = "/v1/status"
	Sessions = "/v1/sessions"
	Events   = "/v1/events"
	Prune    = "/v1/audit/prune"
	Denials  = "/v1/denials"
	Metrics  = "/metrics"
	Health   = "/healthz"

	Thread  = "/thread"
	Notices = "/notices"
	Command = "/command"
	Ended   = "/ended"
	Policy  = "/policy"
)

// Protocol is the number of the form that the requests of a session's start have, with the policy in them. Other versions have others.
const Protocol = 2

// MaxBody is the maximum size of a request's body, in bytes.
const MaxBody = 8 << 20

// FirstGeneration is the generation of the policy that a session begins with: its filters of system calls are of that one to its end.
const FirstGeneration = 1

// Daemon is the answer to GET Status.
type Daemon struct {
	Version  string         `json:"version"`
	Protocol int            `json:"protocol"`
	PID      int            `json:"pid"`
	Started  time.Time      `json:"started"`
	Sessions int            `json:"sessions"`      // those that the client may see
	Why      string         `json:"why,omitempty"` // why no session can begin; "": they can
	Network  string         `json:"network"`       // why no session of the client's can have rules about the network decided; "": they can
	Denials  string         `json:"denials"`       // why what Landlock denies can't be reported to the client; "": it can
	Cgroups  cgroup.Support `json:"cgroups"`       // what can be limited in the client's sessions
}

// Session is a session as it can be looked at.
type Session struct {
	ID        string    `json:"id"`
	UID       int       `json:"uid"`
	PID       int       `json:"pid"`               // of the toolguard that started it
	Command   int       `json:"command,omitempty"` // the command's first process, where it is known
	Tool      string    `json:"tool,omitempty"`
	Agent     string    `json:"agent,omitempty"`
	Argv      []string  `json:"argv"`
	Policy    string    `json:"policy"`
	Digest    string    `json:"digest"`
	Files     []string  `json:"files"` // that the policy was read from
	Workspace string    `json:"workspace"`
	Path      string    `json:"path"`
	TmpDir    string    `json:"tmpdir,omitempty"`
	Home      string    `json:"home,omitempty"`     // what ~ stands for
	Terminal  string    `json:"terminal,omitempty"` // that its toolguard was started on; "": none
	Hidden    bool      `json:"hidden,omitempty"`   // what is typed on the terminal is for others
	Reloads   int       `json:"reloads"`
	Within    string    `json:"within,omitempty"` // the session that it narrows
	Cgroup    string    `json:"cgroup,omitempty"`
	Started   time.Time `json:"started"`
	State     State     `json:"state"`

	Network bool   `json:"network,omitempty"` // toolguardd enforces its network rules
	Bundle  []byte `json:"bundle,omitempty"`  // of the session's certificate authority, in PEM; in the answer to POST Sessions alone

	Tasks      int    `json:"tasks"`  // threads in it
	Denied     uint64 `json:"denied"` // denials
	Unreported uint64 `json:"untold"` // of them, those without an event: too many at a time

	Usage *event.Usage `json:"usage,omitempty"` // what it has taken until now
}

// State is where a session is in its life.
type State string

// The states.
const (
	Starting State = "starting" // its command doesn't run yet
	Running  State = "running"
	Left     State = "left"   // the toolguard that started it is gone, and its command was started with --linger
	Ending   State = "ending" // what is left of it is being ended
)

// Start is the body of POST Sessions: what a session is to be. The answer is a Session without a thread in it.
type Start struct {
	Policy   *policy.Compiled `json:"policy"`
	Limits   policy.Limits    `json:"limits"` // those of the policy that are to be set
	Argv     []string         `json:"argv"`
	Tool     string           `json:"tool,omitempty"`
	Agent    string           `json:"agent,omitempty"`
	Degraded []string         `json:"degraded,omitempty"` // what isn't enforced, for the event of the start
	Removed  []string         `json:"removed,omitempty"`  // the names of the variables that the command doesn't get, for it too
	Home     string           `json:"home,omitempty"`     // what ~ stands for
	Linger   bool             `json:"linger,omitempty"`   // leave the command's other processes running
	Network  *Network         `json:"network,omitempty"`  // its network rules are to be enforced; the command enters a cgroup then
}

// Network is what toolguardd can't find out about the network.
type Network struct {
	Resolvers []netip.AddrPort `json:"resolvers"`         // the name servers that the client would ask
	Proxies   []Proxy          `json:"proxies,omitempty"` // that the command's variables name
}

// Proxy is a proxy that a variable names. It has no more of the variable's value, which may hold a password.
type Proxy struct {
	Variable string `json:"variable"`
	Scheme   string `json:"scheme"` // what is spoken with the proxy
	Host     string `json:"host"`
	Port     string `json:"port,omitempty"` // "": whichever the clients take
}

// Enter is the body of PUT Thread: one of the client's own threads, which is in the session from then on, and for good.
type Enter struct {
	Thread int `json:"thread"`
}

// Notice is a line of GET Notices, which the toolguard that started a session reads from when its thread is in. Events are in the form of
// this version; GET Events is for everybody.
type Notice struct {
	Event *event.Event `json:"event,omitempty"`
	End   *End         `json:"end,omitempty"` // the last, when the session is over
}

// Record is a line of GET Denials, which the toolguard of a session under Landlock reads while it runs. It has one of these.
type Record struct {
	Begin  *Begin              `json:"begin,omitempty"`  // the first
	Denial *kernelaudit.Denial `json:"denial,omitempty"` // as the kernel's audit records have it
	Times  uint64              `json:"times,omitempty"`  // how often one like it came, but for its time and serial
	Totals *kernelaudit.Totals `json:"totals,omitempty"` // the last, once the client has sent a byte: the command has ended
}

// Begin is how toolguardd knows a session's Landlock domains: by the name that a thread has which makes one (PR_SET_NAME). It is secret
// to other processes.
type Begin struct {
	Name string `json:"name"`
	PID  int    `json:"pid"` // the client's, as toolguardd sees it: that of denials is of the same kind
}

// Outcome is the body of POST Ended: how the command ended.
type Outcome struct {
	Exit *event.Exit `json:"exit,omitempty"` // missing: it never started
}

// End is what became of a session.
type End struct {
	Denied     uint64 `json:"denied"`
	Unreported uint64 `json:"untold"`

	Usage *event.Usage `json:"usage,omitempty"` // what it has taken
}

// Reload is the body of PUT Policy: the session gets another policy.
type Reload struct {
	Policy *policy.Compiled `json:"policy"`
}

// Keep is the body of POST Prune, which is root's: how much of the audit is to be kept.
type Keep struct {
	Bytes int64 `json:"bytes"`
}

// Pruned is the answer: how many bytes the audit took before, and takes now.
type Pruned struct {
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// Failure is the body of every answer that isn't a success.
type Failure struct {
	Error string `json:"error"`
}
