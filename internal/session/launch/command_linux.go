package launch

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/seccomp"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// Command is all that starting the first process takes, decided beforehand, so that the restricted thread only acts.
type Command struct {
	Path   string
	Argv   []string
	Env    []string
	Keep   []int // descriptors
	Plan   *landlock.Plan
	Name   string // of the thread that makes a domain of the session's, while it does: the kernel records it as the maker's
	Limits map[int]unix.Rlimit
	Cgroup int      // its folder's descriptor; 0: none
	Join   *os.File // where toolguardd waits for the command, to put it into a cgroup; nil: nowhere

	// Done ahead on the thread, which hears of it when it comes to where that is needed.
	dropped  <-chan error // the capabilities are
	filtered <-chan error // the filters are made
	filters  []seccomp.Filter
}

// Prefetch has the thread drop all capabilities but some, and make the filters.
func (c *Command) Prefetch(in *Thread, capabilities []string, filters func() ([]seccomp.Filter, error)) {
	c.dropped = in.ahead(func() error { return dropCapabilities(capabilities) })
	c.filtered = in.ahead(func() (err error) {
		c.filters, err = filters()
		return err
	})
}

// RestrictThread restricts the calling thread, for good.
func (c *Command) RestrictThread() error {
	steps := []struct {
		doing string
		do    func() error
	}{
		{"find a thread for the session", laterThread},
		{"close toolguard's /proc entries", undumpable},
		{"set no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"drop the capabilities", func() error { return <-c.dropped }},
		{"make the system call filters", func() error { return <-c.filtered }},
		{"apply the landlock rules", c.restrict},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return &forkexec.Error{Purpose: s.doing, Err: err}
		}
	}
	return nil
}

func (c *Command) restrict() error {
	if c.Plan == nil {
		return nil
	}
	return withName(c.Name, c.Plan.Apply)
}

// withName runs f while the calling thread has a name: with it the kernel notes down who makes a domain.
func withName(name string, f func() error) error {
	var before [16]byte // TASK_COMM_LEN
	set, err := unix.BytePtrFromString(name)
	if err == nil {
		err = unix.Prctl(unix.PR_GET_NAME, uintptr(unsafe.Pointer(&before)), 0, 0, 0)
	}
	if err == nil {
		err = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(set)), 0, 0, 0)
	}
	if err != nil {
		return os.NewSyscallError("prctl", err)
	}
	return errors.Join(f(), os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&before)), 0, 0, 0)))
}

// Close gives up what has been prepared.
func (c *Command) Close() {
	if c.Plan != nil {
		c.Plan.Close()
	}
	if c.Join != nil {
		_ = c.Join.Close()
	}
}

// laterThread refuses the process's first thread (see forkexec.OnThread).
func laterThread() error {
	if unix.Gettid() == os.Getpid() {
		return errors.New("it's toolguard's first")
	}
	return nil
}

// undumpable makes toolguard's entries in /proc root's, and has the kernel ask for CAP_SYS_PTRACE of whoever would trace
// toolguard. A command that may write in /proc could otherwise have the kernel end toolguard first when memory runs out
// (oom_score_adj), where nothing asks but for the file. Its own process isn't dumpable either until it executes.
func undumpable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// Fork starts the command as a child that is restricted further than this thread, which the command could reach through the
// domain that both would be in.
func (c *Command) Fork() (pid int, err error) {
	calls, err := c.calls()
	if err != nil {
		return 0, &forkexec.Error{Purpose: "prepare the command's restrictions", Err: err}
	}
	child := forkexec.Command{Path: c.Path, Argv: c.Argv, Env: c.Env, Inherit: c.Keep, Cgroup: c.Cgroup, Calls: calls}
	return child.Start()
}

// calls are what the child restricts itself with, the filters last: they may refuse what comes before them.
func (c *Command) calls() ([]forkexec.Call, error) {
	name, err := unix.BytePtrFromString(c.Name)
	if err != nil {
		return nil, err
	}
	calls := []forkexec.Call{
		{
			Purpose: "name the process", Nr: unix.SYS_PRCTL,
			Args: [5]uintptr{unix.PR_SET_NAME}, Pointers: [5]unsafe.Pointer{1: unsafe.Pointer(name)},
		},
	}
	if c.Plan != nil {
		ruleset, flags, err := c.Plan.InnerArgs()
		if err != nil {
			return nil, err
		}
		calls = append(calls, forkexec.Call{
			Purpose: "enter a landlock domain of its own", Nr: unix.SYS_LANDLOCK_RESTRICT_SELF,
			Args: [5]uintptr{uintptr(ruleset), uintptr(flags)},
		})
	}
	if c.Join != nil {
		calls = append(calls, joining(c.Join)...)
	}
	for which, limit := range c.Limits {
		calls = append(calls, forkexec.Call{
			Purpose: "set a limit", Nr: unix.SYS_PRLIMIT64,
			Args: [5]uintptr{0, uintptr(which)}, Pointers: [5]unsafe.Pointer{2: unsafe.Pointer(&limit)},
		})
	}
	for _, f := range c.filters {
		operation, flags, prog := f.Args()
		calls = append(calls, forkexec.Call{
			Purpose: "load a system call filter", Nr: unix.SYS_SECCOMP,
			Args: [5]uintptr{operation, flags}, Pointers: [5]unsafe.Pointer{2: unsafe.Pointer(prog)},
		})
	}
	return calls, nil
}

// Descriptors are those that the command gets, under their own numbers: 0, 1, 2 and those passed on.
func Descriptors(pass []int) ([]int, error) {
	for _, fd := range pass {
		if fd < 3 || fd > 1<<16 {
			return nil, fmt.Errorf("descriptor %d can't be passed on: give a number from 3 to 65536", fd)
		}
		// What toolguard was given has survived an execve; what it opened itself is closed by one, and isn't for the command.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			return nil, fmt.Errorf("descriptor %d can't be passed on: it isn't open", fd)
		}
	}
	return append([]int{0, 1, 2}, pass...), nil
}
