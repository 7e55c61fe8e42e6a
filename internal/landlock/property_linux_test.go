package landlock

import (
	"flag"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// forest is a file tree in memory.
type forest map[string]fspath.Kind

func (f forest) Lstat(p string) (fspath.Kind, error) {
	if k, ok := f[p]; ok {
		return k, nil
	}
	return 0, fs.ErrNotExist
}

func (f forest) Readlink(string) (string, error) { return "", fs.ErrInvalid }

func (f forest) Mounts() ([]fspath.Mount, error) { return nil, nil }

func (f forest) File(string) (fspath.FileID, uint64, error) {
	return fspath.FileID{}, 0, fs.ErrNotExist
}

// kernel is what Landlock decides under a plan, from the documentation: each ruleset's grants along the chain of folders
// are united, and every ruleset must give all that is asked of it. A grant is tied to what was at its path at the start.
type kernel struct {
	plan  *Plan
	tree  forest
	inode map[string]int // what is at a path now
	first map[string]int // what was there when the plan was applied
}

func newKernel(plan *Plan, tree forest) kernel {
	k := kernel{plan, forest{}, map[string]int{}, map[string]int{}}
	for p, kind := range tree {
		k.tree[p], k.inode[p], k.first[p] = kind, len(k.inode)+1, len(k.inode)+1
	}
	return k
}

func (k kernel) gives(rs *Ruleset, p string) (access uint64) {
	for at := p; ; at = path.Dir(at) {
		for _, g := range rs.Grants {
			if n := k.first[g.Path]; n == 0 || n != k.inode[at] {
				continue
			}
			a := g.Access
			if k.tree[at] != fspath.Dir {
				a &= onFiles
			}
			access |= a
		}
		if at == "/" {
			return access
		}
	}
}

// move renames, with everything beneath.
func (k kernel) move(old, new string) {
	k.remove(new)
	for p := range k.tree {
		if beneath(p, old) {
			q := new + strings.TrimPrefix(p, old)
			k.tree[q], k.inode[q] = k.tree[p], k.inode[p]
			delete(k.tree, p)
			delete(k.inode, p)
		}
	}
}

func (k kernel) remove(p string) {
	delete(k.tree, p)
	delete(k.inode, p)
}

func (k kernel) make(p string, kind fspath.Kind, inode int) { k.tree[p], k.inode[p] = kind, inode }

// empty tells whether nothing is beneath p.
func (k kernel) empty(p string) bool {
	for q := range k.tree {
		if q != p && beneath(q, p) {
			return false
		}
	}
	return true
}

// step does one thing that Landlock allows, if it's one that the kernel otherwise allows.
func (k kernel) step(what int, p, q string, fresh int) {
	kind, there := k.tree[p]
	over, exists := k.tree[q]
	parent := path.Dir(p)
	switch {
	case p == "/" || q == "/" || k.tree[parent] != fspath.Dir || k.tree[path.Dir(q)] != fspath.Dir:
	case what == 0 && !there && k.allows(parent, ll.AccessFSMakeReg):
		k.make(p, fspath.File, fresh)
	case what == 1 && !there && k.allows(parent, ll.AccessFSMakeDir):
		k.make(p, fspath.Dir, fresh)
	case what == 2 && there && k.empty(p) && k.allows(parent, k.removes(kind)):
		k.remove(p)
	case !there || beneath(q, p) || beneath(p, q):
	case what == 3 && kind != fspath.Dir && !exists && k.link(p, q):
		k.make(q, kind, k.inode[p])
	case exists && ((kind == fspath.Dir) != (over == fspath.Dir) || !k.empty(q)):
	case what >= 4 && k.rename(p, q):
		k.move(p, q)
	}
}

func (k kernel) allows(p string, want uint64) bool {
	for i := range k.plan.Rulesets {
		rs := &k.plan.Rulesets[i]
		if want&rs.FS&^k.gives(rs, p) != 0 {
			return false
		}
	}
	return true
}

// noGain is what the kernel asks of a move or link into another folder: the new place gives nothing that the old one
// doesn't, of what counts for the kind of thing.
func (k kernel) noGain(old, newDir string, dir bool) bool {
	for i := range k.plan.Rulesets {
		rs := &k.plan.Rulesets[i]
		counts := rs.FS
		if !dir {
			counts &= onFiles
		}
		if k.gives(rs, newDir)&^k.gives(rs, old)&counts != 0 {
			return false
		}
	}
	return true
}

func (k kernel) makes(kind fspath.Kind) uint64 {
	if kind == fspath.Dir {
		return ll.AccessFSMakeDir
	}
	return ll.AccessFSMakeReg
}

func (k kernel) removes(kind fspath.Kind) uint64 {
	if kind == fspath.Dir {
		return ll.AccessFSRemoveDir
	}
	return ll.AccessFSRemoveFile
}

func (k kernel) rename(old, new string) bool {
	kind := k.tree[old]
	from, to := k.removes(kind), k.makes(kind)
	if there, ok := k.tree[new]; ok {
		to |= k.removes(there)
	}
	od, nd := path.Dir(old), path.Dir(new)
	if od == nd {
		return k.allows(od, from|to)
	}
	return k.allows(od, from|ll.AccessFSRefer) && k.allows(nd, to|ll.AccessFSRefer) && k.noGain(old, nd, kind == fspath.Dir)
}

func (k kernel) link(old, new string) bool {
	od, nd := path.Dir(old), path.Dir(new)
	if od == nd {
		return k.allows(nd, ll.AccessFSMakeReg)
	}
	return k.allows(od, ll.AccessFSRefer) && k.allows(nd, ll.AccessFSMakeReg|ll.AccessFSRefer) && k.noGain(old, nd, false)
}

// drawForest makes a small tree with few names, so that rules and targets meet.
func drawForest(t *rapid.T) (forest, []string) {
	f := forest{"/": fspath.Dir, "/ws": fspath.Dir}
	dirs := []string{"/", "/ws"}
	all := []string{"/", "/ws"}
	for range rapid.IntRange(2, 12).Draw(t, "entries") {
		p := path.Join(rapid.SampledFrom(dirs).Draw(t, "in"), rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "name"))
		if _, ok := f[p]; ok {
			continue
		}
		kind := rapid.SampledFrom([]fspath.Kind{fspath.Dir, fspath.Dir, fspath.File, fspath.Program}).Draw(t, "kind")
		f[p] = kind
		all = append(all, p)
		if kind == fspath.Dir {
			dirs = append(dirs, p)
		}
	}
	for _, d := range dirs { // names that aren't there
		all = append(all, path.Join(d, "x"))
	}
	return f, all
}

