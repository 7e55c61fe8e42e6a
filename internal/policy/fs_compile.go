package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// HostFolder is the folder of the machine's policies.
const HostFolder = "/etc/toolguard"

// own are toolguard's folders on every machine, and the control group file system, where a command could change or leave its limits.
var own = []string{HostFolder, "/run/toolguard", "/var/lib/toolguard", "/sys/fs/bpf/toolguard", "/sys/fs/cgroup"}

// UserFolders is the file name of the rules for toolguard's own folders in a user's home.
const UserFolders = "builtin:home"

// builtin compiles the first layer: it allows everything but to change the files that toolguard relies on. A name that leads through
// symlinks is protected at every step: to replace a link would replace the policy.
func (c *compiler) builtin() {
	l := &Layer{Authority: Builtin, Mode: ProtectOn}
	l.Defaults[FS] = Allow
	var rules []*Rule
	seen := map[string]bool{}
	from := Position{File: "builtin:toolguard"}
	protect := func(p string) {
		switch {
		case seen[p]:
			return
		case !fspath.IsCanonical(p):
			c.unprotected(p, fspath.ErrTooLong, "move it")
			return
		}
		seen[p] = true
		rules = append(rules, c.add(&Rule{
			ID: "toolguard." + strconv.Itoa(len(rules)+1), Position: from,
			FS: &CompiledFS{Entry: fspath.Entry{Path: p}, Written: p, Caps: Read | Execute},
		}))
	}
	for _, p := range own {
		protect(p)
		_, _ = c.follow(p, protect) // a path that can't be resolved is protected by its name
	}
	for _, f := range c.src.Files {
		end, err := c.follow(f, protect)
		if err != nil {
			c.unprotected(f, err, "name the file itself")
			continue
		}
		c.out.Files = append(c.out.Files, end)
	}
	from.File = UserFolders
	for _, p := range c.src.Own {
		protect(p)
		_, _ = c.follow(p, protect)
	}
	l.FS, _ = newFSTable(rules)
	c.out.Layers = append(c.out.Layers, l)
}

func (c *compiler) unprotected(file string, err error, hint string) {
	c.fail(Position{File: file}, fmt.Errorf("it can't be protected from the command: %w", err), hint)
}

// follow protects the file that a name leads to and every symlink on the way, those of its folders included.
func (c *compiler) follow(name string, protect func(string)) (end string, err error) {
	res := *c.res
	res.Literal = false // the name is of a file that this process opened, not of a rule
	res.OnLink = protect
	got, err := res.Resolve(name, true)
	if err == nil {
		protect(got.Path)
	}
	return got.Path, err
}

func (c *compiler) layerFS(l *Layer, src *SourceLayer, ids *ruleIDs) {
	if l.Defaults[FS] != Undeclared {
		var runtime []*Rule
		common, needs := len(c.ways), l.Defaults[FS] != Allow && len(src.Runtime) > 0
		if needs {
			runtime = c.fsRules(src.Authority, c.runtime(src), "runtime", ids)
		}
		rules := c.fsRules(src.Authority, src.FS, "fs", ids)
		if needs {
			runtime = append(runtime, c.fsRules(src.Authority, c.ways.rules(), "link", ids)...)
		}
		c.ways = c.ways[:common]
		l.FS = c.table(src, completeGrants(c.removeOverridden(slices.Concat(runtime, rules)), l.Defaults[FS]))
	}
	if l.Mode != ProtectOff && len(src.Protected) > 0 {
		l.Protect = c.table(src, c.fsRules(src.Authority, src.Protected, "protect", ids))
	}
	if l.SecretsMode != ProtectOff && len(src.SecretFiles) > 0 {
		l.Secrets = c.table(src, c.fsRules(src.Authority, src.SecretFiles, "secrets", ids))
	}
}

func (c *compiler) table(src *SourceLayer, rules []*Rule) *FSTable {
	for _, r := range rules {
		c.add(r)
	}
	t, err := newFSTable(rules)
	if err != nil {
		c.fail(src.Position, err, "use fewer patterns, or paths")
	}
	return t
}

// runtime returns the layer's runtime rules, with one for the session's private TMPDIR where there is one.
func (c *compiler) runtime(src *SourceLayer) []FSRule {
	if len(src.Runtime) == 0 || c.out.TmpDir == "" {
		return src.Runtime
	}
	for _, r := range src.Runtime {
		if r.Path == c.src.TmpDir {
			return src.Runtime
		}
	}
	tmp := FSRule{Path: c.src.TmpDir, Caps: Read | Write, Position: Position{File: "builtin:runtime"}}
	return append(src.Runtime[:len(src.Runtime):len(src.Runtime)], tmp)
}

