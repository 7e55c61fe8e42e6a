package darwin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// The values of By in a row, which is the mechanism.
const (
	bySeatbelt   = "seatbelt"
	byEgress     = "egress"
	byEnv        = "env"
	byRlimit     = "rlimit"
	bySupervisor = "supervisor"
)

// row is how far a rule is enforced.
type row struct {
	status   policy.Status
	why, by  string
	stricter bool
	advisory bool
}

func enforced() row            { return row{status: policy.Enforced, by: bySeatbelt} }
func enforcedBy(by string) row { return row{status: policy.Enforced, by: by} }
func stricter(why string) row  { return row{policy.Enforced, why, bySeatbelt, true, false} }

func partly(why string) row               { return row{status: policy.Partly, why: why, by: bySeatbelt} }
func notEnforceable(why string) row       { return row{why: why, by: bySeatbelt} }
func notEnforceableBy(by, why string) row { return row{why: why, by: by} }

// report returns a row for every rule, in the order of the layers, and for what else a policy asks for.
func (p *profile) report() (rows []policy.Enforceability) {
	add := func(id string, rule *policy.Rule, at policy.Position, r row) {
		rows = append(rows, policy.Enforceability{
			ID: id, Rule: rule, Position: at, Status: r.status, Why: r.why, By: r.by, Stricter: r.stricter, Advisory: r.advisory,
		})
	}
	rule := func(r *policy.Rule, result row) { add(r.ID, r, r.Position, result) }
	for i, l := range p.c.Layers {
		for _, r := range l.FS.Rules() {
			if i == 0 {
				rule(r, enforced())
			} else {
				rule(r, p.fsRow(l, r))
			}
		}
		for _, r := range l.Protect.Rules() {
			rule(r, p.restrictionRow(r, policy.RestrictProtect, l.Mode))
		}
		for _, r := range l.Secrets.Rules() {
			rule(r, p.restrictionRow(r, policy.RestrictSecrets, l.SecretsMode))
		}
		p.netRows(l, rule)
		for _, r := range l.Env.Rules() {
			rule(r, enforcedBy(byEnv))
		}
		for _, r := range l.Commands.Rules() {
			rule(r, commandRow(r.Command))
		}
		layerRows(l, add)
	}
	p.policyRows(add)
	return rows
}

// fsRow reports on a rule of fs.
func (p *profile) fsRow(l *policy.Layer, r *policy.Rule) row {
	switch other, differs := p.conflicts(r); {
	case differs && !r.Builtin() && !other.Builtin():
		return notEnforceable(fmt.Sprintf("it and %s differ in capabilities and can match one path, where the deeper match would decide: "+
			"seatbelt can't compare their depths", other.ID))
	case p.c.Pinned(r):
		return partly("the file has several hard links, and seatbelt goes by the path: another of its names may have more capabilities")
	case l.Secrets != nil && r.FS.Secret && p.exempts(r)[policy.RestrictSecrets] && p.takesIn(r, policy.RestrictSecrets):
		return forMode(l.SecretsMode, "a folder could be moved here with secrets in it, which could then be read: leave out create, or write the paths of files")
	case l.Protect != nil && r.FS.Unprotect && r.FS.Last != "" && p.takesIn(r, policy.RestrictProtect):
		return forMode(l.Mode, "a folder could be made here with files that are protected elsewhere, and moved there: write the paths of files")
	}
	if notes := p.notes(r); len(notes) > 0 {
		return stricter(strings.Join(notes, "; "))
	}
	return enforced()
}

// notes returns where a rule of fs is stricter than written.
func (p *profile) notes(r *policy.Rule) (notes []string) {
	note := func(applies bool, text string) {
		if applies {
			notes = append(notes, text)
		}
	}
	_, differs := p.conflicts(r)
	pattern := r.FS.Last != ""
	note(p.exempts(r) != r.FS.Exempts(), "secrets in it can't be read, nor what is protected be written in the private TMPDIR: folders could be moved there")
	note(differs, "where another pattern with other capabilities matches too, it grants what both grant")
	note(slices.ContainsFunc(p.moves.lifted, func(g *region) bool {
		return g.path == r.FS.Path || r.FS.Caps&policy.Delete != 0 && (fspath.Within(r.FS.Path, g.path) || pattern && fspath.Within(g.path, r.FS.Path))
	}),
		"folders in it can't be removed or renamed: one could be made with files that are protected elsewhere")
	note(pattern && len(r.FS.Names) > 0, partNote)
	note(p.keeps(r), "what can't be read can't be deleted: it could be renamed to where it can do more")
	return append(notes, p.whereNotes(r)...)
}

// keeps reports whether some of what a rule lets be deleted stays: it can't be read, and would gain a capability elsewhere.
func (p *profile) keeps(r *policy.Rule) bool {
	return r.FS.Caps&policy.Delete != 0 && r.FS.Caps&policy.Read == 0 && slices.ContainsFunc(p.regions, func(g *region) bool {
		return (fspath.Within(g.path, r.FS.Path) || fspath.Within(r.FS.Path, g.path)) && slices.ContainsFunc(g.outcomes, func(o outcome) bool {
			return o.caps&policy.Delete != 0 && p.gainsByRename(o.caps)
		})
	})
}

