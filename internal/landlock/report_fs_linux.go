package landlock

import (
	"fmt"
	"path"

	"github.com/toolguard/toolguard/internal/policy"
)

// fs adds a row for each fs rule of a layer, in rule order.
func (k *reporter) fs(l *policy.Layer) {
	t := k.treeOf(l)
	for _, r := range l.FS.Rules() {
		switch {
		case r.FS.Symlink:
			k.add(r, enforced("every symlink may be read"))
		case t == nil && r.FS.Caps == policy.AllCaps:
			k.add(r, enforced("everything else is allowed too"))
		case t == nil:
			k.add(r, notEnforceable("landlock can't deny beneath a default that allows: it can only grant"))
		case r.FS.Last != "":
			k.add(r, t.patternRule(r))
		default:
			k.add(r, k.pathRule(t, r))
		}
	}
}

// pathRule reports on a rule with a path, under all aliases of that path.
func (k *reporter) pathRule(t *tree, r *policy.Rule) result {
	w := t.pathRule(r)
	if w.status == policy.NotEnforceable || t.byPath[r.FS.Path] != r {
		return w
	}
	if other, bad := t.underAliases(r); bad {
		return other
	}
	if w.status == policy.Enforced && k.c.Pinned(r) {
		return t.underHardLinks(r, w)
	}
	return w
}

// pathRule reports on a rule with a path, under that name.
func (t *tree) pathRule(r *policy.Rule) result {
	if last := t.byPath[r.FS.Path]; last != r {
		return enforced(last.ID + " on the same path decides")
	}
	up := t.parentRule(r.FS.Path)
	have, want := capsOf(up), r.FS.Caps
	switch {
	case t.proc != nil && r.FS.Path == ownProc:
		return openedProc()
	case have&^want != 0:
		return notEnforceable(fmt.Sprintf("landlock can't take away beneath a grant: %s gives %s on %s", up.ID, have&^want, up.FS.Path))
	case have == want:
		return enforced("")
	case isOwnProc(r.FS.Path):
		return closedProc()
	case r.FS.Missing && have&policy.Create != 0:
		return partlyEnforced("nothing is there yet, and landlock can only grant on what exists: create it first")
	}
	lost := folderCaps(r, have)
	if w, bad := inseparable(want &^ lost); bad {
		return w
	}
	w := beyondParent(r, up, have, want&^(have|lost))
	switch {
	case w.status != policy.Enforced:
	case r.FS.Missing:
		return stricter("nothing is there yet, and landlock can only grant on what exists: create it first")
	case lost != 0:
		return stricter(fmt.Sprintf("landlock asks the folder for the right to %s a file: where that's needed, grant it on %s", lost, path.Dir(r.FS.Path)))
	}
	return w
}

// folderCaps returns the capabilities of a rule on a file that Landlock checks on the file's folder, and so can't grant.
func folderCaps(r *policy.Rule, have policy.Caps) policy.Caps {
	if r.FS.Dir || r.FS.Missing {
		return 0
	}
	return r.FS.Caps & moveCaps &^ have
}

// openedProc reports on the rule for which openProc grants all of /proc. It's no reason not to start.
func openedProc() result {
	w := partlyEnforced("landlock can't distinguish the session's own /proc entries, which programs need, from others: command lines, states and network " +
		"tables of other processes can be read, and the kernel's files that every user may read; not their memory, environment and open files")
	w.advisory, w.opens = true, proc
	return w
}

// closedProc reports on a rule for the session's own /proc entries if all of /proc may not be granted.
func closedProc() result {
	return stricter("landlock can't distinguish /proc entries of the session's own processes from others, so they aren't readable")
}

