package toolset

import (
	"cmp"
	"strings"
)

// GroupPrefix begins a pattern that stands for a group of tools.
const GroupPrefix = "group:"

// The groups that need no definition.
const (
	GroupAll     = "all"     // every tool
	GroupPlugins = "plugins" // every tool of a plugin
)

// longestName is how long a tool's name may be, in bytes.
const longestName = 128

// Normal returns a tool's name as it's compared: in lower case, with _ for -.
func Normal(name string) string {
	for i := range len(name) {
		if c := name[i]; c == '-' || c >= 'A' && c <= 'Z' || c >= 0x80 {
			return strings.ReplaceAll(strings.ToLower(name), "-", "_")
		}
	}
	return name
}

// ValidName reports whether a tool may have this name. A tool with another one is invisible.
func ValidName(name string) bool {
	if name == "" || len(name) > longestName || strings.HasPrefix(name, GroupPrefix) {
		return false
	}
	for i := range len(name) {
		if !inNames[name[i]] {
			return false
		}
	}
	return true
}

// inNames are the bytes of which names consist.
var inNames = func() (in [256]bool) {
	for _, c := range "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.:/@" {
		in[c] = true
	}
	return in
}()

// Glob reports whether a pattern, a name with "*" for any run of characters, matches a name. Both are in the normal form.
func Glob(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if !strings.HasPrefix(name, head) {
		return false
	}
	name = name[len(head):]
	for {
		head, rest, star = strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, head)
		}
		i := strings.Index(name, head)
		if i < 0 {
			return false
		}
		name = name[i+len(head):]
	}
}

// Compare orders patterns from the general to the special: by the length of their literal text, whole names last.
func Compare(a, b string) int {
	literal := func(s string) int {
		if strings.HasPrefix(s, GroupPrefix) {
			return 0
		}
		return len(s) - strings.Count(s, "*")
	}
	exact := func(s string) bool { return !strings.HasPrefix(s, GroupPrefix) && !strings.Contains(s, "*") }
	switch {
	case exact(a) != exact(b) && exact(a):
		return 1
	case exact(a) != exact(b):
		return -1
	}
	return cmp.Compare(literal(a), literal(b))
}

// Target is a tool as patterns see it.
type Target struct {
	Name   string // in the normal form, aliases replaced
	Given  string // in the normal form, as it was given
	Bare   string // of an MCP server's tool its name there, in the normal form; else ""
	Plugin string // the plugin that brings it; "" for none

	BarePlugin string // the plugin of a table for the bare name, which a server may have chosen for it
}

// Matcher finds the entry of a list of patterns that matches a tool.
type Matcher struct {
	exact   map[string]*Entry
	begins  [256]begin // by a name's first byte: what could match it, which is quicker to find out than by comparing names
	globs   []glob
	plugins map[string]*Entry // by plugin
	all     *Entry            // the entry for every tool
	plugin  *Entry            // the entry for every tool of a plugin
}

// begin says which patterns of a Matcher can begin with a byte.
type begin struct{ exact, glob bool }

type glob struct {
	pattern string
	head    string // what is before its first *
	prefix  bool   // the only * is at its end
	entry   *Entry
}

// Matcher compiles a list of patterns. The entry that it finds is that of the list, also where a member of a group matches.
func (l *Layer) Matcher(list []Entry) *Matcher {
	m := &Matcher{exact: make(map[string]*Entry, len(list)), plugins: map[string]*Entry{}}
	for i := range list {
		l.add(m, list[i].Text, &list[i], 0)
	}
	return m
}

// maxNesting is how deep groups may be within groups; package policyfile rejects deeper ones.
const maxNesting = 16

func (l *Layer) add(m *Matcher, pattern string, e *Entry, depth int) {
	group, ok := strings.CutPrefix(pattern, GroupPrefix)
	switch {
	case !ok && strings.Contains(pattern, "*"):
		pattern = Normal(pattern)
		head, rest, _ := strings.Cut(pattern, "*")
		m.globs = append(m.globs, glob{pattern, head, rest == "", e})
		for b := range m.begins {
			m.begins[b].glob = m.begins[b].glob || head == "" || head[0] == byte(b)
		}
	case !ok:
		if pattern = l.Canonical(pattern); pattern != "" {
			m.begins[pattern[0]].exact = true
			keepFirst(m.exact, pattern, e)
		}
	case group == GroupAll:
		m.all = cmp.Or(m.all, e)
	case group == GroupPlugins:
		m.plugin = cmp.Or(m.plugin, e)
	case l.Groups[group] == nil:
		keepFirst(m.plugins, group, e)
	case depth < maxNesting:
		for _, member := range l.Groups[group] {
			l.add(m, member.Text, e, depth+1)
		}
	}
}

func keepFirst(m map[string]*Entry, key string, e *Entry) {
	if m[key] == nil {
		m[key] = e
	}
}

// Canonical returns the name of a tool in the normal form, an alias replaced by the name that it stands for.
func (l *Layer) Canonical(name string) string {
	name = Normal(name)
	if of, ok := l.Aliases[name]; ok {
		return of
	}
	return name
}

// Find returns an entry that matches a tool, or nil. wide also compares the tool's bare name, and the alias by which it was given:
// that's for what removes tools.
func (m *Matcher) Find(t *Target, wide bool) *Entry {
	if e := m.all; e != nil {
		return e
	}
	if e := m.byPlugin(t.Plugin); e != nil {
		return e
	}
	if e := m.byPlugin(t.BarePlugin); e != nil && wide {
		return e
	}
	if e := m.find(t.Name); e != nil || !wide {
		return e
	}
	if t.Given != t.Name {
		if e := m.find(t.Given); e != nil {
			return e
		}
	}
	return m.find(t.Bare)
}

func (m *Matcher) byPlugin(plugin string) *Entry {
	if plugin == "" {
		return nil
	}
	return cmp.Or(m.plugin, m.plugins[plugin])
}

func (m *Matcher) find(name string) *Entry {
	if name == "" {
		return nil
	}
	begin := m.begins[name[0]]
	if begin.exact {
		if e := m.exact[name]; e != nil {
			return e
		}
	}
	if !begin.glob {
		return nil
	}
	for i := range m.globs {
		if g := &m.globs[i]; strings.HasPrefix(name, g.head) && (g.prefix || Glob(g.pattern, name)) {
			return g.entry
		}
	}
	return nil
}
