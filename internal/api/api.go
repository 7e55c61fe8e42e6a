package api

import (
	"errors"
	"net/netip"
	"time"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/policy"
)

// TmpPrefix is the prefix of the names of sessions' private TMPDIRs.
const TmpPrefix = "toolguard-"

// Socket is where toolguardd listens.
const Socket = "/run/toolguard/toolguard.sock"

// The paths of the requests. A request about one session has its id after Sessions, and then one of the second group.
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

	CallEvents = "/events"
	Calls      = "/calls"
)

// The fields by which toolguardd names the client of a request that it forwards. Those that a client sends are not forwarded.
const (
	ForwardedUID      = "Toolguard-Uid"
	ForwardedPID      = "Toolguard-Pid"
	ForwardedExe      = "Toolguard-Exe"      // with percent signs, as in a path of a URL; "": unknown
	ForwardedConfined = "Toolguard-Confined" // "1" or "0"
	ForwardedSession  = "Toolguard-Session"  // that the client is in; "": none
)

// Protocol is the version of the requests that start a session, with the form of the policy in them.
const Protocol = 2

// MaxBody is the maximum size of a request's body, in bytes.
const MaxBody = 8 << 20

// FirstGeneration is the generation of a session's first policy. The session's system call filters are always of that one.
const FirstGeneration = 1

// Daemon is the answer to GET Status.
type Daemon struct {
	Version  string         `json:"version"`
	Protocol int            `json:"protocol"`
	PID      int            `json:"pid"`
	Started  time.Time      `json:"started"`
	Sessions int            `json:"sessions"`      // those that the client may see
	Why      string         `json:"why,omitempty"` // why no session can begin; "": they can
	Network  string         `json:"network"`       // why toolguardd can't enforce network rules for the client; "": it can
	Denials  string         `json:"denials"`       // why Landlock's denials can't be reported to the client; "": they can
	Cgroups  cgroup.Support `json:"cgroups"`       // the limits that the client's sessions can have
}

// Session describes a session.
type Session struct {
	ID        string    `json:"id"`
	UID       int       `json:"uid"`
	PID       int       `json:"pid"`               // of the toolguard that started it
	Command   int       `json:"command,omitempty"` // the command's first process, if known
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
	Hidden    bool      `json:"hidden,omitempty"`   // the terminal's input is for other programs
	Reloads   int       `json:"reloads"`
	Within    string    `json:"within,omitempty"` // the session that it narrows
	Cgroup    string    `json:"cgroup,omitempty"`
	Started   time.Time `json:"started"`
	State     State     `json:"state"`

	Calls   bool   `json:"calls,omitempty"`   // its toolguard answers requests about calls and approvals
	Network bool   `json:"network,omitempty"` // toolguardd enforces its network rules
	Bundle  []byte `json:"bundle,omitempty"`  // of the session's certificate authority, in PEM; only in the answer to POST Sessions

	Tasks      int    `json:"tasks"`  // threads in it
	Denied     uint64 `json:"denied"` // denials
	Unreported uint64 `json:"untold"` // of them, those without an event: too many at once

	Usage *event.Usage `json:"usage,omitempty"` // until now
}

// State is a session's state.
type State string

// The states.
const (
	Starting State = "starting" // its command doesn't run yet
	Running  State = "running"
	Left     State = "left"   // the toolguard that started it has ended, and its command was started with --linger
	Ending   State = "ending" // its remaining processes are being killed
)

// Start is the body of POST Sessions, which begins a session. The answer is a Session that has no thread yet.
type Start struct {
	Policy   *policy.Compiled `json:"policy"`
	Limits   policy.Limits    `json:"limits"` // those of the policy that toolguardd sets
	Argv     []string         `json:"argv"`
	Tool     string           `json:"tool,omitempty"`
	Agent    string           `json:"agent,omitempty"`
	Degraded []string         `json:"degraded,omitempty"` // the rules that aren't enforced, for the start event
	Removed  []string         `json:"removed,omitempty"`  // the names of variables that the command doesn't get, for the start event
	Home     string           `json:"home,omitempty"`     // what ~ stands for
	Linger   bool             `json:"linger,omitempty"`   // leave the command's other processes running
	Network  *Network         `json:"network,omitempty"`  // enforce the network rules: the command enters a cgroup
}

// Network has facts about the client's network that toolguardd can't determine.
type Network struct {
	Resolvers []netip.AddrPort `json:"resolvers"`         // the client's name servers
	Proxies   []Proxy          `json:"proxies,omitempty"` // in the command's variables
}

// Proxy is a proxy in a variable, without a password that the variable may have.
type Proxy struct {
	Variable string `json:"variable"`
	Scheme   string `json:"scheme"` // of the protocol with the proxy
	Host     string `json:"host"`
	Port     string `json:"port,omitempty"` // "": the clients' default
}

// Enter is the body of PUT Thread: one of the client's own threads, which the session confines from then on and always.
type Enter struct {
	Thread int `json:"thread"`
}

// Notice is a line of GET Notices, which the toolguard that started a session reads once its thread is in the session. Events are in the form of
// this version; GET Events is for other programs.
type Notice struct {
	Event *event.Event `json:"event,omitempty"`
	End   *End         `json:"end,omitempty"` // the last one, after the session's end
}

// Record is a line of GET Denials, which the toolguard of a session under Landlock reads while it runs. It has exactly one of these fields.
type Record struct {
	Begin  *Begin              `json:"begin,omitempty"`  // the first
	Denial *kernelaudit.Denial `json:"denial,omitempty"` // as the kernel's audit records have it
	Times  uint64              `json:"times,omitempty"`  // the number of denials that differ from the last one only in time and serial
	Totals *kernelaudit.Totals `json:"totals,omitempty"` // the last one, after the client has sent a byte: the command has ended
}

// Begin has the thread name (PR_SET_NAME) by which toolguardd identifies the domains that a session's threads create. It is secret to other
// processes.
type Begin struct {
	Name string `json:"name"`
	PID  int    `json:"pid"` // the client's, in toolguardd's PID namespace, as in denials
}

// Outcome is the body of POST Ended: how the command ended.
type Outcome struct {
	Exit *event.Exit `json:"exit,omitempty"` // missing: it never started
}

// End has the counts of an ended session.
type End struct {
	Denied     uint64 `json:"denied"`
	Unreported uint64 `json:"untold"`

	Usage *event.Usage `json:"usage,omitempty"`
}

// Reload is the body of PUT Policy: the session gets another policy.
type Reload struct {
	Policy  *policy.Compiled `json:"policy"`
	Reloads *int             `json:"reloads,omitempty"` // only if the policy was replaced so often before; nil: in any case
}

// ErrReplaced is why a session's toolguard doesn't change its policy any more.
var ErrReplaced = errors.New("the session's policy was replaced ('toolguard sessions reload'), so none of its grants are in force")

// PruneRequest is the body of POST Prune, which only root may send: the size to which the audit is reduced.
type PruneRequest struct {
	Bytes int64 `json:"bytes"`
}

// CallEvent is the body of POST CallEvents: what happened to a call of the session, or to a grant. Which session it's about is toolguardd's to say.
type CallEvent struct {
	Event *event.Event `json:"event"`
}

// Pruned is the answer: the audit's size before and after.
type Pruned struct {
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// Failure is the body of every answer that isn't a success.
type Failure struct {
	Error string `json:"error"`
}