func drawCaps(t *rapid.T) policy.Caps {
	usual := []policy.Caps{0, policy.Read, policy.Read | policy.Execute, policy.Read | policy.Write, policy.AllCaps, policy.Read | policy.Update}
	if rapid.IntRange(0, 4).Draw(t, "odd") == 0 {
		return policy.Caps(rapid.IntRange(0, int(policy.AllCaps)).Draw(t, "caps"))
	}
	return rapid.SampledFrom(usual).Draw(t, "caps")
}

func drawLayer(t *rapid.T, a policy.Authority, paths []string) policy.SourceLayer {
	l := policy.SourceLayer{Authority: a}
	for i := range rapid.IntRange(1, 4).Draw(t, "rules") {
		r := policy.FSRule{Path: rapid.SampledFrom(paths).Draw(t, "path"), Caps: drawCaps(t), Position: policy.Position{File: "p", Line: i + 1}}
		if rapid.IntRange(0, 7).Draw(t, "pattern") == 0 {
			r.Match, r.Path = strings.TrimSuffix(r.Path, "/")+"/**/"+rapid.SampledFrom([]string{"a", "b", "x"}).Draw(t, "last"), ""
		}
		l.FS = append(l.FS, r)
	}
	if rapid.IntRange(0, 3).Draw(t, "protect") == 0 {
		l.Protect = policy.ProtectOn
		l.Protected = []policy.FSRule{{Match: "/**/b", Position: policy.Position{File: "builtin:protect", Line: 1}}}
	}
	if rapid.IntRange(0, 3).Draw(t, "secrets") == 0 {
		l.Secrets = policy.ProtectOn
		at := policy.Position{File: "builtin:secrets", Line: 1}
		l.SecretFiles = []policy.FSRule{{Match: "/**/x", Position: at}, {Match: "/**/a", Caps: policy.Read, Position: at}}
	}
	return l
}

