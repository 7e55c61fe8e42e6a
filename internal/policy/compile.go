package policy

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Compile resolves, checks and indexes a policy. The error is Errors: every mistake at once, in the files' order.
func Compile(src *Source, sys fspath.FileSystem) (*Compiled, error) {
	c := &compiler{src: src, sys: sys, res: fspath.NewResolver(sys)}
	c.res.Literal = true
	c.res.OnLink = c.ways.add
	c.out = &Compiled{Name: src.Name, Path: src.Path, Limits: src.Limits, Audit: src.Audit, Repository: src.Repository, ToolKeys: src.ToolKeys, Detected: src.Detected, Rules: make([]*Rule, 0, src.size())}
	if !c.resolveFolders() {
		return nil, c.errs
	}
	c.builtin()
	last := Builtin
	for i := range src.Layers {
		l := &src.Layers[i]
		if l.Authority <= last || l.Authority >= NumAuthorities {
			c.fail(l.Position, fmt.Errorf("the authority %d is out of order", l.Authority), "")
			continue
		}
		last = l.Authority
		c.layer(l)
	}
	if len(c.errs) == 0 { // else there are tables that couldn't be made
		all, err := sys.Mounts()
		c.aliases(all, err)
		c.links(all)
	}
	if len(c.errs) > 0 {
		return nil, c.sorted()
	}
	c.out.setReadsTLS()
	c.out.Digest = c.out.digest()
	return c.out, nil
}

// size estimates the number of rules of a policy.
func (s *Source) size() int {
	n := 2*len(own) + len(s.Files)
	for i := range s.Layers {
		l := &s.Layers[i]
		n += len(l.FS) + len(l.Net) + len(l.Env) + len(l.Commands) + len(l.Runtime) + len(l.Protected) + len(l.SecretFiles)
	}
	return n
}

// compiler is the state of one compilation.
type compiler struct {
	src   *Source
	sys   fspath.FileSystem
	res   *fspath.Resolver
	roots fspath.Roots
	out   *Compiled
	ways  ways
	errs  Errors
}

func (c *compiler) fail(p Position, err error, hint string) {
	c.errs = append(c.errs, &Error{Position: p, Msg: err.Error(), Hint: hint})
}

// sorted puts the errors of each file in the order of its lines.
func (c *compiler) sorted() Errors {
	rank := map[string]int{}
	for _, e := range c.errs {
		if _, ok := rank[e.Position.File]; !ok {
			rank[e.Position.File] = len(rank)
		}
	}
	slices.SortStableFunc(c.errs, func(a, b *Error) int {
		if d := rank[a.Position.File] - rank[b.Position.File]; d != 0 {
			return d
		}
		if d := a.Position.Line - b.Position.Line; d != 0 {
			return d
		}
		return a.Position.Col - b.Position.Col
	})
	return c.errs
}

// resolveFolders resolves the folders that all paths are relative to. It returns false where nothing can be compiled.
func (c *compiler) resolveFolders() bool {
	ws, err := c.folder(c.src.Workspace)
	if err != nil {
		at := c.src.Chosen
		at.File = cmp.Or(at.File, c.src.Name)
		c.fail(at, fmt.Errorf("the workspace %q can't be used: %w", c.src.Workspace, err), "")
		return false
	}
	c.out.Workspace = ws
	c.roots = fspath.Roots{Workspace: ws, Home: c.src.Home}
	if c.src.TmpDir != "" {
		if c.out.TmpDir, err = c.folder(c.src.TmpDir); err != nil {
			c.fail(Position{File: c.src.Name}, fmt.Errorf("the session's TMPDIR %q can't be used: %w", c.src.TmpDir, err), "")
			return false
		}
	}
	if c.src.Home != "" {
		home, _ := c.res.Resolve(path.Clean(c.src.Home), true)
		c.roots.RealHome = home.Path
	}
	for _, h := range c.src.NeverHome {
		if home, _ := c.res.Resolve(path.Clean(h), true); c.src.Chosen.File != "" || ws != "/" && !fspath.Within(home.Path, ws) {
			continue
		}
		c.fail(Position{File: ws}, errors.New("this is the home, or contains it, and is the workspace only where something names it: "+
			"a command could read and write all that is in it"),
			"go to a project's folder, or name one: --workspace DIR, or workspace = \"DIR\" in the policy")
		return false
	}
	return true
}

