package toolset

import "time"

// Settings are what all authors say about one tool, the stricter of two settings, and each with its rule.
type Settings struct {
	Name        string // full, in the normal form, aliases replaced: those of the host's files, if there are any
	Source      string // "local", "mcp" or "builtin"
	Description string

	Kind      string // "" for unknown
	Risk      string
	Ask       string // "" where no table says
	OwnerOnly bool
	Forbidden bool
	Exclude   bool // each author excludes the tool from the gate

	MaxInvocations int           // 0: no limit
	OnlyAfter      []Predecessor // each must be met

	Parameters map[string]string // roles by the name in lower case: those of the tool over those of the gate
	Command    []string          // of a local tool; nil for none
	Schema     *Schema           // of a local tool; nil for none

	Rules map[string]Rule // of each key that a file sets: "risk", "constraints.max_invocations", "exclude", "parameters.NAME"

	asks []string // the ask of each author, "" where it says nothing
}

// Predecessor is an entry of only_after, with the layer whose groups and aliases it uses.
type Predecessor struct {
	Entry
	Layer *Layer
}

// Matches reports whether a tool is one that must have been called. It's known by its full name, so that a server can't provide it.
func (p *Predecessor) Matches(name, bare string) bool {
	t := p.Layer.Target(name, bare)
	return p.Layer.Matcher([]Entry{p.Entry}).Find(t, false) != nil
}

// Schema is a JSON Schema for the arguments of a local tool.
type Schema struct {
	Text []byte `json:"text"` // JSON
	Rule Rule   `json:"rule,omitzero"`
}

// Gate is [gate], of all authors.
type Gate struct {
	Enabled, Strict, AllowParentAccess bool

	Shell string // "auto", "bash", "posix" or "zsh"; two authors that disagree: "auto"
	Host  bool   // the host has files, and they don't turn the gate off: --gate off doesn't apply
	Rules map[string]Rule
}

// Approvals is [approvals] for one agent, of all authors: the strictest values.
type Approvals struct {
	Given                      bool // a file has [approvals]
	Security, Ask, AskFallback string
	Timeout                    time.Duration
	Rules                      map[string]Rule

	authors []*ApprovalTable
}

// The words of settings, from the loose to the strict.
var (
	Risks      = []string{"low", "medium", "high", "critical"}
	asks       = []string{"off", "on-miss", "always"}
	securities = []string{"full", "allowlist", "deny"}
)

// defaultTimeout is how long an approval is waited for where no file says.
const defaultTimeout = 2 * time.Minute

// riskOf is the risk of a tool by its kind.
func riskOf(kind string) string {
	switch kind {
	case "read", "list":
		return "low"
	case "create", "modify", "delete", "move":
		return "medium"
	}
	return "high"
}
