package landlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Prepare opens what the plan grants and builds its rulesets in the kernel, so that Apply has little left to do. Any thread
// can do it. Close gives up what has been prepared.
func (p *Plan) Prepare() error {
	if len(p.Rulesets) == 0 {
		return errors.New("a plan without rulesets restricts nothing")
	}
	if p.built != nil {
		return nil
	}
	var fds []int
	for _, r := range append(p.Rulesets[:len(p.Rulesets):len(p.Rulesets)], p.Inner) {
		fd, err := r.build(&p.opened)
		if err != nil {
			closeAll(fds)
			p.opened.close()
			return err
		}
		fds = append(fds, fd)
	}
	p.built = fds
	return nil
}

// Close closes what Prepare has opened. It's for when the command runs, which doesn't wait for it then.
func (p *Plan) Close() {
	closeAll(p.built)
	p.built = nil
	p.opened.close()
}

// Apply puts the rulesets on the calling OS thread, which must be locked to its goroutine and carry no_new_privs; what it
// starts afterwards inherits them. Nothing takes them off again. Other threads aren't touched. After an error some
// rulesets may be in force: the thread mustn't be used.
func (p *Plan) Apply() error {
	return p.ApplyTo(func(ruleset int, flags uint32) error { return ll.LandlockRestrictSelf(ruleset, flags) })
}

// ApplyTo is Apply with the caller's function for landlock_restrict_self(2).
func (p *Plan) ApplyTo(restrict func(ruleset int, flags uint32) error) error {
	// All are built before the first is in force, since it could keep the others' paths from being opened.
	if err := p.Prepare(); err != nil {
		return err
	}
	for _, fd := range p.built[:len(p.Rulesets)] {
		if err := restrict(fd, logFlags(p.ABI)); err != nil {
			return fmt.Errorf("landlock_restrict_self: %w", err)
		}
	}
	return nil
}

// InnerArgs are the arguments of the landlock_restrict_self(2) by which a child of a thread under Apply leaves the thread's
// domain for one of its own within it. No process can trace or signal out of a domain (domain_scope_le and domain_is_scoped,
// security/landlock/task.c), so the child and what it starts can't reach the thread, which shares all with toolguard; the thread
// can still signal them. Nothing else changes. Below ABI 6 there is no scope for signals.
func (p *Plan) InnerArgs() (ruleset int, flags uint32, err error) {
	err = p.Prepare()
	if err != nil {
		return -1, 0, err
	}
	return p.built[len(p.Rulesets)], logFlags(p.ABI), nil
}

// logFlags keep the denials of the programs that the session executes in the kernel's log; without them only those of
// the first program would be, which is toolguard itself (ABI 7, Linux 6.15).
func logFlags(abi int) uint32 {
	if abi >= 7 {
		return ll.FlagRestrictSelfLogNewExecOn
	}
	return 0
}

func (r *Ruleset) build(o *opened) (fd int, err error) {
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
	if err := r.quiet(fd, o); err != nil {
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

// quiet keeps denials in some folders out of the log (ABI 10). It grants nothing, so what can't be opened is left out.
func (r *Ruleset) quiet(fd int, o *opened) error {
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

func (g *Grant) add(ruleset int, o *opened) error {
	fd, err := o.open(g.Path, g.Dir)
	if g.Optional && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return g.fail(err)
	}
	access := g.Access
	if !g.Dir && access&^onFiles != 0 {
		dir, err := isDir(fd)
		if err != nil {
			return g.fail(&fs.PathError{Op: "fstat", Path: g.Path, Err: err})
		}
		if !dir {
			access &= onFiles
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

// opened are the files that grants are made on, each opened once.
type opened struct{ files map[string]int }

// open opens what is at a canonical path, without any right to it; dir says that it was a directory. A symlink anywhere
// in the path is an error, and so is something else in a directory's place: the path has changed since the
// policy was compiled.
func (o *opened) open(path string, dir bool) (int, error) {
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

func (o *opened) close() {
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

var errMoved = errors.New("something else has come into the path since the policy was compiled, a symlink perhaps")

// openCanonical uses openat2(2), which is older than Landlock; an outer filter may still hide it, so that the path is
// compared with what the kernel says was opened.
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
			return -1, errMoved
		case unix.ENOSYS, unix.EPERM:
			return openCompared(path, int(how.Flags))
		default:
			return -1, err
		}
	}
}

func openCompared(path string, flags int) (int, error) {
	fd, err := unix.Open(path, flags, 0)
	if err != nil {
		return -1, err
	}
	got, err := os.Readlink(fmt.Sprintf("/proc/thread-self/fd/%d", fd))
	if err == nil && got != path {
		err = errMoved
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
