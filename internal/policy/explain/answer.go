package explain

import "github.com/toolguard/toolguard/internal/policy"

// Question is an operation on one target, as text: the input of the command line and the gate.
type Question struct {
	Resource policy.Resource
	Caps     policy.Caps // for FS: the wanted capabilities
	Symlink  bool        // for FS: of the target itself, where it's a symlink
	Target   string      // a path, a URL or tcp://host:port, or a variable's name
	Listen   bool        // for Net: bind and accept instead of connect
	Scheme   string      // for Net: the protocol, where the target has none; a suggestion grants no other
	Method   string      // for Net: the HTTP method; "" asks about the connection alone
	Argv     []string    // for Commands: the program and its arguments
	Anyway   bool        // a suggestion may also grant secrets, protected files and sockets of root's, each by its exact name
}

// Explanation lists every rule that matches, layer by layer, and which one won.
type Explanation struct {
	Answer Answer
	Layers []LayerExplanation
}

// LayerExplanation is one authority's part of an Explanation. Layers that don't declare the resource are left out.
// For a command there are layers of two resources: commands first, then fs, which must let its program be executed.
type LayerExplanation struct {
	Authority     policy.Authority
	Resource      policy.Resource
	DefaultAction policy.DefaultAction // for what no rule matches
	Also          string               // the target's alias, where the rules are for that
	Allow         bool
	Reason        policy.Reason
	Candidates    []Candidate // in rule order
}

// Winner returns the rule that decided; nil where the default did.
func (l *LayerExplanation) Winner() (rule *policy.Rule) {
	for _, c := range l.Candidates {
		if c.Won {
			rule = c.Rule // protect's rules come last, and win against those of fs
		}
	}
	return rule
}

// Candidate is a rule that matched.
type Candidate struct {
	Rule  *policy.Rule
	Won   bool
	Grade string // how specific it is, in words: "depth 4, literal"
	Why   string // why it won or lost
}

// Warning is something in a policy that is allowed but probably a mistake.
type Warning struct {
	Position policy.Position
	Code     string // stable: "never-wins", "missing", …
	Msg      string
	Hint     string
}

func (w Warning) String() string {
	return (&policy.Error{Position: w.Position, Msg: w.Msg, Hint: w.Hint}).Error()
}

// Change is one difference between two compiled policies.
type Change struct {
	Resource string // "fs", "net", "env", "commands", "limits", "access"
	Widened  bool   // the new policy allows something that the old one didn't
	Narrowed bool   // the old policy allows something that the new one doesn't
	Target   string
	Old, New string
	OldRule  *policy.Rule // the rule that decides in the old policy; may be nil
	NewRule  *policy.Rule
}

// Answer is a verdict for people and machines.
type Answer struct {
	Decision  string // "allow" or "deny"
	Reason    policy.Reason
	Rule      *policy.Rule // nil when none decided
	Authority policy.Authority
	Target    string // as resolved
	Also      string // the target's alias, where that denies it
	Suggest   string // for a deny: the smallest rule that would allow it, as TOML; may be empty when none can
	Advice    string // for a deny without such a rule: who can change it, or what to consider first; may be empty
	Note      string // details beyond the reason code: why a target is invalid; may be empty
}