// conflicts returns another pattern of the layer with other capabilities, of which one BASE contains the other's.
func (p *profile) conflicts(r *policy.Rule) (other *policy.Rule, ok bool) {
	if r.FS.Last == "" {
		return nil, false
	}
	i := slices.IndexFunc(p.c.Layers, func(l *policy.Layer) bool { return l.Authority == r.Authority })
	for _, q := range p.c.Layers[i].FS.Patterns() {
		if !sameEffect(q, r) && (fspath.Within(q.FS.Path, r.FS.Path) || fspath.Within(r.FS.Path, q.FS.Path)) {
			return q, true
		}
	}
	return nil, false
}

// forMode reports on what is enforced in part; it's no reason not to start where "auto" applies.
func forMode(mode policy.ProtectMode, why string) row {
	out := partly(why)
	out.advisory = mode == policy.ProtectAuto
	return out
}

// takesIn reports whether folders can be moved to where a rule lifts a restriction, from where it applies. Into a pattern's files they always can.
func (p *profile) takesIn(r *policy.Rule, k policy.Restriction) bool {
	if r.FS.Last == "" && r.FS.Caps&policy.Create == 0 {
		return false
	}
	return slices.ContainsFunc(p.regions, func(g *region) bool {
		return (g.path != r.FS.Path || r.FS.Last != "") && g.most&policy.Delete != 0 && !g.outcomes[0].lifted[k]
	})
}

// restrictionRow reports on a rule of protect or secrets.
func (p *profile) restrictionRow(r *policy.Rule, k policy.Restriction, mode policy.ProtectMode) (out row) {
	exception := k == policy.RestrictSecrets && isException(r)
	notes := p.whereNotes(r)
	note := func(applies bool, text string) {
		if applies {
			notes = append(notes, text)
		}
	}
	note(exception, "it doesn't apply beneath a secret file that is beneath another exception")
	note(len(r.FS.Names) > 0 && !exception, partNote)
	note(k == policy.RestrictSecrets && !exception && p.gain&k.Removes(r) != 0, "it can't be deleted or renamed either")
	switch {
	case exception && p.movable(r, true) && p.movable(r, false):
		return forMode(mode, "a folder could be moved here with secrets in it, which could then be read: write the exception for all folders (/**/NAME)")
	case len(notes) > 0:
		out = stricter(strings.Join(notes, "; "))
	default:
		out = enforced()
	}
	out.advisory = mode == policy.ProtectAuto
	return out
}

const partNote = "folders that are a part of it can't be created, removed or renamed"

// whereNotes returns where a rule has an effect outside its path.
func (p *profile) whereNotes(r *policy.Rule) (notes []string) {
	switch {
	case !p.moves.above[r.FS.Path]:
	case r.FS.Last != "":
		notes = append(notes, "the folders above those where it applies can't be created, removed or renamed")
	default:
		notes = append(notes, "the folders above it can't be created, removed or renamed")
	}
	if p.following[r] {
		notes = append(notes, "it also applies in other folders where files can be created, as folders can be moved there")
	}
	return notes
}

func commandRow(c *policy.CompiledCommand) row {
	switch {
	case !c.AnyArgs():
		return notEnforceable("seatbelt sees which program is executed, not its arguments")
	case c.HasEnvs:
		return notEnforceable("the variables of a single program can't be filtered from outside it")
	}
	return enforced()
}

// layerRows reports on what a layer asks for besides rules.
func layerRows(l *policy.Layer, add func(string, *policy.Rule, policy.Position, row)) {
	id := func(what string) string {
		if l.Authority == policy.Session {
			return what
		}
		return l.Authority.String() + "." + what
	}
	if s := l.Syscalls; s.Profile != "" || len(s.Allow)+len(s.Deny) > 0 {
		add(id("syscalls"), nil, s.Position, notEnforceable("macOS has no filter of system calls by Linux's names"))
	}
	if len(l.Capabilities) > 0 {
		add(id("capabilities"), nil, l.Position, stricter("macOS has no capabilities, so the session has none"))
	}
	if l.Namespaces {
		add(id("namespaces"), nil, l.Position, stricter("macOS has no user namespaces"))
	}
}

// policyRows reports on the limits, on the audit, and on the keys of the tool layer.
func (p *profile) policyRows(add func(string, *policy.Rule, policy.Position, row)) {
	limit := func(name string, set bool, at policy.Position, r row) {
		if set {
			add("limits."+name, nil, at, r)
		}
	}
	const noGroup = "macOS has no control groups, and no other limit of a whole session's use"
	l := p.c.Limits
	limit("memory", l.Memory.N > 0, l.Memory.Position, notEnforceable(noGroup))
	limit("pids", l.Pids.N > 0, l.Pids.Position, notEnforceable(noGroup))
	limit("cpu", l.CPU.N > 0, l.CPU.Position, notEnforceable(noGroup))
	limit("io", l.IO.N > 0, l.IO.Position, notEnforceable(noGroup))
	limit("wall_time", l.WallTime.D > 0, l.WallTime.Position, enforcedBy(bySupervisor))
	limit("open_files", l.OpenFiles.N > 0, l.OpenFiles.Position, enforcedBy(byRlimit))
	limit("file_size", l.FileSize.N > 0, l.FileSize.Position, enforcedBy(byRlimit))
	if p.c.Audit.Exec {
		add(policy.AuditID, nil, p.c.Audit.Position, notEnforceable("seatbelt reports what it denies, and not what is executed"))
	}
	for _, k := range p.c.ToolKeys {
		add(k.ID, nil, k.Position, notEnforceableBy("exec", "it's about calls of tools, and a command isn't one: docs/tools.md"))
	}
}