func (c *compiler) folder(p string) (string, error) {
	if !strings.HasPrefix(p, "/") {
		return "", fmt.Errorf("it isn't an absolute path")
	}
	got, err := c.res.Resolve(path.Clean(p), true)
	switch {
	case err != nil:
		return "", err
	case got.Missing:
		return "", fmt.Errorf("%s doesn't exist", got.Path)
	case got.Kind != fspath.Dir:
		return "", fmt.Errorf("%s isn't a directory", got.Path)
	case !fspath.IsCanonical(got.Path):
		return "", fspath.ErrTooLong
	}
	return got.Path, nil
}

// add sets a rule's index.
func (c *compiler) add(r *Rule) *Rule {
	r.Index = int32(len(c.out.Rules))
	c.out.Rules = append(c.out.Rules, r)
	return r
}

func (c *compiler) layer(src *SourceLayer) {
	l := &Layer{
		Authority: src.Authority, Position: src.Position, Defaults: src.Defaults, Mode: src.Protect, SecretsMode: src.Secrets, Namespaces: src.Namespaces,
		Syscalls: src.Syscalls, Capabilities: src.Capabilities, TLSIntercept: src.TLSIntercept, Degraded: src.Degraded,
	}
	for r, n := range [NumResources]int{len(src.FS), len(src.Net), len(src.Env), len(src.Commands)} {
		if l.Defaults[r] == Undeclared && n > 0 {
			l.Defaults[r] = Deny
		}
	}
	ids := ruleIDs{authority: src.Authority, used: map[string]int{}}
	c.layerFS(l, src, &ids)
	if l.Defaults[Net] != Undeclared {
		l.Net = c.layerNet(src, &ids)
	}
	if l.Defaults[Env] != Undeclared {
		l.Env = c.layerEnv(src, &ids)
	}
	if l.Defaults[Commands] != Undeclared {
		l.Commands = c.layerCommands(src, &ids)
	}
	c.out.Layers = append(c.out.Layers, l)
}

// ruleIDs numbers the rules of one layer.
type ruleIDs struct {
	authority Authority
	used      map[string]int
}

// count counts a rule of a kind. Rules of a built-in file have their own numbers, under the file's name.
func (n *ruleIDs) count(kind, file string) ruleNumber {
	if isBuiltinFile(file) {
		if set := file[strings.IndexByte(file, ':')+1:]; set != kind {
			kind = set + "." + kind
		}
	}
	n.used[kind]++
	return ruleNumber{n.prefix(), kind, n.used[kind]}
}

// next is the id of the next rule of a kind.
func (n *ruleIDs) next(kind, file string) string { return n.count(kind, file).String() }

// ruleNumber is an id in its parts. Most of the built-in rules are for other machines, so their id is never written.
type ruleNumber struct {
	prefix, kind string
	n            int
}

func (n ruleNumber) String() string { return n.prefix + n.kind + "." + strconv.Itoa(n.n) }

// named is the id of a rule that has a name of its own.
func (n *ruleIDs) named(kind, name string) string {
	id := kind + "." + name
	if n.used[id]++; n.used[id] > 1 {
		id += "." + strconv.Itoa(n.used[id])
	}
	return n.prefix() + id
}

func (n *ruleIDs) prefix() string {
	if n.authority == Session {
		return ""
	}
	return n.authority.String() + "."
}

// isBuiltinFile reports whether a file is one of toolguard's built-in rule sets or presets.
func isBuiltinFile(file string) bool {
	return strings.HasPrefix(file, "builtin:") || strings.HasPrefix(file, "preset:")
}