// ways are the symlinks that lead to the workspace, the TMPDIR and the home, and to paths on which rules grant read. Programs that resolve
// a name (realpath) read them one by one, and the targets are no secret from the author of the policy.
type ways []string

func (w *ways) add(path string) {
	if !slices.Contains(*w, path) {
		*w = append(*w, path)
	}
}

// rules returns a rule for each of them that grants read.
func (w *ways) rules() (rules []FSRule) {
	for _, path := range *w {
		rules = append(rules, FSRule{Path: path, Caps: Read, Position: Position{File: "builtin:runtime"}, Symlink: true, Optional: true})
	}
	return rules
}

// fsRules compiles rules of one kind. Rules of built-in files whose paths don't exist on this machine are left out, but counted:
// an id is the same everywhere. A rule that denies, or that lifts a protection, also applies to a path that doesn't exist yet.
func (c *compiler) fsRules(a Authority, src []FSRule, kind string, ids *ruleIDs) []*Rule {
	rules := make([]Rule, 0, len(src))
	compiled := make([]CompiledFS, len(src)) // one allocation: there are many, and every session compiles them
	for i := range src {
		s, fs := &src[i], &compiled[len(rules)]
		number := ids.count(kind, s.Position.File)
		hint, err := c.fsRule(s, fs)
		linked, isLinked := errors.AsType[*linkedError](err)
		switch {
		case s.Optional && isLinked:
			removed := *fs
			c.out.Removed = append(c.out.Removed, Removal{
				Rule: &Rule{ID: number.String(), Authority: a, Resource: FS, Position: s.Position, FS: &removed}, Link: linked.to,
			})
			*fs = CompiledFS{}
		case s.Optional && (err != nil || fs.Missing && !s.Ensure && !s.Unprotect && (s.Caps != 0 || s.Match != "")):
			*fs = CompiledFS{}
		case err != nil:
			c.fail(s.Position.At(s.Value), fmt.Errorf("%s: %w", number, err), hint)
		default:
			rules = append(rules, Rule{ID: number.String(), Authority: a, Resource: FS, Position: s.Position, FS: fs})
		}
	}
	out := make([]*Rule, len(rules))
	for i := range rules {
		out[i] = &rules[i]
	}
	return out
}

// fsRule compiles a rule into fs.
func (c *compiler) fsRule(s *FSRule, fs *CompiledFS) (hint string, err error) {
	*fs = CompiledFS{Caps: s.Caps, Unprotect: s.Unprotect, Secret: s.Secret, Optional: s.Optional, Written: s.Path, Symlink: s.Symlink}
	if s.Symlink {
		switch fs.Path = s.Path; {
		case !fspath.IsCanonical(s.Path):
			return "", fspath.ErrTooLong
		case !utf8.ValidString(s.Path):
			return "", errors.New("not UTF-8, so the policy couldn't be passed on")
		}
		return "", nil
	}
	if c.res.OnLink = nil; s.Caps&Read != 0 && !s.NoLink {
		c.res.OnLink = c.ways.add
	}
	written := s.Path
	if s.Match != "" {
		p, err := fspath.ParsePattern(s.Match)
		if err != nil {
			return fspath.PatternForms, err
		}
		fs.Written, fs.Last, fs.Names, written = s.Match, p.Last, p.Names, p.Base
		written = cmp.Or(written, ".")
	}
	got, err := c.roots.Resolve(c.res, written, !s.NoLink || s.Caps != 0)
	if err == nil && s.NoLink && got.Path != c.roots.Unlinked(written) {
		err = &linkedError{written, got.Path}
	}
	if err != nil {
		return ruleHint(err), err
	}
	fs.Path, fs.Missing, fs.Dir = got.Path, got.Missing, got.Kind == fspath.Dir
	return "", nil
}

// linkedError is about a symlink in the path of a NoLink rule.
type linkedError struct{ written, to string }

func (e *linkedError) Error() string {
	return fmt.Sprintf("%q leads through a symlink, to %s", e.written, e.to)
}

// ruleHint returns what to do about a rule whose path can't be resolved.
func ruleHint(err error) string {
	if errors.Is(err, fspath.ErrEscape) {
		return "if that is intended, write it as an absolute path"
	}
	return "write the path of something that exists, or leave the rule out"
}
