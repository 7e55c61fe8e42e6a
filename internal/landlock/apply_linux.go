package landlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Prepare opens the files that the plan grants and creates its rulesets in the kernel, so that Apply is fast. Any thread can call it. Close
// releases both.
func (p *Plan) Prepare() error {
	if len(p.Rulesets) == 0 {
		return errors.New("a plan without rulesets restricts nothing")
	}
	if p.rulesets != nil {
		return nil
	}
	var fds []int
	for _, r := range append(p.Rulesets[:len(p.Rulesets):len(p.Rulesets)], p.Inner) {
		fd, err := r.build(&p.openFiles)
		if err != nil {
			closeAll(fds)
			p.openFiles.close()
			return err
		}
		fds = append(fds, fd)
	}
	p.rulesets = fds
	return nil
}

// Close closes the files that Prepare has opened. Call it once the command runs, so that the start doesn't wait for it.
func (p *Plan) Close() {
	closeAll(p.rulesets)
	p.rulesets = nil
	p.openFiles.close()
}

// Apply restricts the calling OS thread, which must be locked to its goroutine and have no_new_privs. Its descendants inherit the
// restriction, which can't be removed. Other threads aren't restricted. After an error some rulesets may be enforced: the thread mustn't be
// used.
func (p *Plan) Apply() error {
	return p.ApplyTo(func(ruleset int, flags uint32) error { return ll.LandlockRestrictSelf(ruleset, flags) })
}

// ApplyTo is Apply with the caller's function for landlock_restrict_self(2).
func (p *Plan) ApplyTo(restrict func(ruleset int, flags uint32) error) error {
	// All rulesets are created before the first is enforced, which could deny opening the paths of the others.
	if err := p.Prepare(); err != nil {
		return err
	}
	for _, fd := range p.rulesets[:len(p.Rulesets)] {
		if err := restrict(fd, logFlags(p.ABI)); err != nil {
			return fmt.Errorf("landlock_restrict_self: %w", err)
		}
	}
	return nil
}

// InnerArgs returns the arguments of the landlock_restrict_self(2) by which a child of a restricted thread enters a nested domain of its own.
// No process can trace or signal out of a domain (domain_scope_le and domain_is_scoped, security/landlock/task.c), so the child and its
// descendants can't reach the thread, which shares its memory with toolguard. The thread can still signal them. Nothing else changes. Below
// ABI 6 there is no scope for signals.
func (p *Plan) InnerArgs() (ruleset int, flags uint32, err error) {
	err = p.Prepare()
	if err != nil {
		return -1, 0, err
	}
	return p.rulesets[len(p.Rulesets)], logFlags(p.ABI), nil
}

// logFlags returns the flags by which the kernel also logs the denials of the programs that the session executes. Without them it logs only
// those of the first program, which is toolguard itself (ABI 7, Linux 6.15).
func logFlags(abi int) uint32 {
	if abi >= 7 {
		return ll.FlagRestrictSelfLogNewExecOn
	}
	return 0
}

func (r *Ruleset) build(o *openFiles) (fd int, err error) {
	attr := ll.RulesetAttr{HandledAccessFS: r.FS, HandledAccessNet: r.Net, Scoped: r.Scoped}
	if len(r.Quiet) > 0 {
		attr.QuietAccessFS = ll.AccessFSResolveUnix
	}
	if fd, err = ll.LandlockCreateRuleset(&attr, 0); err != nil {
		return -1, fmt.Errorf("landlock_create_ruleset: %w", err)
	}
	for i := range r.Grants {
		if err := r.Grants[i].add(fd, o); err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
	}
	if err := r.addQuiet(fd, o); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	for _, p := range r.Ports {
		if err := ll.LandlockAddNetPortRule(fd, &ll.NetPortAttr{AllowedAccess: p.Access, Port: uint64(p.Number)}, 0); err != nil {
			_ = unix.Close(fd)
			return -1, fmt.Errorf("landlock_add_rule for port %d: %w", p.Number, err)
		}
	}
	return fd, nil
}

// addQuiet excludes denials in some folders from the log (ABI 10). It grants nothing, so folders that can't be opened are skipped.
func (r *Ruleset) addQuiet(fd int, o *openFiles) error {
	for _, path := range r.Quiet {
		dir, err := o.open(path, true)
		if err != nil {
			continue
		}
		if err := ll.LandlockAddPathBeneathRule(fd, &ll.PathBeneathAttr{ParentFd: dir}, ll.FlagAddRuleQuiet); err != nil {
			return &fs.PathError{Op: "landlock_add_rule", Path: path, Err: err}
		}
	}
	return nil
}

func (g *Grant) add(ruleset int, o *openFiles) error {
	fd, err := o.open(g.Path, g.Dir)
	if (g.Optional || g.hidden) && errors.Is(err, fs.ErrNotExist) || g.hidden && errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return g.fail(err)
	}
	access := g.Access
	if !g.Dir && access&^fileRights != 0 {
		dir, err := isDir(fd)
		if err != nil {
			return g.fail(&fs.PathError{Op: "fstat", Path: g.Path, Err: err})
		}
		if !dir {
			access &= fileRights
		}
	}
	if access == 0 {
		return nil
	}
	if err := ll.LandlockAddPathBeneathRule(ruleset, &ll.PathBeneathAttr{AllowedAccess: access, ParentFd: fd}, 0); err != nil {
		return g.fail(&fs.PathError{Op: "landlock_add_rule", Path: g.Path, Err: err})
	}
	return nil
}

func (g *Grant) fail(err error) error {
	if g.Rule == nil {
		return err
	}
	return fmt.Errorf("%s: %s: %w", g.Rule.Position, g.Rule.ID, err)
}

// openFiles are the files with grants, each opened once.
type openFiles struct{ files map[string]int }

// open opens a canonical path with O_PATH. dir means that it was a directory. If the path now has a symlink anywhere, or is no directory any
// more, it has changed since the policy was compiled and open fails.
func (o *openFiles) open(path string, dir bool) (int, error) {
	if fd, ok := o.files[path]; ok {
		return fd, nil
	}
	fd, err := openCanonical(path, dir)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if o.files == nil {
		o.files = make(map[string]int, 64)
	}
	o.files[path] = fd
	return fd, nil
}

func (o *openFiles) close() {
	for _, fd := range o.files {
		_ = unix.Close(fd)
	}
	o.files = nil
}

func isDir(fd int) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return st.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

var errPathChanged = errors.New("the path has changed since the policy was compiled, perhaps to a symlink")

// openCanonical uses openat2(2), which is older than Landlock. If an outer filter hides it, the path is compared with the kernel's name of the
// opened file.
func openCanonical(path string, dir bool) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	if dir {
		how.Flags |= unix.O_DIRECTORY
	}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		switch err {
		case nil:
			return fd, nil
		case unix.EINTR, unix.EAGAIN:
		case unix.ELOOP, unix.ENOTDIR:
			return -1, errPathChanged
		case unix.ENOSYS, unix.EPERM:
			return openAndCompare(path, int(how.Flags))
		default:
			return -1, err
		}
	}
}

func openAndCompare(path string, flags int) (int, error) {
	fd, err := unix.Open(path, flags, 0)
	if err != nil {
		return -1, err
	}
	got, err := os.Readlink(fmt.Sprintf("/proc/thread-self/fd/%d", fd))
	if err == nil && got != path {
		err = errPathChanged
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