// inseparable reports on capabilities that the kernel doesn't grant one by one. A new file is opened for writing like any other; a program is
// opened for reading when it's executed (do_open_execat); a hard link requires no right on its old name.
func inseparable(c policy.Caps) (w result, bad bool) {
	switch {
	case c&policy.Create != 0 && c&policy.Update == 0:
		return notEnforceable("landlock can't let files be created without update: they couldn't be written"), true
	case c&policy.Execute != 0 && c&policy.Read == 0:
		return notEnforceable("landlock can't let programs be executed without read"), true
	case c&policy.Create != 0 && c&policy.Read == 0:
		return partlyEnforced("files that may not be read could still get more hard links"), true
	}
	return result{}, false
}

// beyondParent reports on capabilities that a rule grants beyond its parent rule. A grant is tied to the file or folder: if that can be moved, or
// linked under another name, the grant moves along, and a file that replaces it doesn't have the grant.
func beyondParent(r, up *policy.Rule, have, more policy.Caps) result {
	switch {
	case more == 0:
	case r.FS.Dir && have&moveCaps == moveCaps:
		return partlyEnforced(fmt.Sprintf("the session may rename this folder (%s lets it create and delete around it), and %s moves along",
			up.ID, more))
	case !r.FS.Dir && have&policy.Create != 0:
		return partlyEnforced(fmt.Sprintf("the session may link or replace this file (%s lets it create next to it), and %s moves along",
			up.ID, more))
	}
	return enforced("")
}

// patternRule reports on a match rule. Landlock can't grant by pattern, so it's enforced if no rule grants more where the pattern could match.
// If the session may create there, the policy denies renaming a file to a name that grants more, and Landlock would allow it.
func (t *tree) patternRule(r *policy.Rule) result {
	less, creates := t.ruleAt(r.FS.Path) == nil && r.FS.Caps != 0, false
	for _, other := range t.rulesReaching(r.FS.Path) {
		if other.FS.Caps&^r.FS.Caps != 0 {
			return notEnforceable(fmt.Sprintf("landlock has no patterns, and %s grants %s on %s", other.ID, other.FS.Caps, other.FS.Path))
		}
		if other.FS.Caps != r.FS.Caps {
			less, creates = true, creates || other.FS.Caps&policy.Create != 0
		}
	}
	if creates {
		return notEnforceable("landlock can't grant by pattern: name the paths")
	}
	if less {
		return stricter("landlock can't grant by pattern: name the paths")
	}
	return enforced("nothing else is granted where it could match")
}

// granting returns a rule of the layer that grants any of the capabilities on p or beneath it, or nil. It considers only rules for which counts
// is true, and prefers one of a policy file to a built-in one.
func (t *tree) granting(p string, caps policy.Caps, counts func(*policy.Rule) bool) (found *policy.Rule) {
	consider := func(r *policy.Rule) {
		if r.FS.Caps&caps != 0 && (found == nil || found.Builtin() && !r.Builtin()) && counts(r) {
			found = r
		}
	}
	for _, r := range t.rulesReaching(p) {
		consider(r)
	}
	return found
}

func anyRule(*policy.Rule) bool { return true }

// isWithheld reports whether no session has any of the capabilities on p or beneath it, because some authority's rules don't grant them. If
// false, by is a rule that grants them, or nil if no layer restricts fs.
func (k *reporter) isWithheld(p string, caps policy.Caps, counts func(*policy.Rule) bool) (ok bool, by *policy.Rule) {
	for _, t := range k.trees {
		if by = t.granting(p, caps, counts); by == nil {
			return true, nil
		}
	}
	return false, by
}

// protect reports on a rule of protect.
func (k *reporter) protect(l *policy.Layer, r *policy.Rule) result {
	return k.restriction(l, r, restriction{
		policy.Write, l.Mode, func(p string) bool { return l.Protect.Deciding(p) != nil }, func(g *policy.Rule) bool { return g.FS.Unprotect },
	})
}

