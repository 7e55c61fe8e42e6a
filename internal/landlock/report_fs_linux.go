package landlock

import (
	"fmt"
	"path"

	"github.com/toolguard/toolguard/internal/policy"
)

// fs adds a row for each fs rule of a layer, in rule order.
func (k *report) fs(l *policy.Layer) {
	t := k.treeOf(l)
	for _, r := range l.FS.Rules() {
		switch {
		case r.FS.Symlink:
			k.add(r, enforced("every symlink may be read"))
		case t == nil && r.FS.Caps == policy.AllCaps:
			k.add(r, enforced("everything else is allowed too"))
		case t == nil:
			k.add(r, notEnforceable("what the default allows can't be taken away: landlock can only grant"))
		case r.FS.Last != "":
			k.add(r, t.pattern(r))
		default:
			k.add(r, k.literal(t, r))
		}
	}
}

// literal judges a rule with a path, under all names of what's there.
func (k *report) literal(t *tree, r *policy.Rule) status {
	w := t.literal(r)
	if w.status == policy.NotEnforceable || t.at[r.FS.Path] != r {
		return w
	}
	if other, bad := t.otherwise(r); bad {
		return other
	}
	if w.status == policy.Enforced && k.c.Pinned(r) {
		return t.linked(r, w)
	}
	return w
}

// literal judges a rule with a path, by that name.
func (t *tree) literal(r *policy.Rule) status {
	if last := t.at[r.FS.Path]; last != r {
		return enforced(last.ID + " on the same path decides")
	}
	up := t.around(r.FS.Path)
	have, want := capsOf(up), r.FS.Caps
	switch {
	case t.proc != nil && r.FS.Path == ownProc:
		return openedProc()
	case have&^want != 0:
		return notEnforceable(fmt.Sprintf("landlock can't take away beneath a grant: %s gives %s on %s", up.ID, have&^want, up.FS.Path))
	case have == want:
		return enforced("")
	case own(r.FS.Path):
		return closedProc()
	case r.FS.Missing && have&policy.Create != 0:
		return partly("nothing is there yet, and landlock can only grant on what exists: create it first")
	}
	lost := ofFolder(r, have)
	if w, bad := together(want &^ lost); bad {
		return w
	}
	w := place(r, up, have, want&^(have|lost))
	switch {
	case w.status != policy.Enforced:
	case r.FS.Missing:
		return stricter("nothing is there yet, and landlock can only grant on what exists: create it first")
	case lost != 0:
		return stricter(fmt.Sprintf("landlock asks the folder for the right to %s a file: where that's needed, grant it on %s", lost, path.Dir(r.FS.Path)))
	}
	return w
}

// ofFolder is what a rule on a file would give that Landlock asks the file's folder for: it isn't given.
func ofFolder(r *policy.Rule, have policy.Caps) policy.Caps {
	if r.FS.Dir || r.FS.Missing {
		return 0
	}
	return r.FS.Caps & moving &^ have
}

// openedProc judges the rule for which openProc opens /proc: reported, and no reason not to start.
func openedProc() status {
	w := partly("landlock can't tell the session's own /proc entries from others', and programs need theirs: the command lines, states and " +
		"network tables of other processes can be read, and the kernel's files that everybody may read; not others' memory, environment and open files")
	w.advisory, w.opens = true, proc
	return w
}

// closedProc judges a rule about the session's own /proc entries where the others are to stay closed.
func closedProc() status {
	return stricter("/proc entries of the session's own processes can't be told from those of others, so they aren't readable")
}

// together judges capabilities that the kernel doesn't give one by one. A new file is opened for writing like any
// other; a program is opened for reading when it's executed (do_open_execat); a hard link needs nothing on its old name.
func together(c policy.Caps) (w status, bad bool) {
	switch {
	case c&policy.Create != 0 && c&policy.Update == 0:
		return notEnforceable("landlock can't let files be created without update: they couldn't be written"), true
	case c&policy.Execute != 0 && c&policy.Read == 0:
		return notEnforceable("landlock can't let programs be executed without read"), true
	case c&policy.Create != 0 && c&policy.Read == 0:
		return partly("files that may not be read could still get further hard links"), true
	}
	return status{}, false
}

// place judges what a rule gives beyond the rule around it. A grant is tied to the file or folder: where that can be moved, or
// linked under another name, the grant goes along; and what is put in its place doesn't have it.
func place(r, up *policy.Rule, have, more policy.Caps) status {
	switch {
	case more == 0:
	case r.FS.Dir && have&moving == moving:
		return partly(fmt.Sprintf("the session may rename this folder (%s lets it create and delete around it), and %s goes along",
			up.ID, more))
	case !r.FS.Dir && have&policy.Create != 0:
		return partly(fmt.Sprintf("the session may link or replace this file (%s lets it create beside it), and %s goes along",
			up.ID, more))
	}
	return enforced("")
}

