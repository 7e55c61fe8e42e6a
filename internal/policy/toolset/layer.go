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
	Author   policy.Authority   `json:"-"` // Host or Session
	Groups   map[string][]Entry `json:"groups,omitempty"`
	Profiles map[string]*Stage  `json:"profiles,omitempty"`
	Profile  Named              `json:"profile,omitzero"`
	Provider Named              `json:"provider,omitzero"`
	Agent    Named              `json:"agent,omitzero"`
	Group    Named              `json:"group,omitzero"`
	Global   *Stage             `json:"global,omitempty"` // nil for none
	Sandbox  *Stage             `json:"sandbox,omitempty"`
	Subagent *Stage             `json:"subagent,omitempty"`
	Aliases  map[string]string  `json:"aliases,omitempty"` // names by alias, both in the normal form
	Tools    []*Tool            `json:"tools,omitempty"`   // those of patterns with the least literal text first
	Known    []string           `json:"-"`                 // built-in names, in the normal form

	Gate      GateTable     `json:"gate,omitzero"`
	Approvals ApprovalTable `json:"approvals,omitzero"`
	Before    []*Hook       `json:"before_tool_call,omitempty"`
	After     []*Hook       `json:"after_tool_call,omitempty"`
}

// Rule is where an answer comes from.
type Rule struct {
	ID string          `json:"id,omitempty"` // the path to the key: "authorities.agent.coder.deny"
	At policy.Position `json:"at,omitzero"`
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
	Text string `json:"text"` // as written
	Rule Rule   `json:"rule,omitzero"`
}

// Named are the stages of one authority: one for all, and some by name.
type Named struct {
	All   *Stage            `json:"all,omitempty"`   // nil for none
	Names map[string]*Stage `json:"names,omitempty"` // "*" applies to a name that has no stage
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
	Rule      Rule              `json:"rule,omitzero"`
	Allow     []Entry           `json:"allow,omitempty"`
	Filters   bool              `json:"filters,omitempty"` // allow was given: an empty list allows nothing
	Deny      []Entry           `json:"deny,omitempty"`
	AlsoAllow []Entry           `json:"also_allow,omitempty"`
	Profile   Entry             `json:"profile,omitzero"` // Text is "" for none
	Strip     bool              `json:"strip,omitempty"`  // on_unknown = "strip"
	Providers map[string]*Stage `json:"providers,omitempty"`
	MaxDepth  int               `json:"max_depth,omitempty"` // of sub-agents; 0 for the default
}

// Tool is what one table of [tools] says.
type Tool struct {
	Pattern     Entry           `json:"pattern"`
	Source      string          `json:"source,omitempty"` // "local", "mcp" or "builtin"; "" where the table doesn't say
	Description string          `json:"description,omitempty"`
	Plugin      string          `json:"plugin,omitempty"`
	Kind        string          `json:"kind,omitempty"`
	Risk        string          `json:"risk,omitempty"`
	Ask         string          `json:"ask,omitempty"`
	OwnerOnly   *bool           `json:"owner_only,omitempty"`
	Aliases     []Entry         `json:"aliases,omitempty"`
	Implies     []Entry         `json:"implies,omitempty"`
	Models      []Entry         `json:"models,omitempty"` // patterns of PROVIDER/MODEL
	HasModels   bool            `json:"has_models,omitempty"`
	Roles       map[string]Role `json:"parameters,omitempty"` // of arguments, by the name in lower case
	Command     []string        `json:"command,omitempty"`    // of a local tool
	Schema      *Schema         `json:"schema,omitempty"`     // of a local tool

	MaxInvocations int     `json:"max_invocations,omitempty"` // 0 for none
	OnlyAfter      []Entry `json:"only_after,omitempty"`
	Forbidden      *bool   `json:"forbidden,omitempty"`

	Keys map[string]Rule `json:"keys,omitempty"` // of each key that the table has: "risk", "constraints.forbidden"
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
	Name string `json:"role"`
	Rule Rule   `json:"rule,omitzero"`
}

// GateTable is [gate].
type GateTable struct {
	Enabled           *bool           `json:"enabled,omitempty"`
	Strict            *bool           `json:"strict,omitempty"`
	AllowParentAccess *bool           `json:"allow_parent_access,omitempty"`
	Shell             string          `json:"shell,omitempty"`
	ToolPatterns      []Entry         `json:"tool_patterns,omitempty"`
	Exclude           []Entry         `json:"exclude,omitempty"`
	Roles             map[string]Role `json:"parameters,omitempty"` // of arguments, by the name in lower case
	Keys              map[string]Rule `json:"keys,omitempty"`
}

// ApprovalTable is [approvals], or what it says about one agent.
type ApprovalTable struct {
	Security    string                    `json:"security,omitempty"` // "" where it doesn't say
	Ask         string                    `json:"ask,omitempty"`
	AskFallback string                    `json:"ask_fallback,omitempty"`
	Timeout     time.Duration             `json:"timeout,omitempty"`
	Keys        map[string]Rule           `json:"keys,omitempty"`
	Agents      map[string]*ApprovalTable `json:"agents,omitempty"`
}

// Hook is a program or an HTTP endpoint that runs around calls.
type Hook struct {
	Command []string      `json:"command,omitempty"` // nil for a URL
	URL     string        `json:"url,omitempty"`
	Dir     string        `json:"-"` // the folder of the policy's file
	Timeout time.Duration `json:"timeout,omitempty"`
	Tools   []Entry       `json:"tools,omitempty"` // the only tools that it's for; nil for all
	Rule    Rule          `json:"rule,omitzero"`
	Layer   *Layer        `json:"-"` // whose groups and aliases Tools uses
}