// TestEnforcedIsThePolicy proves the report: where every rule is called enforced, Landlock allows nothing that the policy
// denies, and denies what it allows only where a stated gap says so.
func TestEnforcedIsThePolicy(t *testing.T) {
	tried, held, stricter := 0, 0, 0
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := flag.Set("rapid.checks", "20000"); err != nil { // a second: the default finds too little
			t.Fatal(err)
		}
		defer flag.Set("rapid.checks", f.DefValue)
	}
	rapid.Check(t, func(t *rapid.T) {
		tree, paths := drawForest(t)
		src := &policy.Source{Name: "p", Workspace: "/ws", Home: "/ws"}
		if rapid.Bool().Draw(t, "file") {
			src.Files = []string{rapid.SampledFrom(paths).Draw(t, "policy file")}
		}
		if rapid.IntRange(0, 2).Draw(t, "host") == 0 {
			src.Layers = append(src.Layers, drawLayer(t, policy.Host, paths))
		}
		src.Layers = append(src.Layers, drawLayer(t, policy.Session, paths))
		c, err := policy.Compile(src, tree)
		if err != nil {
			t.Skip(err)
		}
		tried++
		strict, exactly := map[string]bool{}, true
		for _, row := range (&asRoot{c, newest}).rows() {
			if row.Status != policy.Enforced {
				return
			}
			if row.Stricter {
				strict[row.Rule.FS.Path] = true
				exactly = exactly && row.Rule.FS.Last == ""
			}
		}
		held++
		plan, err := NewPlan(c, newest)
		childtest.Must(t, err)
		k := newKernel(plan, tree)
		stricter += len(strict)
		if !exactly { // a pattern may be about any of them
			strict = nil
		}
		compare(t, c, k, paths, strict)
		for i := range rapid.IntRange(0, 8).Draw(t, "steps") {
			p, q := rapid.SampledFrom(paths).Draw(t, "p"), rapid.SampledFrom(paths).Draw(t, "q")
			k.step(rapid.IntRange(0, 6).Draw(t, "what"), p, q, 1000+i)
			compare(t, c, k, paths, nil)
		}
	})
	if held*20 < tried || stricter*20 < held {
		t.Errorf("only %d of %d policies were enforced, with %d rules that Landlock is stricter than: the test shows little", held, tried, stricter)
	}
	t.Logf("%d of %d policies were enforced and compared, with %d rules that Landlock is stricter than", held, tried, stricter)
}

// asRoot is Report without the help of file permissions, which the tree in memory hasn't.
type asRoot struct {
	c   *policy.Compiled
	abi int
}

func (a *asRoot) rows() []policy.Enforceability {
	var out []policy.Enforceability
	for _, row := range Report(a.c, a.abi) {
		if row.By == byPermissions {
			row.Status = policy.NotEnforceable
		}
		out = append(out, row)
	}
	return out
}

type fataler interface {
	Fatalf(format string, args ...any)
}

// compare asks both about everything that could be done next. After the session has moved things about, grants that
// have gone with them are missing at their paths (strict is nil then); more than the policy there must never be. strict
// are the paths of rules that Landlock is said to be stricter than: names there can't be made or removed.
func compare(t fataler, c *policy.Compiled, k kernel, paths []string, strict map[string]bool) {
	for _, p := range paths {
		if k.tree[path.Dir(p)] != fspath.Dir {
			continue
		}
		comparePath(t, c, k, p, strict)
		for _, q := range paths {
			if k.tree[path.Dir(q)] == fspath.Dir {
				compareMove(t, c, k, p, q)
			}
		}
	}
}

