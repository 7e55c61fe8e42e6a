package toolset

import "github.com/toolguard/toolguard/internal/policy"

// Set is the tool layer of a policy: a layer for each author, the host's first.
type Set struct{ Layers []*Layer }

// Layer is what one author's files say about tools, merged.
type Layer struct {
	Author   policy.Authority // Host or Session
	Groups   map[string][]Entry
	Profiles map[string]*Stage

	Profile, Provider, Agent, Group Named
	Global, Sandbox, Subagent       *Stage // nil for none

	Aliases map[string]string // names by alias, both in the normal form
	Tools   []*Tool           // those of patterns with the least literal text first
	Known   []string          // built-in names, in the normal form
}

// Rule is where an answer comes from.
type Rule struct {
	ID string // the path to the key: "authorities.agent.coder.deny"
	At policy.Position
}

// Entry is one entry of a list of patterns.
type Entry struct {
	Text string // as written
	Rule Rule
}

// Named are the stages of one authority: one for all, and some by name.
type Named struct {
	All   *Stage            // nil for none
	Names map[string]*Stage // "*" applies to a name that has no stage
}

// For returns the stage of a name, and whether it's one that is written for this name or for "*". Without, it's the stage for all.
func (n *Named) For(name string) (s *Stage, own bool) {
	if s := n.Names[name]; s != nil && name != "" {
		return s, true
	}
	if s := n.Names["*"]; s != nil {
		return s, true
	}
	return n.All, false
}

// Stage is one stage of visibility: an entry of [profiles] or of [authorities].
type Stage struct {
	Rule      Rule
	Allow     []Entry
	Filters   bool // allow was given: an empty list allows nothing
	Deny      []Entry
	AlsoAllow []Entry
	Profile   Entry // Text is "" for none
	Strip     bool  // on_unknown = "strip"
	Providers map[string]*Stage
	MaxDepth  int // of sub-agents; 0 for the default
}

// Tool is what one table of [tools] says.
type Tool struct {
	Pattern   Entry
	Source    string // "local", "mcp" or "builtin"; "" where the table doesn't say
	Plugin    string
	Kind      string
	Risk      string
	OwnerOnly *bool
	Forbidden *bool
	Aliases   []Entry
	Implies   []Entry
	Models    []Entry // patterns of PROVIDER/MODEL
	HasModels bool

	Keys map[string]policy.Position // where each key is: "risk", "constraints.forbidden"
}

// ID returns the rule of one key of the table.
func (t *Tool) ID(key string) Rule {
	r := Rule{ID: t.Pattern.Rule.ID + "." + key, At: t.Pattern.Rule.At}
	if at, ok := t.Keys[key]; ok {
		r.At = at
	}
	return r
}
