package darwin

import (
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// Options are what a profile depends on in addition to the policy.
type Options struct {
	Home       string // the user's home; "" where it isn't known
	EgressPort int    // the port of loopback on which egress accepts connections; 0: none
}

// ExampleEgress is the port of egress in a profile that isn't for a session.
const ExampleEgress = 3128

// Param is a parameter of a profile (sandbox-exec -D NAME=VALUE).
type Param struct{ Name, Value string }

// Profile is a Seatbelt profile with its parameters, and how far it enforces each rule of the policy.
type Profile struct {
	Text   string
	Params []Param
	Report []policy.Enforceability
}

// Render compiles a policy. The error is a policy that is too complex to be rendered.
func Render(c *policy.Compiled, o Options) (*Profile, error) {
	p := &profile{c: c, names: map[string]string{}, following: map[*policy.Rule]bool{}, egress: o.EgressPort}
	if len(c.Aliases) > 0 {
		return nil, fmt.Errorf("%s is also %s by a bind mount: macOS has none, and no profile is for a machine that has", c.Aliases[0].From, c.Aliases[0].To)
	}
	p.line(systemPart)
	if err := p.files(); err != nil {
		return nil, err
	}
	p.network()
	p.own()
	return &Profile{Text: p.text.String(), Params: p.params, Report: p.report()}, nil
}

// profile is the state of one rendering.
type profile struct {
	c      *policy.Compiled
	egress int

	text    strings.Builder
	heading string // the comment before the next rule
	params  []Param
	names   map[string]string // of parameters, by their value

	regions []*region
	gain    policy.Caps // what a new file can have somewhere
	emitted []*region   // those with a rule
	moves   moves

	following map[*policy.Rule]bool // patterns that also apply outside their BASE
}

func (p *profile) line(s string) {
	p.text.WriteString(s)
	p.text.WriteByte('\n')
}

// param returns the reference to a parameter with that value.
func (p *profile) param(kind, value string) string {
	name := p.names[value]
	if name == "" {
		name = fmt.Sprintf("%s%d", kind, len(p.params)+1)
		p.names[value], p.params = name, append(p.params, Param{name, value})
	}
	return `(param "` + name + `")`
}

func (p *profile) literal(path string) string { return "(literal " + p.param("P", path) + ")" }
func (p *profile) subpath(path string) string { return "(subpath " + p.param("P", path) + ")" }
func (p *profile) regex(re string) string     { return "(regex " + p.param("R", re) + ")" }

// comment sets the comment before the next rule.
func (p *profile) comment(s string) { p.heading = "\n; " + s }

// rule writes a rule, if it has filters. One of them must match.
func (p *profile) rule(allow bool, ops string, filters ...string) {
	if len(filters) == 0 {
		return
	}
	if p.heading != "" {
		p.line(p.heading)
		p.heading = ""
	}
	p.line("(" + action(allow) + " " + ops)
	seen := map[string]bool{}
	for _, f := range filters {
		if !seen[f] {
			p.line("  " + f)
		}
		seen[f] = true
	}
	p.line("  )")
}

func action(allow bool) string {
	if allow {
		return "allow"
	}
	return "deny"
}

// all returns a filter that matches where all of the filters do.
func all(filters ...string) string { return combined("require-all", filters) }

// any returns a filter that matches where one of the filters does.
func anyOf(filters ...string) string { return combined("require-any", filters) }

func combined(how string, filters []string) string {
	if len(filters) == 1 {
		return filters[0]
	}
	return "(" + how + " " + strings.Join(filters, " ") + ")"
}

// spellings are the folders that have a second spelling, by a symlink.
var spellings = []string{"/tmp", "/var", "/etc"}

const (
	private    = "/private"
	dataVolume = "/System/Volumes/Data"
)

// isLink reports whether a path is a symlink on every Mac, or as good as one.
func isLink(path string) bool {
	return path == dataVolume || path == spellings[0] || path == spellings[1] || path == spellings[2]
}

// spelled returns a canonical path in its spellings.
func spelled(path string) []string {
	for _, s := range spellings {
		if rest, ok := strings.CutPrefix(path, private+s); ok && (rest == "" || rest[0] == '/') {
			return []string{path, s + rest}
		}
	}
	return []string{path}
}