// comparePath compares the operations on one name.
func comparePath(t fataler, c *policy.Compiled, k kernel, p string, strict map[string]bool) {
	kind, there := k.tree[p]
	dir, names := kind == fspath.Dir, !strict[p]
	check := func(what string, kernel bool, want policy.Caps, exact bool) {
		v := c.CheckFS(p, want)
		if kernel && !v.Allow {
			t.Fatalf("%s %s: landlock allows, the policy says %s\n%s", what, p, v.Reason, describe(c))
		}
		if !kernel && v.Allow && exact && strict != nil {
			t.Fatalf("%s %s: the policy allows, landlock doesn't\n%s", what, p, describe(c))
		}
	}
	switch {
	case !there:
		parent := path.Dir(p)
		check("create", k.allows(parent, ll.AccessFSMakeReg), policy.Create, names)
		check("mkdir", k.allows(parent, ll.AccessFSMakeDir), policy.Create, names)
		check("symlink", k.allows(parent, ll.AccessFSMakeSym), policy.Create, names)
		check("mkfifo", k.allows(parent, ll.AccessFSMakeFifo), policy.Create, names)
		check("bind", k.allows(parent, ll.AccessFSMakeSock), policy.Create, names)
		check("create and write", k.allows(parent, ll.AccessFSMakeReg) && k.allows(p, ll.AccessFSWriteFile), policy.Create, names)
		if k.allows(parent, ll.AccessFSMakeChar) || k.allows(parent, ll.AccessFSMakeBlock) {
			t.Fatalf("a device can be made at %s", p)
		}
	case dir:
		check("list", k.allows(p, ll.AccessFSReadDir), policy.Read, true)
		// A granted folder itself can't be removed unless the folder above lets it: a stated gap.
		check("rmdir", p != "/" && k.allows(path.Dir(p), ll.AccessFSRemoveDir), policy.Delete, !named(c, p))
	default:
		check("read", k.allows(p, ll.AccessFSReadFile), policy.Read, true)
		check("write", k.allows(p, ll.AccessFSWriteFile), policy.Update, true)
		check("truncate", k.allows(p, ll.AccessFSTruncate), policy.Update, true)
		check("connect", k.allows(p, ll.AccessFSResolveUnix), policy.Update, true)
		check("exec", k.allows(p, ll.AccessFSExecute|ll.AccessFSReadFile), policy.Execute, true)
		check("unlink", k.allows(path.Dir(p), ll.AccessFSRemoveFile), policy.Delete, names)
	}
}

// compareMove compares renames and links between two names.
func compareMove(t fataler, c *policy.Compiled, k kernel, p, q string) {
	kind, there := k.tree[p]
	if !there || p == "/" || q == "/" || beneath(q, p) || beneath(p, q) {
		return
	}
	over, exists := k.tree[q]
	if exists && ((kind == fspath.Dir) != (over == fspath.Dir) || over == fspath.Dir) {
		return // the kernel's own EISDIR, ENOTDIR, ENOTEMPTY
	}
	v := c.CheckRename(policy.Move{Old: p, New: q, OldDir: kind == fspath.Dir, NewExists: exists})
	if k.rename(p, q) && !v.Allow && !same(c, v, p, q, kind == fspath.Dir) {
		t.Fatalf("rename %s %s: landlock allows, the policy says %s\n%s", p, q, v.Reason, describe(c))
	}
	if kind == fspath.Dir || exists {
		return
	}
	if v := c.CheckLink(policy.Move{Old: p, New: q}); k.link(p, q) && !v.Allow {
		t.Fatalf("link %s %s: landlock allows, the policy says %s\n%s", p, q, v.Reason, describe(c))
	}
}

func describe(c *policy.Compiled) string {
	var b strings.Builder
	for _, r := range c.Rules {
		fmt.Fprintf(&b, "%s %s\n", r.ID, explain.RuleText(r))
	}
	return b.String()
}

// named tells whether a rule of some authority is exactly at p.
func named(c *policy.Compiled, p string) bool {
	for _, r := range c.Rules {
		if r.FS != nil && r.FS.Last == "" && r.FS.Path == p {
			return true
		}
	}
	return p == "/"
}

// same tells whether a refused rename of a folder would have changed nothing: the policy refuses to move any folder with
// a rule beneath it, also one that says what the rule around it says, which Landlock never sees.
func same(c *policy.Compiled, v policy.Verdict, old, new string, dir bool) bool {
	if !dir || v.Reason != policy.NoGain {
		return false
	}
	for _, l := range c.Layers {
		tree := treeOf(l, nil, true)
		for _, r := range tree.order {
			inside := beneath(r.FS.Path, old) || beneath(r.FS.Path, new)
			if inside && capsOf(tree.around(r.FS.Path)) != r.FS.Caps {
				return false
			}
		}
	}
	return c.Caps(new)&^c.Caps(old) == 0
}
