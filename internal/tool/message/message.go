// Package message is the JSON of tool calls and approvals, between those who ask and the process that serves a session's calls. Its field
// names are a contract: docs/api.md describes them.
package message

import "encoding/json"

// The paths of the requests. One about a single call or approval has its id after it, and then one of the second group.
const (
	Calls     = "/v1/calls"
	Approvals = "/v1/approvals"

	Result   = "/result"
	Cancel   = "/cancel"
	Decision = "/decision"
)

// The decisions about an approval. Without one, nobody has answered in time, or the request was withdrawn.
const (
	AllowOnce   = "allow-once"
	AllowAlways = "allow-always"
	Deny        = "deny"
)

// The states of a call.
const (
	Denied  = "denied"
	Waiting = "waiting" // for a person
	Running = "running" // it may run
)

// Rule is where an answer comes from.
type Rule struct {
	ID        string `json:"id"`
	Authority string `json:"authority"`
	File      string `json:"file"`
	Line      int    `json:"line"`
}

// Answer is the decision about a call.
type Answer struct {
	ID         *string  `json:"id"`
	Decision   string   `json:"decision"`
	Reason     string   `json:"reason"`
	Message    string   `json:"message"`
	Rule       *Rule    `json:"rule"`
	Capability string   `json:"capability"`
	Declared   bool     `json:"declared"`
	Risk       string   `json:"risk"`
	Grants     []string `json:"grants"`
	Suggest    string   `json:"suggest,omitempty"`
	Swallow    bool     `json:"should_swallow"`
	ToModel    string   `json:"error_to_model,omitempty"`
	Metadata   Metadata `json:"metadata"`

	Arguments json.RawMessage `json:"arguments,omitempty"` // of gate's answer: with which the call runs, if hooks have changed them
}

// Metadata is the answer in the form that hosts store with a call.
type Metadata struct {
	Decision string `json:"decision"`
	Path     string `json:"path,omitempty"`
	Root     string `json:"project_root"`
}

// State is a call at one moment.
type State struct {
	Call      string          `json:"call"`
	Arguments json.RawMessage `json:"arguments"` // with which it runs: hooks may have changed them
	Answer    *Answer         `json:"answer"`
	State     string          `json:"state"`
	Approval  *string         `json:"approval"` // the id, while a person is asked
	Exec      *struct{}       `json:"exec"`     // always nil: hosts run their calls themselves
}

// File is a file that an approval is bound to.
type File struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // in hexadecimal
}

// Approval is a request that a person answers.
type Approval struct {
	ID         string          `json:"id"`
	Agent      string          `json:"agent"`
	Session    string          `json:"session"`
	Tool       string          `json:"tool"` // "" for a grant
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Argv       []string        `json:"argv"` // nil for a call that runs no command
	Cwd        string          `json:"cwd"`
	EnvSHA256  string          `json:"env_sha256"`
	Risk       string          `json:"risk"`
	Reason     string          `json:"reason"` // why a person is asked; of a grant what the requester says
	Created    int64           `json:"created_at_ms"`
	Expires    int64           `json:"expires_at_ms"`
	Decision   *string         `json:"decision"`
	Resolved   int64           `json:"resolved_at_ms,omitempty"` // 0: it is pending; else when it was decided, expired or was withdrawn
	Exe        *File           `json:"exe"`
	Files      []File          `json:"files"`
	Offers     []string        `json:"offers"` // the decisions that are possible
	Rule       string          `json:"rule"`   // as TOML: what allow-always stores; of a grant what is added to the policy
	ResolvedBy *By             `json:"resolved_by,omitempty"`
}

// By is who decided.
type By struct {
	UID int    `json:"uid"`
	PID int    `json:"pid"`
	Exe string `json:"exe"`
	Via string `json:"via"` // "terminal", "command" or "api"
}

// List is the answer to GET Approvals.
type List struct {
	Approvals []Approval `json:"approvals"`
	Version   uint64     `json:"version,omitempty"` // with since=N in the request: the N of the next one
}

// Decided is the answer to GET Decision, and with Via the body of a decision.
type Decided struct {
	Decision *string `json:"decision"`
	Via      string  `json:"via,omitempty"`
	For      int64   `json:"for_ms,omitempty"`  // of a grant: how long it's in force; 0: as long as the session
	Pending  bool    `json:"pending,omitempty"` // there is no decision yet, and still time for one
	Effect   string  `json:"effect,omitempty"`  // of a grant that was given: "now", or "next start" and why not now
}

// Grant is the body of POST Approvals: a request for the smallest grant that allows something. Its questions are those of check.
type Grant struct {
	ID       string   `json:"id"` // "": a new one
	Why      string   `json:"why"`
	Resource string   `json:"resource"`
	Action   string   `json:"action"`
	Target   string   `json:"target"`
	Argv     []string `json:"argv,omitempty"`
	For      int64    `json:"for_ms,omitempty"`
}

// End is the body of POST Result. One of the two is given.
type End struct {
	Result   json.RawMessage `json:"result,omitempty"`
	Error    json.RawMessage `json:"error,omitempty"`
	Duration int64           `json:"duration_ms"`
}

// Failure is the body of every answer that isn't a success.
type Failure struct {
	Error string `json:"error"`
}
