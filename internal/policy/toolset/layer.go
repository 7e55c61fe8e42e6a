package toolset

import (
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
)

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

	Gate          GateTable
	Approvals     ApprovalTable
	Before, After []*Hook
}

// Rule is where an answer comes from.
type Rule struct {
	ID string // the path to the key: "authorities.agent.coder.deny"
	At policy.Position
}

// Builtin reports whether the rule is one of toolguard's own, which no author has set.
func (r Rule) Builtin() bool { return strings.HasPrefix(r.At.File, "builtin:") }

// Authority is whose rule it is: the host's, or the session's.
func (r Rule) Authority() policy.Authority {
	if strings.HasPrefix(r.ID, policy.Host.String()+".") {
		return policy.Host
	}
	return policy.Session
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

// ChosenProfile is the profile that the author's files choose for an agent, "" for none: the agent's, else that of all.
func (l *Layer) ChosenProfile(agent string) string {
	var own *Stage
	if agent != "" {
		own, _ = l.Agent.For(agent)
	}
	return FirstProfile(own, l.Global)
}

// FirstProfile is the profile of the first of the stages that names one. A stage may be nil.
func FirstProfile(stages ...*Stage) string {
	for _, s := range stages {
		if s != nil && s.Profile.Text != "" {
			return s.Profile.Text
		}
	}
	return ""
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
	Pattern     Entry
	Source      string // "local", "mcp" or "builtin"; "" where the table doesn't say
	Description string
	Plugin      string
	Kind        string
	Risk        string
	Ask         string
	OwnerOnly   *bool
	Aliases     []Entry
	Implies     []Entry
	Models      []Entry // patterns of PROVIDER/MODEL
	HasModels   bool
	Roles       map[string]Role // of arguments, by the name in lower case
	Command     []string        // of a local tool
	Schema      *Schema         // of a local tool

	MaxInvocations int // 0 for none
	OnlyAfter      []Entry
	Forbidden      *bool

	Keys map[string]Rule // of each key that the table has: "risk", "constraints.forbidden"
}

// ID returns the rule of one key of the table.
func (t *Tool) ID(key string) Rule {
	if r, ok := t.Keys[key]; ok {
		return r
	}
	return Rule{ID: t.Pattern.Rule.ID + "." + key, At: t.Pattern.Rule.At}
}

// Role is what an argument of a call is: "path", "patch", "url", "command", "argv", "cwd" or "text".
type Role struct {
	Name string
	Rule Rule
}

// GateTable is [gate].
type GateTable struct {
	Enabled, Strict, AllowParentAccess *bool

	Shell        string
	ToolPatterns []Entry
	Exclude      []Entry
	Roles        map[string]Role // of arguments, by the name in lower case
	Keys         map[string]Rule
}

// ApprovalTable is [approvals], or what it says about one agent.
type ApprovalTable struct {
	Security, Ask, AskFallback string // "" where it doesn't say

	Timeout time.Duration
	Keys    map[string]Rule
	Agents  map[string]*ApprovalTable
}

// Hook is a program or an HTTP endpoint that runs around calls.
type Hook struct {
	Command []string // nil for a URL
	URL     string
	Dir     string // the folder of the policy's file
	Timeout time.Duration
	Tools   []Entry // the only tools that it's for; nil for all
	Rule    Rule
	Layer   *Layer // whose groups and aliases Tools uses
}
