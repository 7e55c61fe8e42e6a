package mounts

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"syscall"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// MaxMounts bounds the mounts of a plan: bubblewrap takes at most 9,000 arguments, up to six for a mount.
const MaxMounts = 1400

// maxMatches is how many mounts a plan may have when another one is added for a pattern: the others are for paths that rules name.
const maxMatches = 1100

// builder makes a plan from above.
type builder struct {
	c          *policy.Compiled
	files      Files
	options    Options
	trees      []hierarchy
	points     map[string]bool // the paths of rules, under every name
	mounts     map[string]*Mount
	excess     []excess
	lost       []lost
	blocked    []blocked
	sockets    []string
	privateTmp bool

	removers []remover
	found    map[finding]*search
	left     [3]int // entries that may still be searched: see share
}

func newBuilder(c *policy.Compiled, files Files, o Options) *builder {
	b := &builder{
		c: c, files: files, options: o, trees: hierarchies(c), points: map[string]bool{"/": true}, mounts: map[string]*Mount{},
		found: map[finding]*search{}, left: [3]int{MaxEntries, MaxEntries, MaxEntries},
	}
	for _, l := range c.Layers {
		for _, t := range tablesOf(l) {
			for _, r := range t.Literals() {
				for _, name := range names(c, r.FS.Path) {
					b.points[name] = true
				}
			}
		}
	}
	b.removers = removersOf(c)
	return b
}

// build decides on the path of every rule, from above, and searches what is beneath it up to the next rules.
func (b *builder) build() error {
	b.mounts["/"] = &Mount{Path: "/", Mode: ReadOnly, Dir: true}
	if b.options.OpenRoot || b.c.Caps("/")&policy.Write != 0 {
		b.mounts["/"].Mode = ReadWrite
	}
	kind, err := b.files.Lstat(tmp)
	if b.privateTmp = b.c.Caps(tmp) == 0 && err == nil && kind == fspath.Dir; b.privateTmp {
		b.mounts[tmp] = &Mount{Path: tmp, Mode: Hidden, Dir: true}
		b.showInTmp()
	}
	points := slices.SortedFunc(maps.Keys(b.points), func(x, y string) int {
		return cmp.Or(cmp.Compare(fspath.Depth(x), fspath.Depth(y)), cmp.Compare(x, y))
	})
	for _, p := range points {
		if isKernel(p) {
			b.kernelPoint(p)
		} else if err := b.point(p); err != nil {
			return err
		}
	}
	for _, p := range b.options.Visible {
		if b.show(p, true); b.mounts[p] != nil {
			b.mounts[p].Open = b.mounts[p].Mode == Hidden
		}
	}
	for p := range b.mounts {
		b.openAbove(p)
	}
	if n := len(b.mounts); n > MaxMounts {
		return tooMany(n)
	}
	return nil
}

const tmp = "/tmp"

// showInTmp mounts those folders in a new /tmp that have to be visible, if Landlock permits nothing there that the policy denies.
func (b *builder) showInTmp() {
	for _, p := range b.options.Visible {
		if p != tmp && fspath.Within(p, tmp) && !b.isGrantedInTmp(p) && b.remaining(p, ReadOnly) == 0 {
			b.mounts[p] = &Mount{Path: p, Mode: ReadOnly, Dir: true}
		}
	}
}

// isGrantedInTmp reports whether a rule that grants something is on a path or on a folder above it in /tmp: that rule's mount shows it.
func (b *builder) isGrantedInTmp(p string) bool {
	for ; p != tmp; p = parent(p) {
		if b.isNamed(p) {
			return true
		}
	}
	return false
}

// isKernel reports whether a path is in a file system of the kernel's that is new in a session or has its own treatment.
func isKernel(p string) bool {
	return fspath.Within(p, "/proc") || fspath.Within(p, "/dev")
}

// point decides on the path of a rule.
func (b *builder) point(p string) error {
	kind, err := b.files.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		b.exceeds(p, b.remaining(p, b.modeAt(p)), p+" doesn't exist, and mounts can only cover what exists: create it first")
		if b.openAbove(p); b.options.NoHoles && b.covered(p) && b.isNamed(p) {
			b.block(p)
		}
		return nil
	case errors.Is(err, fs.ErrPermission):
		b.exceeds(p, b.remaining(p, b.modeAt(p)), "this user can't look at "+p)
		return nil
	case err != nil:
		return err
	}
	if kind == fspath.File && b.files.IsSocket(p) {
		b.sockets = append(b.sockets, p)
	}
	b.place(p, kind, b.modeAt(p), b.permitted(p))
	if kind == fspath.Dir {
		b.search(p)
	}
	b.showGranted(p, kind)
	b.pinMore(p, kind)
	return nil
}

// kernelPoint decides on the path of a rule in /proc or /dev, where no mounts are made.
func (b *builder) kernelPoint(p string) {
	b.exceeds(p, b.remaining(p, ReadWrite), "mounts don't cover anything in /proc and /dev")
	if kind, err := b.files.Lstat(p); err != nil || kind != fspath.Dir {
		return
	}
	for _, r := range b.relevant(p, p, b.permitted(p)) {
		b.searchOf(r).unlisted++
	}
}

// exceeds records what is permitted on a path and shouldn't be.
func (b *builder) exceeds(p string, caps policy.Caps, why string) {
	if caps != 0 {
		b.excess = append(b.excess, excess{p, caps, why})
	}
}

// modeAt returns the mode of the mount that a path is in.
func (b *builder) modeAt(p string) Mode {
	for {
		if m := b.mounts[p]; m != nil {
			return m.Mode
		}
		p = parent(p)
	}
}

