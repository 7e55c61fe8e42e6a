package landlock

import (
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
)

// By in a row is the mechanism.
const (
	byLandlock    = "landlock"
	bySeccomp     = "seccomp"
	byPermissions = "file permissions"
)

// Cover reports how far Landlock, together with the system call filters of package seccomp, enforces each rule of c on a
// kernel with that ABI: a row for each fs, net and command rule, what protect and secrets cover, and toolguard's own files, in
// the order of the layers. It reads the programs that command rules name, for their interpreters.
func Cover(c *policy.Compiled, abi int) []policy.Coverage {
	return coverFor(c, abi, isRoot())
}

func coverFor(c *policy.Compiled, abi int, root bool) []policy.Coverage {
	k := &cover{c: c, abi: abi, root: root, rows: make([]policy.Coverage, 0, len(c.Rules)+8)}
	for _, l := range c.Layers {
		if l.Authority == policy.Builtin {
			continue
		}
		if restricts(l, policy.FS) {
			k.trees = append(k.trees, treeOf(l, c.Aliases, root))
		}
	}
	for _, l := range c.Layers {
		k.layer(l)
	}
	return k.rows
}

type cover struct {
	c     *policy.Compiled
	abi   int
	root  bool
	trees []*tree // of the layers that restrict fs
	rows  []policy.Coverage

	about subject // what was judged last of what takes away, and how
	same  word
}

// word is the status of a rule and what is to be said about it.
type word struct {
	status policy.Status
	why    string
	by     string
	soft   bool
	less   bool // not all is granted that could be
	opens  string
}

func enforced(note string) word { return word{status: policy.Enforced, why: note, by: byLandlock} }
func stricter(why string) word {
	return word{status: policy.Enforced, why: why, by: byLandlock, less: true}
}
func partly(why string) word { return word{status: policy.Partly, why: why, by: byLandlock} }
func cannot(why string) word { return word{status: policy.NotEnforceable, why: why, by: byLandlock} }

func (k *cover) add(r *policy.Rule, w word) {
	k.rows = append(k.rows, policy.Coverage{
		ID: r.ID, Rule: r, Position: r.Position, Status: w.status, Why: w.why, By: w.by, Soft: w.soft, Stricter: w.less, Opens: w.opens,
	})
}

func (k *cover) layer(l *policy.Layer) {
	if l.Authority == policy.Builtin {
		for _, r := range l.FS.Rules() {
			k.add(r, k.own(r))
		}
		return
	}
	k.fs(l)
	for _, r := range l.Protect.Rules() {
		k.add(r, k.protect(l, r))
	}
	for _, r := range l.Secrets.Rules() {
		k.add(r, k.secrets(l, r))
	}
	k.net(l)
	k.commands(l)
	k.syscalls(l)
}

func (k *cover) syscalls(l *policy.Layer) {
	if s := l.Syscalls; s.Profile != "" || len(s.Allow)+len(s.Deny) > 0 {
		k.rows = append(k.rows, policy.Coverage{
			ID: layerID(l, "syscalls"), Position: s.Position, Status: policy.Enforced, By: bySeccomp,
		})
	}
}

// layerID is the id of something that an authority says as a whole.
func layerID(l *policy.Layer, what string) string {
	if l.Authority == policy.Session {
		return what
	}
	return l.Authority.String() + "." + what
}

func (k *cover) treeOf(l *policy.Layer) *tree {
	i := slices.IndexFunc(k.trees, func(t *tree) bool { return t.layer == l })
	if i < 0 {
		return nil
	}
	return k.trees[i]
}