// pattern judges a match rule. It gives nothing, so it holds where every rule that reaches where it could hit grants no more
// than it does. Where the session may create, the policy wouldn't let a file be renamed to a name that gives more; Landlock would.
func (t *tree) pattern(r *policy.Rule) status {
	less, creates := t.deciding(r.FS.Path) == nil && r.FS.Caps != 0, false
	for _, other := range t.reaching(r.FS.Path) {
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

// giving is a rule of the layer that gives some of the capabilities on p or something beneath it; nil when none does. Rules
// that counts says no to are left out; of the others one of a policy file is named rather than a built-in one.
func (t *tree) giving(p string, caps policy.Caps, counts func(*policy.Rule) bool) (found *policy.Rule) {
	consider := func(r *policy.Rule) {
		if r.FS.Caps&caps != 0 && (found == nil || found.Builtin() && !r.Builtin()) && counts(r) {
			found = r
		}
	}
	for _, r := range t.reaching(p) {
		consider(r)
	}
	return found
}

func anyRule(*policy.Rule) bool { return true }

// withheld reports whether no session has any of the capabilities on p or anything beneath it: some authority's rules don't give them. If
// not, by is a rule that does, nil if no layer restricts fs.
func (k *report) withheld(p string, caps policy.Caps, counts func(*policy.Rule) bool) (ok bool, by *policy.Rule) {
	for _, t := range k.trees {
		if by = t.giving(p, caps, counts); by == nil {
			return true, nil
		}
	}
	return false, by
}

// protect judges what protect takes away.
func (k *report) protect(l *policy.Layer, r *policy.Rule) status {
	return k.taking(l, r, taking{
		policy.Write, l.Mode, func(p string) bool { return l.Protect.Deciding(p) != nil }, func(g *policy.Rule) bool { return g.FS.Unprotect },
	})
}

// secrets judges what secrets takes away.
func (k *report) secrets(l *policy.Layer, r *policy.Rule) status {
	if r.FS.Caps != 0 {
		return enforced("an exception, which takes nothing away")
	}
	return k.taking(l, r, taking{
		policy.Read | policy.Execute, l.SecretsMode, l.Secret, func(g *policy.Rule) bool { return g.FS.Secret },
	})
}

// taking is what there is to know about protect, or secrets.
type taking struct {
	caps   policy.Caps
	mode   policy.ProtectMode
	covers func(path string) bool
	lifts  func(*policy.Rule) bool
}

// taking judges a rule that takes away beneath grants; with "auto" the answer is advisory.
func (k *report) taking(l *policy.Layer, r *policy.Rule, of taking) status {
	about := subject{l, of.caps, r.FS.Path, r.FS.Last == ""}
	if k.about != about {
		k.about, k.same = about, k.taken(l, about, of)
	}
	return k.same
}

// subject is all that the answer to a rule that takes away depends on: most of the patterns of protect, and of secrets, have the same.
type subject struct {
	layer   *policy.Layer
	caps    policy.Caps
	path    string
	literal bool
}

func (k *report) taken(l *policy.Layer, about subject, of taking) status {
	// A rule on a single file matters only when it's that file that is covered.
	counts := func(g *policy.Rule) bool {
		return about.literal || g.FS.Dir || g.FS.Missing || of.covers(g.FS.Path)
	}
	ok, by := k.withheld(about.path, of.caps, counts)
	if t := k.treeOf(l); !ok && t != nil {
		by = t.giving(about.path, of.caps, func(g *policy.Rule) bool { return counts(g) && !of.lifts(g) })
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

// own judges the protection of toolguard's own files and the policy's.
func (k *report) own(r *policy.Rule) status {
	ok, by := k.withheld(r.FS.Path, policy.Write, anyRule)
	linked, bad := k.ownLinked(r)
	switch {
	case ok && !bad:
		return enforced("")
	case !k.root && rootsAlone(r.FS.Path):
		return status{status: policy.Enforced, why: "only root can change it", by: byPermissions}
	case ok:
		return linked
	case by == nil && r.FS.Path == groups:
		return enforced("nor can anything be made directly in /, /sys and /sys/fs")
	case by == nil: // who may change everything can replace toolguard itself
		w := notEnforceable("fs = \"allow\" lets the command change every file, and so " + r.FS.Path + ": grant by rules what it's to change")
		w.advisory = true
		return w
	}
	w := notEnforceable(fmt.Sprintf("%s lets the command write %s: move it out of there, or name this rule in --allow-degraded",
		by.ID, r.FS.Path))
	if r.Position.File == policy.UserFolders { // as with protect: "auto", whoever lets a command write a home also lets it write what the shell starts with
		w.advisory = true
		w.why = fmt.Sprintf("landlock can't take away beneath a grant: %s lets the command write %s", by.ID, r.FS.Path)
	}
	return w
}
