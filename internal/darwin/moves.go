package darwin

import (
	"maps"
	"path"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// moves is what the rules about renames deny in addition, for the report.
type moves struct {
	above  map[string]bool // paths of rules above which folders can't be created, removed or renamed
	lifted []*region       // regions whose folders can't be removed
}

// allows returns what all layers allow on a path, whatever patterns match beneath it.
func (p *profile) allows(at string) outcome { return p.outcome(&region{path: at}, nil) }

// aboveRules denies to move the folders above a rule, and folders that are a part of a pattern and have a rule of their own. With them the rule's
// path would lead elsewhere.
func (p *profile) aboveRules() {
	still, absent := map[string]bool{}, map[string]bool{}
	p.moves.above = map[string]bool{}
	for _, r := range p.emitted {
		p.above(r.path, p.replaceable(r), still, absent)
		if p.isPart(r.path) {
			still[r.path], absent[r.path] = true, true
		}
	}
	p.denyFolders("above rules, or a part of a pattern", still, absent)
}

// above adds the folders above a rule's path that could be moved, and those that could be created where the rule takes something away.
func (p *profile) above(rule string, replaceable bool, still, absent map[string]bool) {
	for at := path.Dir(rule); at != "/"; at = path.Dir(at) {
		caps := p.allows(at).caps
		if linked := policy.Read | p.gain; caps&policy.Delete != 0 || caps&linked == linked {
			still[at], p.moves.above[rule] = true, true
		}
		if caps&policy.Create != 0 && !replaceable {
			absent[at], p.moves.above[rule] = true, true
		}
	}
}

// replaceable reports whether a region may be replaced by another folder: new files in it can have all that they can have around it.
func (p *profile) replaceable(r *region) bool {
	if r.up == nil || len(r.variables) != len(r.up.variables) {
		return false
	}
	here, around := r.outcomes[0].caps, p.allows(path.Dir(r.path)).caps
	return here&(policy.Create|policy.Update) == policy.Create|policy.Update && around&^here == 0
}

// isPart reports whether a path is a part of a pattern.
func (p *profile) isPart(at string) bool {
	for _, l := range p.layers() {
		for _, t := range tablesOf(l) {
			for _, q := range t.Patterns() {
				for n := range q.FS.Names {
					part := *p.scope(q)
					part.Names = part.Names[:n]
					if matchesBetween(&part, "/", at) && matchesAt(&part, at) {
						return true
					}
				}
			}
		}
	}
	return false
}

// denyFolders writes rules about folders alone, in any case.
func (p *profile) denyFolders(comment string, still, absent map[string]bool) {
	write := func(ops string, paths map[string]bool) {
		var filters []string
		for _, at := range slices.Sorted(maps.Keys(paths)) {
			for _, s := range spelled(at) {
				filters = append(filters, p.literal(s), p.regex("^"+namesRegex(s, true)+"$"))
			}
		}
		p.rule(false, ops, filters...)
	}
	p.comment(comment)
	write(deleteOps+" "+linkOps, still)
	write("file-write-create", absent)
}

// liftedFolders denies to move a folder out of one where `unprotect` applies, to where it doesn't: it could be made here with protected files.
func (p *profile) liftedFolders() {
	protects := slices.ContainsFunc(p.regions, func(r *region) bool { return p.creates(r) && !r.outcomes[0].lifted[policy.RestrictProtect] })
	for _, r := range p.emitted {
		if protects && p.creates(r) && r.outcomes[0].lifted[policy.RestrictProtect] {
			p.moves.lifted = append(p.moves.lifted, r)
		}
	}
	var filters []string
	for _, r := range p.moves.lifted {
		for _, s := range spelled(r.path) {
			filters = append(filters, all(p.subpath(s), "(vnode-type DIRECTORY)"))
		}
	}
	p.comment("folders that could have been made with files that are protected elsewhere")
	p.rule(false, deleteOps, filters...)
}

// creates reports whether files that last can be created in a region, in a layer that protects some.
func (p *profile) creates(r *region) bool {
	protects := slices.ContainsFunc(p.layers(), func(l *policy.Layer) bool { return l.Protect != nil })
	return protects && !r.only && r.outcomes[0].caps&policy.Create != 0 && r.path != p.c.TmpDir
}

const ownOps = "file-write-create file-write-data file-write-mode file-write-flags file-write-times file-write-xattr file-write-acl file-write-owner " +
	"file-write-unlink file-link network-outbound network-bind network-inbound"

// own writes what applies whatever the policy is: toolguard's own files and the policy's, the long names of the data volume, and devices.
func (p *profile) own() {
	still, absent := map[string]bool{}, map[string]bool{}
	var filters []string
	for _, r := range p.c.Layers[0].FS.Rules() {
		for _, s := range spelled(r.FS.Path) {
			filters = append(filters, p.literal(s))
			if !isLink(s) {
				filters = append(filters, p.subpath(s))
			}
			filters = append(filters, p.regex(map[bool]string{true: "^" + namesRegex(s, true) + "$", false: pathRegex(s)}[isLink(s)]))
		}
		p.above(r.FS.Path, false, still, absent)
	}
	p.comment("toolguard's own files, and the policy's")
	p.rule(false, ownOps, filters...)
	p.denyFolders("above them", still, absent)
	p.line(lastPart)
}

// matchesBetween reports whether a pattern matches at a path, or above it, and beneath another one.
func matchesBetween(e *fspath.Entry, above, at string) bool {
	for ; at != above && at != "/"; at = path.Dir(at) {
		if matchesAt(e, at) {
			return true
		}
	}
	return false
}

// matchesAt reports whether a pattern matches exactly at a path.
func matchesAt(e *fspath.Entry, at string) bool {
	parts := components(at)
	n := 1 + len(e.Names)
	if len(parts)-fspath.Depth(e.Path) < n || !fspath.Within(at, e.Path) {
		return false
	}
	_, exactly := beginsWith(e, parts[len(parts)-n:])
	return exactly
}