// secrets reports on a rule of secrets.
func (k *reporter) secrets(l *policy.Layer, r *policy.Rule) result {
	if r.FS.Caps != 0 {
		return enforced("an exception, which takes nothing away")
	}
	return k.restriction(l, r, restriction{
		policy.Read | policy.Execute, l.SecretsMode, l.Secret, func(g *policy.Rule) bool { return g.FS.Secret },
	})
}

// restriction describes protect or secrets.
type restriction struct {
	caps    policy.Caps
	mode    policy.ProtectMode
	matches func(path string) bool
	exempts func(*policy.Rule) bool
}

// restriction reports on a rule that denies beneath grants. With "auto" the result never prevents a start.
func (k *reporter) restriction(l *policy.Layer, r *policy.Rule, of restriction) result {
	about := subject{l, of.caps, r.FS.Path, r.FS.Last == ""}
	if k.lastSubject != about {
		k.lastSubject, k.lastResult = about, k.restrictionResult(l, about, of)
	}
	return k.lastResult
}

// subject is the key of a cached result: most patterns of protect, and of secrets, have the same.
type subject struct {
	layer   *policy.Layer
	caps    policy.Caps
	path    string
	literal bool
}

func (k *reporter) restrictionResult(l *policy.Layer, about subject, of restriction) result {
	// A grant on a single file counts only if the restriction matches that file.
	counts := func(g *policy.Rule) bool {
		return about.literal || g.FS.Dir || g.FS.Missing || of.matches(g.FS.Path)
	}
	ok, by := k.isWithheld(about.path, of.caps, counts)
	if t := k.treeOf(l); !ok && t != nil {
		by = t.granting(about.path, of.caps, func(g *policy.Rule) bool { return counts(g) && !of.exempts(g) })
		if by == nil {
			by = unexemptedPattern(l, about.path, of)
		}
		ok = by == nil
	}
	if ok {
		return enforced("")
	}
	w := notEnforceable("nothing restricts fs, and landlock can only grant")
	if by != nil {
		w.why = fmt.Sprintf("landlock can't take away beneath a grant: %s gives %s on %s", by.ID, by.FS.Caps&of.caps, by.FS.Path)
	}
	w.advisory = of.mode == policy.ProtectAuto
	return w
}

// unexemptedPattern returns a pattern that may decide where the restriction applies, and so ends the exemption by the rules around it; nil: none.
// Landlock grants there what those rules grant.
func unexemptedPattern(l *policy.Layer, p string, of restriction) *policy.Rule {
	for _, r := range l.FS.Patterns() {
		if r.FS.Caps&of.caps != 0 && !of.exempts(r) && (beneath(r.FS.Path, p) || beneath(p, r.FS.Path)) {
			return r
		}
	}
	return nil
}

// ownFile reports on the protection of toolguard's own files and of the policy's.
func (k *reporter) ownFile(r *policy.Rule) result {
	ok, by := k.isWithheld(r.FS.Path, policy.Write, anyRule)
	linked, bad := k.ownHardLinks(r)
	switch {
	case ok && !bad:
		return enforced("")
	case !k.root && onlyRootCanChange(r.FS.Path):
		return result{status: policy.Enforced, why: "only root can change it", by: byPermissions}
	case ok:
		return linked
	case by == nil && r.FS.Path == cgroupRoot:
		return enforced("no file can be created directly in /, /sys and /sys/fs either")
	case by == nil: // a process that may change every file can replace toolguard itself
		w := notEnforceable("fs = \"allow\" lets the command change every file, and so " + r.FS.Path + ": grant the files that it may change by rules")
		w.advisory = true
		return w
	}
	w := notEnforceable(fmt.Sprintf("%s lets the command write %s: move it out of there, or name this rule in --allow-degraded",
		by.ID, r.FS.Path))
	if r.Position.File == policy.UserFolders { // as with protect = "auto": a policy that lets a command write the home also lets it write the shell's start files
		w.advisory = true
		w.why = fmt.Sprintf("landlock can't take away beneath a grant: %s lets the command write %s", by.ID, r.FS.Path)
	}
	return w
}
