package policy

import "strings"

// Authority is the origin of a layer. A target is allowed only if every authority that declares the resource allows
// it, so no later one can widen an earlier one.
type Authority uint8

// The authorities in their fixed order. Builtin is toolguard itself: what no policy can grant.
const (
	Builtin Authority = iota
	Host
	Profile
	Provider
	Global
	Agent
	Group
	Sandbox
	Subagent
	Session
	NumAuthorities
)

var authorityNames = [NumAuthorities]string{
	"builtin", "host", "profile", "provider", "global", "agent", "group", "sandbox", "subagent", "session",
}

func (a Authority) String() string { return authorityNames[a] }

// ParseAuthority returns the authority of a name; ok is false if there is none.
func ParseAuthority(s string) (a Authority, ok bool) {
	for i, n := range authorityNames {
		if n == s {
			return Authority(i), true
		}
	}
	return 0, false
}

// Resource is the kind of target of a rule.
type Resource uint8

// The four resources.
const (
	FS Resource = iota
	Net
	Env
	Commands
	NumResources
)

var resourceNames = [NumResources]string{"fs", "net", "env", "commands"}

func (r Resource) String() string { return resourceNames[r] }

// DefaultAction applies to a target that no rule matches. The zero value denies nothing by itself: Undeclared becomes Deny
// as soon as the resource has a rule.
type DefaultAction uint8

// The default actions.
const (
	Undeclared DefaultAction = iota
	Deny
	Allow
)

// Caps is a set of fs capabilities.
type Caps uint16

// The capabilities. Write is the alias for the three that change something.
const (
	Read Caps = 1 << iota
	Create
	Update
	Delete
	Execute

	Write   = Create | Update | Delete
	AllCaps = Read | Write | Execute
)

var capNames = []struct {
	c    Caps
	name string
}{{Read, "read"}, {Create, "create"}, {Update, "update"}, {Delete, "delete"}, {Execute, "execute"}}

// String lists the capabilities, "read+create"; "none" for the empty set.
func (c Caps) String() string {
	var s []string
	for _, n := range capNames {
		if c&n.c != 0 {
			s = append(s, n.name)
		}
	}
	if s == nil {
		return "none"
	}
	return strings.Join(s, "+")
}

// ParseCap returns a capability by its name; ok is false if there is none.
func ParseCap(s string) (c Caps, ok bool) {
	for _, n := range capNames {
		if n.name == s {
			return n.c, true
		}
	}
	return 0, false
}

// Reason is the reason of a verdict: a closed list, documented in docs/policy.md.
type Reason string

// The reasons.
const (
	Allowed          Reason = "rule_allows"    // a rule allows it
	AllowedByDefault Reason = "default_allows" // no rule matched; the default allows
	AllowedNoPolicy  Reason = "undeclared"     // no authority declares the resource

	NoRule           Reason = "no_rule"
	RuleDenies       Reason = "rule_denies"
	OutsideWorkspace Reason = "outside_workspace"
	WorkspaceEscape  Reason = "workspace_escape"
	Protected        Reason = "protected"
	PathUnresolved   Reason = "path_unresolved"
	NoGain           Reason = "no_gain"
	CommandNotListed Reason = "command_not_listed"
	ArgsNotListed    Reason = "args_not_listed"
	HostNotListed    Reason = "host_not_listed"
	HostMismatch     Reason = "host_mismatch"
	PrivateAddress   Reason = "private_address"
	DNSDenied        Reason = "dns_denied"
	SyscallDenied    Reason = "syscall_denied"
	Limit            Reason = "limit"
	Constraint       Reason = "constraint"
	ApprovalDenied   Reason = "approval_denied"
	ApprovalTimeout  Reason = "approval_timeout"
	EngineError      Reason = "engine_error"
)
