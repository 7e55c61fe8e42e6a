package policy

import (
	"strings"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Compiled is a policy in the one form that every reader uses: the evaluator here, the mechanisms, the gate, egress.
// It's immutable.
type Compiled struct {
	Name       string
	Workspace  string     // canonical
	Path       string     // the session's PATH, as it was used to find programs
	TmpDir     string     // canonical, or ""
	Repository Repository `json:"-"`
	Detected   []Detected `json:"-"`
	Digest     string     // lower-case hex SHA-256 over the canonical form; the TMPDIR's name isn't part of it
	Files      []string
	Layers     []*Layer // in the order of Authority; first Builtin
	Rules      []*Rule  // every rule of every layer; a rule's Index is its index here
	Limits     Limits
	Audit      Audit
	Removed    []Removal
	ToolKeys   []Key          // of the tool layer: the client decides about calls, so they aren't passed on
	Aliases    []fspath.Alias // bind mounts by which rules concern further paths; in no particular order
	Links      []Link         // files with several hard links that rules name, in the order of the rules
}

// OnCalls reports whether a key of the tool layer is about calls that a host submits, for which the toolguard that began a session decides. The
// others are about processes, and nothing enforces them.
func (k *Key) OnCalls() bool { return !strings.HasSuffix(k.ID, ".enter") }

// Layer is the compiled policy of one authority.
type Layer struct {
	Authority Authority
	Position  Position                    `json:"Place"`  // of its [access] table
	Defaults  [NumResources]DefaultAction `json:"Stance"` // for what no rule matches: Deny, Allow, or Undeclared (which allows)
	FS        *FSTable                    // nil when fs is undeclared
	Net       *NetTable                   // nil when net is undeclared
	Env       *EnvTable                   // nil when env is undeclared
	Commands  *CommandTable               // nil when commands are undeclared
	Protect   *FSTable                    // the rules of `protect`; nil when it's off
	Mode      ProtectMode
	Secrets   *FSTable // the rules of `secrets`; nil when it's off

	SecretsMode  ProtectMode
	Namespaces   bool
	Syscalls     Syscalls
	Capabilities []string
	TLSIntercept bool
	Degraded     []Degraded

	narrowing *FSTable // FS without the rules that only grant; nil without aliases
}

// Rule is one rule with its origin.
type Rule struct {
	Index     int32  `json:"-"`
	ID        string // unique in the policy and stable for the same files: "fs.3", "host.net.1", "runtime.12", "commands.git"
	Authority Authority
	Resource  Resource `json:",omitzero"`
	Position  Position `json:"Place"`

	// One of these, by Resource.
	FS      *CompiledFS      `json:",omitzero"`
	Net     *CompiledNet     `json:",omitzero"`
	Env     *EnvRule         `json:",omitzero"`
	Command *CompiledCommand `json:",omitzero"`
}

// Builtin reports whether a rule is toolguard's own or comes from a built-in rule set or preset.
func (r *Rule) Builtin() bool { return r.Authority == Builtin || isBuiltinFile(r.Position.File) }

// CompiledFS is an fs rule with its path resolved.
type CompiledFS struct {
	Written      string // path or match, as written
	fspath.Entry        // what the rule matches
	Caps         Caps   // of a built-in rule that only grants, including the capabilities that its path has without it
	Unprotect    bool   `json:",omitzero"`
	Secret       bool   `json:",omitzero"`
	Missing      bool   `json:",omitzero"` // Path didn't exist when the policy was compiled
	Dir          bool   `json:",omitzero"` // Path was a directory then
	Optional     bool   `json:",omitzero"`
	Symlink      bool   `json:",omitzero"` // Path is a symlink, and the rule is about the symlink itself
}

// CompiledCommand is a command rule with its program found.
type CompiledCommand struct {
	CommandRule
	Program string // canonical path; "" when it wasn't found: the rule then matches nothing
	File    string `json:",omitzero"` // the path at which it was found, if that is a symlink with another name

	called []string // Called, once the rule is in a table
}

// Verdict is the answer to one question, without allocation; Describe makes it readable. The zero value denies.
type Verdict struct {
	Allow  bool
	Reason Reason
	Layer  int16 // index into Compiled.Layers; -1: none
	Rule   int32 // index into Compiled.Rules; -1: none
}

// Status is how far a backend enforces a rule. The zero value is the worst.
type Status uint8

// The statuses.
const (
	NotEnforceable Status = iota
	Partly
	Enforced
)

func (s Status) String() string { return [...]string{"not enforceable", "partly", "enforced"}[s] }

// Enforceability is how far a backend enforces one rule, or something that is always on (Rule is nil, ID names it).
type Enforceability struct {
	ID       string
	Rule     *Rule
	Position Position
	Status   Status
	Why      string // what is missing, or for Enforced a note (may be empty)
	By       string // the mechanism: "landlock", "seccomp", "netguard", "egress", "env", "cgroup", "rlimit", "supervisor"
	Advisory bool   // never a reason not to start: protect or secrets = "auto"
	Opens    string // the folder to which a Partly row's excess is confined, one of the backend's stated gaps; "": it may be anywhere

	Stricter bool // enforced, but the backend grants less than the rule, as Why explains
}

// Alike reports whether both are built-in rules of one set with the same result.
func (a *Enforceability) Alike(b Enforceability) bool {
	return a.Rule != nil && b.Rule != nil && a.Rule.Builtin() && a.Rule.Position.File == b.Rule.Position.File && a.Status == b.Status && a.Why == b.Why && a.By == b.By
}