// remaining returns what a mode and Landlock permit on a path, and the policy denies.
func (b *builder) remaining(p string, m Mode) policy.Caps {
	return m.caps() & b.permitted(p) &^ b.c.Caps(p)
}

// place mounts an existing entry if what it's in has the wrong mode for it. It returns the entry's mode.
func (b *builder) place(p string, kind fspath.Kind, in Mode, permitted policy.Caps) Mode {
	granted := b.c.Caps(p) & permitted
	kept := granted
	if permitted&^granted&policy.Read != 0 && b.isSecret(p) {
		kept = 0
	}
	over := in.caps() & permitted &^ granted
	switch {
	case b.options.NoHoles && b.covered(p) && kept != 0:
		b.block(p)
		return in
	case over != 0 || kept&^in.caps() != 0:
	case b.isWriteRoot(p, kept) && kind != fspath.Symlink:
		b.mount(p, kind, ReadWrite)
		return in
	default:
		return in
	}
	if kind == fspath.Symlink {
		b.exceeds(p, over, p+" is a symlink, which mounts can't cover")
		return in
	}
	m, left, ok := modeFor(kind, kept)
	if !ok || m == in && left == in.caps() {
		b.exceeds(p, over, alone(p, over))
		return in
	}
	b.mount(p, kind, m)
	over = left & permitted &^ granted
	b.exceeds(p, over, alone(p, over))
	if gone := granted &^ left; gone != 0 {
		b.lost = append(b.lost, lost{p, gone})
	}
	return m
}

// covered reports whether a path is in a hidden folder that isn't a new file system.
func (b *builder) covered(p string) bool {
	for b.mounts[p] == nil {
		p = parent(p)
	}
	return b.mounts[p].Mode == Hidden && !(p == tmp && b.privateTmp)
}

func (b *builder) block(p string) {
	b.blocked = append(b.blocked, blocked{p, "nothing can be granted beneath a hidden folder: " + p})
}

// isWriteRoot reports whether a path may be written, and isn't in a mount of a plan that doesn't rely on the one of "/".
func (b *builder) isWriteRoot(p string, kept policy.Caps) bool {
	if !b.options.OpenRoot || p == "/" || kept&policy.Write == 0 {
		return false
	}
	for b.mounts[p] == nil {
		p = parent(p)
	}
	return p == "/"
}

func alone(p string, caps policy.Caps) string {
	return fmt.Sprintf("mounts can take away all writing or everything, and not just %s on %s", caps, p)
}

// modeFor returns the strictest mode that keeps capabilities on an entry, and what it leaves there. A file that is a mount point can't be
// deleted or replaced.
func modeFor(kind fspath.Kind, kept policy.Caps) (m Mode, left policy.Caps, ok bool) {
	for m := Hidden; m <= ReadWrite; m++ {
		left := m.caps()
		if kind != fspath.Dir {
			left &^= policy.Create | policy.Delete
		}
		if kept&^left == 0 {
			return m, left, true
		}
	}
	return 0, 0, false
}

// isSecret reports whether `secrets` of some layer takes reading away.
func (b *builder) isSecret(p string) bool {
	return slices.ContainsFunc(b.c.Layers, func(l *policy.Layer) bool {
		v, ok := l.CheckFS(p, policy.Read)
		return !ok && v.Reason == policy.Protected && v.Rule >= 0 && l.Secrets.Deciding(p) == b.c.Rules[v.Rule]
	})
}

// mount adds a mount, and one for each folder above it that the session could move.
func (b *builder) mount(p string, kind fspath.Kind, m Mode) {
	b.mounts[p] = &Mount{Path: p, Mode: m, Dir: kind == fspath.Dir}
	for up := parent(p); up != "/" && b.mounts[up] == nil && b.modeAt(up) == ReadWrite && b.permitted(parent(up))&policy.Write != 0; up = parent(up) {
		b.mounts[up] = &Mount{Path: up, Mode: ReadWrite, Dir: true}
	}
}

// pinMore makes a path with a larger grant than what is around it a mount point, so that it can't be moved with its grant.
func (b *builder) pinMore(p string, kind fspath.Kind) {
	if p == "/" || kind == fspath.Symlink || b.mounts[p] != nil || b.modeAt(p) != ReadWrite {
		return
	}
	around := b.permitted(parent(p))
	if around&(policy.Create|policy.Delete) == 0 || b.permitted(p)&^around == 0 {
		return
	}
	b.mount(p, kind, ReadWrite)
	if gone := b.c.Caps(p) & b.permitted(p) & (policy.Create | policy.Delete); gone != 0 && kind != fspath.Dir {
		b.lost = append(b.lost, lost{p, gone})
	}
}

// showGranted makes a path that some layer grants exist where it would be covered: Landlock's rulesets need it.
func (b *builder) showGranted(p string, kind fspath.Kind) {
	if kind != fspath.Symlink && b.isNamed(p) {
		b.show(p, kind == fspath.Dir)
	}
}

// isNamed reports whether a rule that grants something has that path.
func (b *builder) isNamed(p string) bool {
	return slices.ContainsFunc(b.trees, func(h hierarchy) bool { return h.byPath[p] != 0 })
}

// show makes a path exist where a folder above hides it.
func (b *builder) show(p string, dir bool) {
	switch {
	case b.mounts[p] != nil || b.modeAt(p) != Hidden || isKernel(p):
	case b.options.NoHoles && b.covered(p):
		b.block(p)
	default:
		b.mounts[p] = &Mount{Path: p, Mode: Hidden, Dir: dir}
	}
}

// openAbove lets the hidden folders above a path be passed through.
func (b *builder) openAbove(p string) {
	for p != "/" {
		p = parent(p)
		if m := b.mounts[p]; m != nil && m.Mode == Hidden {
			m.Open = true
		}
	}
}
