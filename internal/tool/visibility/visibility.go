package visibility

import (
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// Caller is for whom tools are listed. Nothing of it is taken from a policy.
type Caller struct {
	Agent, Profile, Provider, Model, Group string

	Owner     bool // the caller is the owner
	Depth     int  // of sub-agents; 0 is the agent itself
	Sandboxed bool // the caller is in a session
}

// Tool is a tool that a host or server offers.
type Tool struct {
	Name      string
	Server    string // the MCP server that offers it; "" for none
	OwnerOnly bool   // the host's own mark
}

// The reasons for which a tool is removed.
const (
	BadName       = "bad_name"
	NameCollision = "name_collision"
	Forbidden     = "forbidden"
	Models        = "models"
	OwnerOnly     = "owner_only"
	Denied        = "denied"      // by an entry of deny
	NotAllowed    = "not_allowed" // by a list of allowed tools that doesn't have it
	TooDeep       = "max_depth"
)

// Removal is what removed a tool.
type Removal struct {
	Stage, Reason string
	Rule          toolset.Rule // empty where no rule of the policy did
}

// removalTexts are the reasons for which a tool is invisible, for people.
var removalTexts = map[string]string{
	BadName:       "no policy can name a tool so: 1 to 128 of A-Z a-z 0-9 _ - . : / @",
	NameCollision: "an earlier tool of the list has the same name",
	Forbidden:     "the policy forbids it to every model",
	Models:        "the policy shows it to other models only (--provider, --model)",
	OwnerOnly:     "only the owner sees it (--owner)",
	Denied:        "the policy denies it",
	NotAllowed:    "the list of allowed tools doesn't have it",
	TooDeep:       "sub-agents may not be so deep",
}

// Why is the reason in words.
func (r *Removal) Why() string { return removalTexts[r.Reason] }

// Result is what a caller sees of a list of tools.
type Result struct {
	Tools    []State // in the order that they were given in
	Warnings []string
}

// State is one tool of a Result.
type State struct {
	Name    string   // in the normal form; of an MCP server's tool the full name
	Removed *Removal // nil if it's visible
}

// CheckServer rejects the name of an MCP server that mcp__SERVER__TOOL would give to another one.
func CheckServer(name string) error {
	normal := toolset.Normal(name)
	if !toolset.ValidName(name) || strings.Contains(normal, "__") || strings.HasSuffix(normal, "_") {
		return fmt.Errorf("%q isn't the name of an MCP server: 1 to 128 of A-Z a-z 0-9 _ - . : / @, no two _ or - in a row, and none at the end", name)
	}
	return nil
}

// fullName returns the name of an MCP server's tool as policies have it, and the bare name. Of any other tool bare is "". Names are compared
// in their normal form, as patterns are.
func fullName(t Tool) (full, bare string) {
	const prefix = "mcp__"
	name := toolset.Normal(t.Name)
	if t.Server != "" { // the server chooses the name, and must not choose another server's
		own := prefix + t.Server + "__"
		if rest, ok := strings.CutPrefix(name, toolset.Normal(own)); ok {
			return t.Name, rest
		}
		return own + t.Name, t.Name
	}
	if rest, ok := strings.CutPrefix(name, prefix); ok { // as a host names it
		_, bare, _ = strings.Cut(rest, "__")
	}
	return t.Name, bare
}
