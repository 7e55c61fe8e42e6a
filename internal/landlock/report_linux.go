package landlock

import (
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
)

// The values of By in a row, which is the mechanism.
const (
	byLandlock    = "landlock"
	bySeccomp     = "seccomp"
	byPermissions = "file permissions"
)

// Report reports how far Landlock, together with the system call filters of package seccomp, enforces each rule of c on a kernel with that ABI.
// It returns a row for each rule of fs, protect, secrets, net and commands, and for toolguard's own files, in the order of the layers. It
// reads the programs that command rules name, for their interpreters.
func Report(c *policy.Compiled, abi int) []policy.Enforceability {
	return reportFor(c, abi, isRoot())
}

func reportFor(c *policy.Compiled, abi int, root bool) []policy.Enforceability {
	k := &reporter{c: c, abi: abi, root: root, rows: make([]policy.Enforceability, 0, len(c.Rules)+8)}
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

type reporter struct {
	c     *policy.Compiled
	abi   int
	root  bool
	trees []*tree // of the layers that restrict fs
	rows  []policy.Enforceability

	lastSubject subject // the last restriction and its result
	lastResult  result
}

// result is the status of a rule with its explanation.
type result struct {
	status   policy.Status
	why      string
	by       string
	advisory bool
	stricter bool // Landlock denies more than the rule
	opens    string
}

func enforced(note string) result { return result{status: policy.Enforced, why: note, by: byLandlock} }

func stricter(why string) result {
	return result{status: policy.Enforced, why: why, by: byLandlock, stricter: true}
}

func partlyEnforced(why string) result {
	return result{status: policy.Partly, why: why, by: byLandlock}
}

func notEnforceable(why string) result {
	return result{status: policy.NotEnforceable, why: why, by: byLandlock}
}

func (k *reporter) add(r *policy.Rule, w result) {
	k.rows = append(k.rows, policy.Enforceability{
		ID: r.ID, Rule: r, Position: r.Position, Status: w.status, Why: w.why, By: w.by, Advisory: w.advisory, Stricter: w.stricter, Opens: w.opens,
	})
}

func (k *reporter) layer(l *policy.Layer) {
	if l.Authority == policy.Builtin {
		for _, r := range l.FS.Rules() {
			k.add(r, k.ownFile(r))
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

func (k *reporter) syscalls(l *policy.Layer) {
	if s := l.Syscalls; s.Profile != "" || len(s.Allow)+len(s.Deny) > 0 {
		k.rows = append(k.rows, policy.Enforceability{
			ID: layerID(l, "syscalls"), Position: s.Position, Status: policy.Enforced, By: bySeccomp,
		})
	}
}

// layerID returns the id of a row about a layer as a whole.
func layerID(l *policy.Layer, what string) string {
	if l.Authority == policy.Session {
		return what
	}
	return l.Authority.String() + "." + what
}

func (k *reporter) treeOf(l *policy.Layer) *tree {
	i := slices.IndexFunc(k.trees, func(t *tree) bool { return t.layer == l })
	if i < 0 {
		return nil
	}
	return k.trees[i]
}
