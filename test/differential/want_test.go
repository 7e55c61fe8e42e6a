//go:build linux && amd64

package differential

import (
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// want is the policy's decision on an operation.
type want struct {
	policy.Verdict
	target string // on which it was decided
	device bool   // denied whatever the policy
}

// step is one thing that an operation needs, if all earlier steps were granted.
type step struct {
	path   string
	follow bool
	caps   policy.Caps
}

// asked is the evaluator, and the machine that it reads.
type asked struct {
	*policy.Compiled
	machine cachedMachine
}

// cachedMachine is this machine, each of whose files is read once. It's valid until something changes.
type cachedMachine struct {
	hostfs.Machine
	kinds map[string]kind
}

type kind struct {
	fspath.Kind
	error
}

func (m cachedMachine) Lstat(path string) (fspath.Kind, error) {
	k, ok := m.kinds[path]
	if !ok {
		k.Kind, k.error = m.Machine.Lstat(path)
		m.kinds[path] = k
	}
	return k.Kind, k.error
}

// ask asks the evaluator about an operation, with the tree as it is now. docs/policy.md has the table.
func ask(c asked, o operation) want {
	switch o.Do {
	case "open", "open2", "reopen":
		return steps(c, opens(c, o)...)
	case "stat", "access":
		return steps(c)
	case "readlink":
		if k, err := c.machine.Lstat(o.Path); k != fspath.Symlink || err != nil {
			return steps(c) // it has none
		}
		return steps(c, step{o.Path, false, policy.Read})
	case "watch":
		return steps(c, step{o.Path, o.Flags&unix.IN_DONT_FOLLOW == 0, policy.Read})
	case "rename":
		return renames(c, o)
	case "link", "link_fd", "link_tmp":
		return links(c, o)
	case "mknod":
		w := steps(c, step{o.Path, false, policy.Create})
		w.device = o.Flags == unix.S_IFCHR || o.Flags == unix.S_IFBLK
		return w
	case "mkdir", "symlink", "bind":
		return steps(c, step{o.Path, false, policy.Create})
	case "unlink", "rmdir":
		return steps(c, step{o.Path, false, policy.Delete})
	case "truncate", "ftruncate", "chmod", "setxattr", "removexattr", "setacl", "removeacl", "connect", "send":
		return steps(c, step{o.Path, true, policy.Update})
	case "lsetxattr", "lremovexattr":
		return steps(c, step{o.Path, false, policy.Update})
	case "chown", "utimes":
		return steps(c, step{o.Path, o.Flags&unix.AT_SYMLINK_NOFOLLOW == 0, policy.Update})
	case "fchmod", "fchown", "futimes", "fsetxattr", "fremovexattr", "setflags":
		return steps(c, step{o.Path, true, policy.Read}, step{o.Path, true, policy.Update})
	case "map", "mprotect":
		return steps(c, step{o.Path, true, policy.Read}, step{o.Path, true, policy.Execute})
	case "execve", "execveat":
		return executes(c, o)
	}
	panic("nothing known of " + o.Do)
}

func (c asked) there(path string) bool {
	_, err := c.machine.Lstat(path)
	return err == nil
}

func (c asked) folder(path string) bool {
	k, err := c.machine.Lstat(path)
	return k == fspath.Dir && err == nil
}

// steps allows if all steps are granted, else it returns the first denial.
func steps(c asked, all ...step) want {
	w := want{Verdict: policy.Verdict{Allow: true}} // without a need
	for _, s := range all {
		w = want{target: resolve(c, s.path, s.follow)}
		if w.Verdict = c.CheckFile(w.target, c.file(w.target), s.caps); !w.Allow {
			break
		}
	}
	return w
}

// file identifies the file at a path, for rules about files.
func (c asked) file(path string) fspath.FileID {
	if len(c.Links) == 0 {
		return fspath.FileID{}
	}
	id, _, _ := c.machine.File(path)
	return id
}

// resolve returns a path's target; "", on which nothing is granted, if it has none or too many symlinks.
func resolve(c asked, path string, follow bool) string {
	p, _ := c.ResolveTarget(c.machine, path, follow)
	return p
}

func opens(c asked, o operation) []step {
	follow := o.Flags&unix.O_NOFOLLOW == 0 && o.Flags&(unix.O_CREAT|unix.O_EXCL) != unix.O_CREAT|unix.O_EXCL
	var need policy.Caps
	switch o.Flags & unix.O_ACCMODE {
	case unix.O_RDONLY:
		need = policy.Read
	case unix.O_WRONLY:
		need = policy.Update
	default: // 3 is for ioctl, and asks for both
		need = policy.Read | policy.Update
	}
	if o.Flags&unix.O_PATH != 0 {
		return nil
	}
	if o.Flags&unix.O_TMPFILE == unix.O_TMPFILE {
		return []step{{filepath.Join(o.Path, "#0"), true, need&^policy.Update | policy.Create}}
	}
	if o.Flags&unix.O_CREAT != 0 && !c.there(resolve(c, o.Path, follow)) {
		made := []step{{o.Path, follow, policy.Create}}
		if need&policy.Read != 0 {
			made = append(made, step{o.Path, follow, policy.Read})
		}
		return made
	}
	if o.Flags&unix.O_TRUNC != 0 && mode(resolve(c, o.Path, follow)) == unix.S_IFREG { // a fifo has no content
		need |= policy.Update
	}
	return []step{{o.Path, follow, need}}
}

func executes(c asked, o operation) want {
	all := []step{{o.Path, true, policy.Execute}}
	if by, ok := interpreters[filepath.Base(resolve(c, o.Path, true))]; ok {
		all = append(all, step{filepath.Join(programs, by), true, policy.Execute})
	}
	return steps(c, all...)
}

func renames(c asked, o operation) want {
	m := policy.Move{Old: resolve(c, o.Path, false), New: resolve(c, o.Path2, false), Exchange: o.Flags&unix.RENAME_EXCHANGE != 0}
	m.OldDir, m.NewDir, m.NewExists = c.folder(m.Old), c.folder(m.New), c.there(m.New)
	m.OldFile, m.NewFile = c.file(m.Old), c.file(m.New)
	w := want{Verdict: c.CheckRename(m), target: m.Old, device: o.Flags&unix.RENAME_WHITEOUT != 0}
	old := policy.Delete
	if m.Exchange {
		old |= policy.Update
	}
	if w.Reason != policy.NoGain && c.CheckFile(m.Old, m.OldFile, old).Allow {
		w.target = m.New
	}
	return w
}

func links(c asked, o operation) want {
	follow := o.Do != "link" || o.Flags&unix.AT_SYMLINK_FOLLOW != 0
	need := []step{{o.Path, follow, policy.Read}, {o.Path2, false, policy.Create}}
	if o.Do == "link_tmp" {
		o.Path = filepath.Join(o.Path, "#0")
		need[0].path = o.Path
		need = append([]step{{o.Path, follow, policy.Create}}, need...)
	}
	w := steps(c, need...)
	if old := resolve(c, o.Path, follow); w.Allow {
		w = want{Verdict: c.CheckLink(policy.Move{Old: old, New: resolve(c, o.Path2, false), OldFile: c.file(old)}), target: old}
	}
	return w
}

func there(path string) bool { return mode(path) != 0 }

func folder(path string) bool { return mode(path) == unix.S_IFDIR }

// mode returns the type of the file at a path; 0: none.
func mode(path string) uint32 {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return 0
	}
	return st.Mode & unix.S_IFMT
}

// crosses reports whether two names are on different mounts: rename and link then end with EXDEV, before any hook is called. A link's
// old name is looked up for what it is, and may be a mount itself.
func crosses(o operation) bool {
	old, flags := filepath.Dir(o.Path), 0
	if o.Do == "link" && o.Flags&unix.AT_SYMLINK_FOLLOW == 0 {
		old, flags = o.Path, unix.AT_SYMLINK_NOFOLLOW
	} else if o.Do != "rename" {
		old = o.Path
	}
	var a, b unix.Statx_t
	return unix.Statx(unix.AT_FDCWD, old, flags, unix.STATX_MNT_ID, &a) == nil &&
		unix.Statx(unix.AT_FDCWD, filepath.Dir(o.Path2), 0, unix.STATX_MNT_ID, &b) == nil && a.Mnt_id != b.Mnt_id
}
