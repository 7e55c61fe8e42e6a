package toolset

// Settings are what all authors say about one tool, the stricter of two settings, and each with its rule.
type Settings struct {
	Name   string // full, in the normal form, aliases replaced
	Source string // "local", "mcp" or "builtin"

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

	Rules map[string]Rule // of each key that a file sets: "risk", "constraints.max_invocations", "exclude"
}

// Predecessor is an entry of only_after, with the layer whose groups and aliases it uses.
type Predecessor struct {
	Entry
	Layer *Layer
}

// Schema is a JSON Schema for the arguments of a local tool.
type Schema struct {
	Text []byte // JSON
	Rule Rule
}

// Gate is [gate], of all authors.
type Gate struct {
	Enabled, Strict, AllowParentAccess bool

	Shell string // "auto", "bash", "posix" or "zsh"; two authors that disagree: "auto"
	Host  bool   // the host's files turn the gate on (a table [gate] with enabled, or nothing to the contrary): --gate off doesn't apply
	Rules map[string]Rule
}

// Approvals is [approvals] for one agent, of all authors: the strictest values.
type Approvals struct {
	Given                      bool // a file has [approvals]
	Security, Ask, AskFallback string
	Rules                      map[string]Rule
}

// Settings returns what the authors say about a tool. name is its full name (mcp__SERVER__TOOL), and bare the name that an MCP server gave
// it, else "".
func (s *Set) Settings(name, bare string) *Settings { return nil }

// Gate returns the settings of the gate.
func (s *Set) Gate() *Gate { return nil }

// Approvals returns the settings for one agent; "" for none.
func (s *Set) Approvals(agent string) *Approvals { return nil }
