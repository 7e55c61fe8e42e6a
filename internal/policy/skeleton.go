package policy

import (
	"net/netip"
	"strings"
)

func isBuiltinFile(file string) bool {
	return strings.HasPrefix(file, "builtin:") || strings.HasPrefix(file, "preset:")
}

// FSTable matches paths against the fs rules of one layer.
type FSTable struct{ rules []*Rule }

// NoMatch and Unresolvable are what Lookup returns instead of a rule.
const (
	NoMatch      int32 = -1
	Unresolvable int32 = -2
)

// Lookup is the index of the rule that decides a canonical path, and the depth at which it matched.
func (t *FSTable) Lookup(path string) (rule int32, depth int) { return Unresolvable, 0 }

// Rules is every rule in order; the caller must not change it.
func (t *FSTable) Rules() []*Rule { return t.rules }

// Literals is every rule with a path, in order.
func (t *FSTable) Literals() []*Rule { return nil }

// Patterns is every rule with a match, in order.
func (t *FSTable) Patterns() []*Rule { return nil }

// Covering is the rule that would decide path if no rule were exactly there: nil when none does.
func (t *FSTable) Covering(path string) *Rule { return nil }

// LiteralBeneath is the first literal rule strictly beneath path, nil when there is none.
func (t *FSTable) LiteralBeneath(path string) *Rule { return nil }

// PatternBeneath is the first pattern that could hit path itself or something beneath it, nil when there is none.
func (t *FSTable) PatternBeneath(path string) *Rule { return nil }

// NetTable matches network targets against the net rules of one layer.
type NetTable struct{ rules []*Rule }

// Rules is every rule in order; the caller must not change it.
func (t *NetTable) Rules() []*Rule { return t.rules }

// EnvTable matches names of variables against the env rules of one layer.
type EnvTable struct{ rules []*Rule }

// Rules is every rule in order; the caller must not change it.
func (t *EnvTable) Rules() []*Rule { return t.rules }

// CommandTable matches programs and arguments against the command rules of one layer.
type CommandTable struct{ rules []*Rule }

// Rules is every rule in order; the caller must not change it.
func (t *CommandTable) Rules() []*Rule { return t.rules }

// CompiledNet is a net rule with its host normalised. One of Name, Suffix, Prefix says what it matches.
type CompiledNet struct {
	NetRule
	Name   string       // exact host name
	Suffix string       // "example.com" for *.example.com
	Prefix netip.Prefix // an address or a range
	Path   []string     // segments of path_prefix
}

// NetTarget is a parsed network target.
type NetTarget struct {
	Scheme   string // "" when unknown: raw TCP or UDP
	Host     string // normalised name, or "" for an address
	Addr     netip.Addr
	Port     uint16
	Protocol string // "tcp" or "udp"
	Path     []string
	Method   string
	Listen   bool
}

// Move is a rename: of Old to New, both canonical, with what is known of them.
type Move struct {
	Old, New  string
	OldDir    bool
	NewExists bool
	NewDir    bool
	Exchange  bool // RENAME_EXCHANGE
}

// Compile resolves, checks and indexes a policy. The error is Errors: every mistake at once.
func Compile(src *Source, sys System) (*Compiled, error) { return nil, Errors{} }

// CheckFS decides on a canonical path.
func (c *Compiled) CheckFS(path string, want Caps) Verdict { return Verdict{} }

// ResolveTarget makes the path that the kernel would decide on of what was asked for.
func (c *Compiled) ResolveTarget(sys System, input string, follow bool) (string, error) {
	return "", nil
}

// CheckFSInput resolves and decides; path is what was decided on.
func (c *Compiled) CheckFSInput(sys System, input string, want Caps) (v Verdict, path string) {
	return Verdict{}, ""
}

// CheckRename decides a rename.
func (c *Compiled) CheckRename(m Move) Verdict { return Verdict{} }

// CheckLink decides a hard link.
func (c *Compiled) CheckLink(old, new string) Verdict { return Verdict{} }

// ParseNetTarget parses a URL, tcp://host:port or udp://host:port.
func ParseNetTarget(s string) (NetTarget, error) { return NetTarget{}, nil }

// CheckNet decides a network target.
func (c *Compiled) CheckNet(t *NetTarget) Verdict { return Verdict{} }

// CheckAddress decides on an address that the target's name resolved to.
func (c *Compiled) CheckAddress(t *NetTarget, addr netip.Addr) Verdict { return Verdict{} }

// CheckEnv decides whether the session may see a variable.
func (c *Compiled) CheckEnv(name string) Verdict { return Verdict{} }

// CheckCommand decides on a program (canonical path) and its whole argv.
func (c *Compiled) CheckCommand(program string, argv []string) Verdict { return Verdict{} }

// FindProgram finds a program's canonical path: an absolute one, or a name through a PATH.
func FindProgram(sys System, searchPath, name string) (string, bool) { return "", false }

// Ask decides any question.
func (c *Compiled) Ask(sys System, q Question) (Verdict, Answer) { return Verdict{}, Answer{} }

// Describe makes a verdict readable.
func (c *Compiled) Describe(v Verdict, q Question, target string) Answer { return Answer{} }

// Explain is Ask with every rule that had a say.
func (c *Compiled) Explain(sys System, q Question) Explanation { return Explanation{} }

// Lint finds what is probably a mistake.
func Lint(c *Compiled, sys System) []Warning { return nil }

// Diff is what changed between two policies, in what they mean.
func Diff(a, b *Compiled) []Change { return nil }
