package sbpltest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Model is one way in which macOS may behave where no measurement decides. The zero value is the behaviour that peers expect.
type Model struct {
	// SubpathIsDirectory: (subpath P) doesn't match P itself, unless P is a directory that exists. kirodotdev/KiroCrew#7743 leaves it open.
	SubpathIsDirectory bool
	// FoldPaths: the volume ignores case, and literal and subpath do, too, as constellation-works/orbit#494 says.
	FoldPaths bool
	// FoldRegex: the volume ignores case, and regular expressions do, too: measured by one on macOS 26, and the opposite by orbit#494.
	FoldRegex bool
	// LocalIsAny: a local address matches whatever the address and port are, as nolabs-ai/nono and eugene1g/agent-safehouse#103 say of
	// parts; anthropic-experimental/sandbox-runtime expects them to count.
	LocalIsAny bool
}

// Models are all models that differ for files.
func Models() (all []Model) {
	for i := range 8 {
		all = append(all, Model{SubpathIsDirectory: i&1 != 0, FoldPaths: i&2 != 0, FoldRegex: i&4 != 0})
	}
	return all
}

func (m Model) samePath(p, q string) bool { return p == q || m.FoldPaths && strings.EqualFold(p, q) }

func (m Model) within(t *Target, dir string) bool {
	switch {
	case m.samePath(t.Path, dir):
		return !m.SubpathIsDirectory || t.Type == "DIRECTORY"
	case dir == "/":
		return true
	}
	at, rest := 0, t.Path
	for range strings.Count(dir, "/") { // not by its length: letters of another case may be longer
		next := strings.IndexByte(rest[1:], '/')
		if next < 0 {
			return false
		}
		at, rest = at+1+next, rest[1+next:]
	}
	return m.samePath(t.Path[:at], dir)
}

// Allows decides an operation, which isn't a family.
func (p *Profile) Allows(m Model, op string, t Target) bool {
	all := names[op]
	if all == nil {
		panic(op + " isn't an operation")
	}
	for _, name := range all {
		if allow, ok := lastMatch(p.byName[name], m, &t); ok {
			return allow
		}
	}
	for _, name := range all {
		if r := p.unlimited[name]; r != nil {
			return r.allow
		}
	}
	return p.allow
}

// lastMatch decides by the rules for one name. An allow that names a vnode-type with other conditions isn't undone by subpath.
func lastMatch(rules []*rule, m Model, t *Target) (allow, ok bool) {
	typed := false
	for _, r := range rules {
		if !r.filter.matches(m, t) {
			continue
		}
		allow, ok = r.allow, true
		switch {
		case r.allow:
			typed = typed || r.filter.head == "require-all" && slices.ContainsFunc(r.filter.of, isVnodeType)
		case r.filter.head != "subpath":
			typed = false
		}
	}
	return allow || typed, ok
}

func isVnodeType(f filter) bool { return f.head == "vnode-type" }

// undecided returns an error for rules about which no measurement says which of them decides: an operation's own rule without filters, and
// a rule with filters for a family of it.
func (p *Profile) undecided() error {
	for _, all := range names {
		for i, name := range all {
			own := p.unlimited[name]
			if own == nil {
				continue
			}
			for _, family := range all[i+1:] {
				if slices.ContainsFunc(p.byName[family], func(r *rule) bool { return r.allow != own.allow }) {
					return fmt.Errorf("no measurement decides between %s without filters and %s with filters", name, family)
				}
			}
		}
	}
	return nil
}

// Resolve returns the path that macOS decides on for a name: the symlinks of the root are followed, and firmlinks are at the root.
func Resolve(path string) string {
	if rest, ok := strings.CutPrefix(path, "/System/Volumes/Data"); ok && (rest == "" || rest[0] == '/') {
		path = cmp.Or(rest, "/")
	}
	for _, dir := range []string{"/tmp", "/var", "/etc"} {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return "/private" + path
		}
	}
	return path
}

// Link decides whether a file may get a second name.
func (p *Profile) Link(m Model, old, new Target) bool {
	return p.Allows(m, "file-link", old) && p.Allows(m, "file-write-create", new)
}

// Clone decides whether a file may be copied by clonefile, by which it need not be read.
func (p *Profile) Clone(m Model, old, new Target) bool {
	return p.Allows(m, "file-clone", old) && p.Allows(m, "file-write-create", new)
}

// Rename decides whether a file may be renamed; new has a Type if there is a file with that name.
func (p *Profile) Rename(m Model, old, new Target) bool {
	return p.Allows(m, "file-write-unlink", old) && p.Allows(m, "file-write-create", new) && (new.Type == "" || p.Allows(m, "file-write-unlink", new))
}
