package mounts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// MaxABI is the newest Landlock ABI to use within a session with mounts: from ABI 9 on, sessions may connect to unix sockets that a rule grants,
// and a read-only mount doesn't keep them from connecting to one in it. Below, no session whose files are restricted can create unix sockets.
const MaxABI = 8

// Report returns the rows of landlock.Report for an ABI with those changed that the mounts change: what Landlock alone doesn't enforce and both
// together do, and what the mounts deny in addition. by is the program that makes the mounts.
func (p *Plan) Report(rows []policy.Enforceability, by string, abi int) []policy.Enforceability {
	out := slices.Clone(rows)
	sockets := abi > MaxABI || !slices.ContainsFunc(p.c.Layers, restrictsFS)
	where := places(p.c)
	for i := range out {
		row := &out[i]
		if row.Opens == "/proc" {
			row.Why, row.By = "the kernel's files in /proc that every user may read can be read; no processes but the session's are there", by
		}
		if row.Rule == nil || row.Rule.FS == nil || isKernel(row.Rule.FS.Path) && row.Rule.FS.Last == "" {
			continue
		}
		if at, ok := where[row.Rule]; ok {
			j := judge{p: p, place: at, r: row.Rule, sockets: sockets}
			if why := j.blocked(); why != "" {
				row.Status, row.Why, row.By, row.Opens = policy.NotEnforceable, why, by, ""
			} else if row.Status != policy.Enforced || j.exceeded() {
				j.row(row, by)
			}
			j.links(row, by)
			if row.Status == policy.Enforced {
				j.stricter(row)
			}
		}
	}
	return out
}

// place is the layer and the table of a rule.
type place struct{ layer, table int }

// places returns those of all rules about files.
func places(c *policy.Compiled) map[*policy.Rule]place {
	all := map[*policy.Rule]place{}
	for n, l := range c.Layers {
		for k, t := range tablesOf(l) {
			for _, r := range t.Rules() {
				all[r] = place{n, k}
			}
		}
	}
	return all
}

// judge reports on one rule.
type judge struct {
	place
	p       *Plan
	r       *policy.Rule
	sockets bool // the session can create unix sockets
}

func (j *judge) decides(path string) bool {
	return tablesOf(j.p.c.Layers[j.layer])[j.table].Deciding(path) == j.r
}

// row changes the row of a rule that Landlock doesn't enforce.
func (j *judge) row(row *policy.Enforceability, by string) {
	set := func(s policy.Status, why string) {
		row.Status, row.Why, row.By, row.Opens = s, why, by, ""
		if s == policy.Enforced {
			row.Advisory = false
		}
	}
	if e := j.excess(); e != nil {
		set(policy.NotEnforceable, e.why)
		return
	}
	switch {
	case j.table == fsTable && j.inseparable():
	case j.r.FS.Last != "" && j.table == fsTable && j.grants():
	case j.r.FS.Last != "":
		set(j.pattern())
	case j.table == fsTable && j.movable():
	case j.p.c.Pinned(j.r):
		set(policy.Partly, j.r.FS.Path+" has several hard links, and mounts cover one of them: toolguard policy lint --scan lists them")
	case j.sockets && j.hasSockets():
		set(policy.Partly, "unix sockets there can still be connected to: read-only mounts don't deny that")
	default:
		set(policy.Enforced, "")
	}
}

// links adds to a row that files have hard links which no mount covers. A rule about a single file has that in its row.
func (j *judge) links(row *policy.Enforceability, by string) {
	l := j.p.linked[j.r]
	if l == nil || row.Status == policy.NotEnforceable || row.Status == policy.Partly && j.p.c.Pinned(j.r) {
		return
	}
	if row.Why == "" || row.Status == policy.Enforced {
		row.Why = l.why()
	} else {
		row.Why += "; " + l.why()
	}
	row.Status, row.By = policy.Partly, by
}

// hasSockets reports whether the rule takes update away by a read-only mount on a folder or a socket.
func (j *judge) hasSockets() bool {
	at := j.r.FS.Path
	return removes(j.table, j.r)&policy.Update != 0 && j.p.Mode(at) == ReadOnly && (j.r.FS.Dir || j.r.FS.Missing || slices.Contains(j.p.sockets, at))
}

