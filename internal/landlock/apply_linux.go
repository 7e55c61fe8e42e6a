package landlock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Apply puts the rulesets on the calling OS thread, which must be locked to its goroutine and carry no_new_privs; what it
// starts afterwards inherits them. Nothing takes them off again. Other threads aren't touched. After an error some
// rulesets may be in force: the thread mustn't be used.
func (p *Plan) Apply() error {
	if len(p.Rulesets) == 0 {
		return errors.New("a plan without rulesets restricts nothing")
	}
	var o opened
	defer o.close()
	// All are built before the first is in force, since it could keep the others' paths from being opened.
	fds := make([]int, 0, len(p.Rulesets))
	defer func() { closeAll(fds) }()
	for i := range p.Rulesets {
		fd, err := p.Rulesets[i].build(&o)
		if err != nil {
			return err
		}
		fds = append(fds, fd)
	}
	for _, fd := range fds {
		if err := ll.LandlockRestrictSelf(fd, logFlags(p.ABI)); err != nil {
			return fmt.Errorf("landlock_restrict_self: %w", err)
		}
	}
	return nil
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
	if fd, err = ll.LandlockCreateRuleset(&attr, 0); err != nil {
		return -1, fmt.Errorf("landlock_create_ruleset: %w", err)
	}
	for i := range r.Grants {
		if err := r.Grants[i].add(fd, o); err != nil {
			_ = unix.Close(fd)
			return -1, err
		}
	}
	for _, p := range r.Ports {
		if err := ll.LandlockAddNetPortRule(fd, &ll.NetPortAttr{AllowedAccess: p.Access, Port: uint64(p.Number)}, 0); err != nil {
			_ = unix.Close(fd)
			return -1, fmt.Errorf("landlock_add_rule for port %d: %w", p.Number, err)
		}
	}
	return fd, nil
}

func (g *Grant) add(ruleset int, o *opened) error {
	f, err := o.open(g.Path)
	if g.Optional && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return g.fail(err)
	}
	access := g.Access
	if !f.dir {
		access &= onFiles
	}
	if access == 0 {
		return nil
	}
	if err := ll.LandlockAddPathBeneathRule(ruleset, &ll.PathBeneathAttr{AllowedAccess: access, ParentFd: f.fd}, 0); err != nil {
		return g.fail(&fs.PathError{Op: "landlock_add_rule", Path: g.Path, Err: err})
	}
	return nil
}

func (g *Grant) fail(err error) error {
	if g.Rule == nil {
		return err
	}
	return fmt.Errorf("%s: %s: %w", g.Rule.Place, g.Rule.ID, err)
}

// opened are the files that grants are made on, each opened once.
type opened struct{ files map[string]file }

type file struct {
	fd  int
	dir bool
}

// open opens what is at a canonical path, without any right to it. A symlink anywhere in the path is an error: somebody
// has changed the path since the policy was compiled.
func (o *opened) open(path string) (file, error) {
	if f, ok := o.files[path]; ok {
		return f, nil
	}
	fd, err := openCanonical(path)
	if err != nil {
		return file{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return file{}, &fs.PathError{Op: "fstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		_ = unix.Close(fd)
		return file{}, &fs.PathError{Op: "open", Path: path, Err: errMoved}
	}
	f := file{fd, st.Mode&unix.S_IFMT == unix.S_IFDIR}
	if o.files == nil {
		o.files = map[string]file{}
	}
	o.files[path] = f
	return f, nil
}

func (o *opened) close() {
	for _, f := range o.files {
		_ = unix.Close(f.fd)
	}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

var errMoved = errors.New("a symlink has come into the path since the policy was compiled")

// openCanonical uses openat2(2), which is older than Landlock; an outer filter may still hide it, so that the path is
// compared with what the kernel says was opened.
func openCanonical(path string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
			continue
		case err == unix.ELOOP:
			return -1, &fs.PathError{Op: "open", Path: path, Err: errMoved}
		case err == unix.ENOSYS || err == unix.EPERM:
			return openCompared(path)
		case err != nil:
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		return fd, nil
	}
}

func openCompared(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	got, err := os.Readlink(fmt.Sprintf("/proc/thread-self/fd/%d", fd))
	if err == nil && got != path {
		err = errMoved
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}
