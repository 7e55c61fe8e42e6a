package landlock

import (
	"flag"
	"fmt"
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

// drawForest draws a small tree with few names, so that rules and targets coincide.
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
	for _, d := range dirs { // names that don't exist
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

// TestEnforcedAgreesWithPolicy checks the report: if every rule is called enforced, Landlock allows nothing that the policy denies, and denies
// something that the policy allows only by a stated gap.
func TestEnforcedAgreesWithPolicy(t *testing.T) {
	tried, compared, stricter := 0, 0, 0
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		childtest.Must(t, flag.Set("rapid.checks", "20000")) // a second: the default finds too little
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
		for _, row := range (&reportWithoutPermissions{c, newestABI}).rows() {
			if row.Status != policy.Enforced {
				return
			}
			if row.Stricter {
				strict[row.Rule.FS.Path] = true
				exactly = exactly && row.Rule.FS.Last == ""
			}
		}
		compared++
		plan, err := NewPlan(c, newestABI)
		childtest.Must(t, err)
		k := newModel(plan, tree)
		stricter += len(strict)
		if !exactly { // a pattern may match any of them
			strict = nil
		}
		compare(t, c, k, paths, strict)
		for i := range rapid.IntRange(0, 8).Draw(t, "steps") {
			p, q := rapid.SampledFrom(paths).Draw(t, "p"), rapid.SampledFrom(paths).Draw(t, "q")
			k.step(rapid.IntRange(0, 6).Draw(t, "what"), p, q, 1000+i)
			compare(t, c, k, paths, nil)
		}
	})
	if compared*20 < tried || stricter*20 < compared {
		t.Errorf("only %d of %d policies were enforced, with %d rules that Landlock is stricter than: the test shows little", compared, tried, stricter)
	}
	t.Logf("%d of %d policies were enforced and compared, with %d rules that Landlock is stricter than", compared, tried, stricter)
}

// reportWithoutPermissions is Report without file permissions, which the tree in memory doesn't have.
type reportWithoutPermissions struct {
	c   *policy.Compiled
	abi int
}

func (a *reportWithoutPermissions) rows() []policy.Enforceability {
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

// compare compares model and policy for every operation. strict are the paths of rules than which Landlock is stricter: names there can't be
// created or removed. After the session has moved files, strict is nil: grants that moved along are missing at their paths, but Landlock must
// still allow nothing that the policy denies.
func compare(t fataler, c *policy.Compiled, k model, paths []string, strict map[string]bool) {
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
func comparePath(t fataler, c *policy.Compiled, k model, p string, strict map[string]bool) {
	kind, there := k.tree[p]
	dir, names := kind == fspath.Dir, !strict[p]
	check := func(what string, kernel bool, want policy.Caps, exact bool) {
		v := c.CheckFS(p, want)
		if kernel && !v.Allow {
			t.Fatalf("%s %s: landlock allows, the policy decides %s\n%s", what, p, v.Reason, describe(c))
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
			t.Fatalf("a device can be created at %s", p)
		}
	case dir:
		check("list", k.allows(p, ll.AccessFSReadDir), policy.Read, true)
		// A granted folder itself can't be removed unless its parent allows it: a stated gap.
		check("rmdir", p != "/" && k.allows(path.Dir(p), ll.AccessFSRemoveDir), policy.Delete, !hasRuleAt(c, p))
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
func compareMove(t fataler, c *policy.Compiled, k model, p, q string) {
	kind, there := k.tree[p]
	if !there || p == "/" || q == "/" || beneath(q, p) || beneath(p, q) {
		return
	}
	over, exists := k.tree[q]
	if exists && ((kind == fspath.Dir) != (over == fspath.Dir) || over == fspath.Dir) {
		return // the kernel's own EISDIR, ENOTDIR, ENOTEMPTY
	}
	v := c.CheckRename(policy.Move{Old: p, New: q, OldDir: kind == fspath.Dir, NewExists: exists})
	if k.rename(p, q) && !v.Allow && !changesNothing(c, v, p, q, kind == fspath.Dir) {
		t.Fatalf("rename %s %s: landlock allows, the policy decides %s\n%s", p, q, v.Reason, describe(c))
	}
	if kind == fspath.Dir || exists {
		return
	}
	if v := c.CheckLink(policy.Move{Old: p, New: q}); k.link(p, q) && !v.Allow {
		t.Fatalf("link %s %s: landlock allows, the policy decides %s\n%s", p, q, v.Reason, describe(c))
	}
}

func describe(c *policy.Compiled) string {
	var b strings.Builder
	for _, r := range c.Rules {
		fmt.Fprintf(&b, "%s %s\n", r.ID, explain.RuleText(r))
	}
	return b.String()
}

// hasRuleAt reports whether a rule of any authority is exactly at p.
func hasRuleAt(c *policy.Compiled, p string) bool {
	for _, r := range c.Rules {
		if r.FS != nil && r.FS.Last == "" && r.FS.Path == p {
			return true
		}
	}
	return p == "/"
}

// changesNothing reports whether a denied rename of a folder would have changed no capability: the policy denies moving any folder with a rule
// beneath it, also if that rule equals its parent rule, which Landlock doesn't distinguish.
func changesNothing(c *policy.Compiled, v policy.Verdict, old, new string, dir bool) bool {
	if !dir || v.Reason != policy.NoGain {
		return false
	}
	for _, l := range c.Layers {
		tree := treeOf(l, nil, true)
		for _, r := range tree.order {
			inside := beneath(r.FS.Path, old) || beneath(r.FS.Path, new)
			if inside && capsOf(tree.parentRule(r.FS.Path)) != r.FS.Caps {
				return false
			}
		}
	}
	return c.Caps(new)&^c.Caps(old) == 0
}