// excess returns something that the rule denies and that isn't denied, or nil.
func (j *judge) excess() *excess {
	i := slices.IndexFunc(j.p.excess, func(e excess) bool { return e.caps&removes(j.table, j.r) != 0 && j.decides(e.path) })
	if i < 0 {
		return nil
	}
	return &j.p.excess[i]
}

// blocked returns why the program can't make a mount where the rule decides, or "".
func (j *judge) blocked() string {
	for _, b := range j.p.blocked {
		if j.decides(b.path) {
			return b.why
		}
	}
	return ""
}

// exceeded reports whether the rule isn't enforced although Landlock's report has it so: Landlock compares a rule with the rule around it
// alone. Where a mount takes away what that one denies, the mount of this rule can restore what rules further up grant.
func (j *judge) exceeded() bool {
	return j.table == fsTable && j.p.c.Layers[j.layer].Authority != policy.Builtin && j.r.FS.Last == "" && !j.r.FS.Symlink && j.excess() != nil
}

// inseparable reports whether the rule grants what Landlock can't grant without more: see landlock.Report.
func (j *judge) inseparable() bool {
	c := j.r.FS.Caps
	return c&policy.Execute != 0 && c&policy.Read == 0 || c&policy.Create != 0 && c&(policy.Update|policy.Read) != policy.Update|policy.Read
}

// grants reports whether a pattern grants more than what is around it somewhere, which no mount can.
func (j *judge) grants() bool {
	l := j.p.c.Layers[j.layer]
	if j.r.FS.Caps == 0 || !restrictsFS(l) {
		return false
	}
	if d := l.FS.Deciding(j.r.FS.Path); d == nil || j.r.FS.Caps&^d.FS.Caps != 0 {
		return true
	}
	return slices.ContainsFunc(l.FS.Literals(), func(r *policy.Rule) bool {
		inside := func(name string) bool { return fspath.Within(name, j.r.FS.Path) }
		return j.r.FS.Caps&^r.FS.Caps != 0 && slices.ContainsFunc(names(j.p.c, r.FS.Path), inside)
	})
}

// movable reports whether the rule grants more than what is around it, and could be moved with its grant, or doesn't exist yet.
func (j *judge) movable() bool {
	l := j.p.c.Layers[j.layer]
	if !restrictsFS(l) {
		return false
	}
	i := slices.IndexFunc(j.p.trees, func(h hierarchy) bool { return h.layer == l })
	around := j.p.trees[i].under(j.p.c, parent(j.r.FS.Path))
	if j.r.FS.Path == "/" || j.r.FS.Caps&^around == 0 || around&(policy.Create|policy.Delete) == 0 {
		return false
	}
	_, isMount := j.p.modes[j.r.FS.Path]
	return j.r.FS.Missing || !isMount && j.p.Mode(parent(j.r.FS.Path)) == ReadWrite
}

// pattern reports on a pattern without excess.
func (j *judge) pattern() (policy.Status, string) {
	s := j.p.found[finding{j.layer, j.table, j.r.FS.Path}]
	if s == nil {
		return policy.Enforced, "nothing else is granted where it could match"
	}
	n := s.matches[j.r]
	if s.limited {
		return policy.NotEnforceable, fmt.Sprintf("there are more than %d entries to search, so not every match is covered: %s", MaxEntries, were(n))
	}
	if s.full {
		return policy.NotEnforceable, fmt.Sprintf("more entries match than there can be mounts, so not every match is covered: %s", were(n))
	}
	why := []string{"only what exists now: " + entries(n)}
	if s.unlisted > 0 {
		why = append(why, fmt.Sprintf("%d folders can't be searched", s.unlisted))
	}
	if j.table == secretsTable && n > 0 {
		why = append(why, "they can't be written either")
	}
	return policy.Partly, strings.Join(why, "; ")
}

func entries(n int) string {
	if n == 1 {
		return "1 entry"
	}
	return fmt.Sprintf("%d entries", n)
}

func were(n int) string {
	if n == 1 {
		return "1 is"
	}
	return fmt.Sprintf("%d are", n)
}

// stricter notes in the row of an enforced rule what the mounts deny of it.
func (j *judge) stricter(row *policy.Enforceability) {
	for _, g := range j.p.lost {
		if j.decides(g.path) {
			row.Stricter = true
			if row.Why == "" {
				row.Why = fmt.Sprintf("a mount on %s denies %s there too", g.path, g.caps)
			}
			return
		}
	}
}
