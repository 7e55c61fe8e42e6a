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

// Report returns how far Landlock, together with the system call filters of package seccomp, enforces each rule of c on a
// kernel with that ABI: a row for each fs, net and command rule, the rules of protect and secrets, and toolguard's own files, in
// the order of the layers. It reads the programs that command rules name, for their interpreters.
func Report(c *policy.Compiled, abi int) []policy.Enforceability {
	return reportFor(c, abi, isRoot())
}

func reportFor(c *policy.Compiled, abi int, root bool) []policy.Enforceability {
	k := &report{c: c, abi: abi, root: root, rows: make([]policy.Enforceability, 0, len(c.Rules)+8)}
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

type report struct {
	c     *policy.Compiled
	abi   int
	root  bool
	trees []*tree // of the layers that restrict fs
	rows  []policy.Enforceability

	about subject // what was judged last of what takes away, and how
	same  status
}

// status is the status of a rule, with the reason.
type status struct {
	status   policy.Status
	why      string
	by       string
	advisory bool
	stricter bool // not all is granted that could be
	opens    string
}

func enforced(note string) status { return status{status: policy.Enforced, why: note, by: byLandlock} }
func stricter(why string) status {
	return status{status: policy.Enforced, why: why, by: byLandlock, stricter: true}
}
func partly(why string) status { return status{status: policy.Partly, why: why, by: byLandlock} }
func notEnforceable(why string) status {
	return status{status: policy.NotEnforceable, why: why, by: byLandlock}
}

func (k *report) add(r *policy.Rule, w status) {
	k.rows = append(k.rows, policy.Enforceability{
		ID: r.ID, Rule: r, Position: r.Position, Status: w.status, Why: w.why, By: w.by, Advisory: w.advisory, Stricter: w.stricter, Opens: w.opens,
	})
}

func (k *report) layer(l *policy.Layer) {
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

func (k *report) syscalls(l *policy.Layer) {
	if s := l.Syscalls; s.Profile != "" || len(s.Allow)+len(s.Deny) > 0 {
		k.rows = append(k.rows, policy.Enforceability{
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

func (k *report) treeOf(l *policy.Layer) *tree {
	i := slices.IndexFunc(k.trees, func(t *tree) bool { return t.layer == l })
	if i < 0 {
		return nil
	}
	return k.trees[i]
}
