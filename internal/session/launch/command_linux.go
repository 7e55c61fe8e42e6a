package launch

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/proc"
	"github.com/toolguard/toolguard/internal/seccomp"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// Command has all decisions about the start of the first process, so that the restricted thread only executes them.
type Command struct {
	Path    string
	Argv    []string
	Env     []string
	Keep    []int // the descriptors that stay open
	Plan    *landlock.Plan
	Name    string // the thread's name while it makes a domain of the session: the kernel records it
	Limits  map[int]unix.Rlimit
	Cgroup  int           // the descriptor of its folder; 0: none
	Wrapper *Wrapper      // within which the command starts; nil: none
	Process *proc.Process // the command's own process, once it's started within a wrapper
	Join    *os.File      // the connection on which toolguardd waits for the command, to move it into a cgroup; nil: none

	// Prefetch starts this on the thread. RestrictThread receives the results.
	dropped  <-chan error // dropping the capabilities
	filtered <-chan error // making filters
	filters  []seccomp.Filter

	capabilities []string // that are kept
}

// Prefetch makes the thread drop all capabilities except some, and make the filters.
func (c *Command) Prefetch(in *Thread, capabilities []string, filters func() ([]seccomp.Filter, error)) {
	c.capabilities = capabilities
	c.dropped = in.prefetch(func() error {
		if c.Wrapper != nil {
			return nil
		}
		return dropCapabilities(capabilities)
	})
	c.filtered = in.prefetch(func() (err error) {
		c.filters, err = filters()
		return err
	})
}

// step is one of the steps that restrict a thread or a process.
type step struct {
	purpose string
	do      func() error
}

// RestrictThread restricts the calling thread, permanently. Within a wrapper, the stage restricts itself instead.
func (c *Command) RestrictThread() error {
	if c.Wrapper != nil {
		return runSteps([]step{
			{"find a thread for the session", laterThread},
			{"close toolguard's /proc entries", undumpable},
			{"make the system call filters", func() error { return <-c.filtered }},
		})
	}
	return runSteps([]step{
		{"find a thread for the session", laterThread},
		{"close toolguard's /proc entries", undumpable},
		{"set no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"drop the capabilities", func() error { return <-c.dropped }},
		{"make the system call filters", func() error { return <-c.filtered }},
		{"apply the landlock rules", c.restrict},
	})
}

// runSteps runs the steps up to the first that fails.
func runSteps(steps []step) error {
	for _, s := range steps {
		if err := s.do(); err != nil {
			return &forkexec.Error{Purpose: s.purpose, Err: err}
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

// withName runs f while the calling thread has a name, which the kernel records for the domains that f makes.
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

// Close releases the prepared resources.
func (c *Command) Close() {
	if c.Plan != nil {
		c.Plan.Close()
	}
	if c.Join != nil {
		_ = c.Join.Close()
	}
	if c.Wrapper != nil {
		for _, f := range c.Wrapper.Files {
			_ = f.Close()
		}
	}
}

// laterThread returns an error on the process's first thread (see forkexec.OnThread).
func laterThread() error {
	if unix.Gettid() == os.Getpid() {
		return errors.New("this is the first thread")
	}
	return nil
}

// undumpable makes root the owner of toolguard's entries in /proc, and makes the kernel require CAP_SYS_PTRACE for tracing toolguard. Otherwise a
// command that may write in /proc could make the kernel kill toolguard first when memory runs out (oom_score_adj), for which the kernel checks
// only the permissions of the file. The command's process isn't dumpable either until it executes.
func undumpable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// Fork starts the command as a child in a Landlock domain nested in this thread's. In the thread's own domain, the command could trace the
// thread.
func (c *Command) Fork() (pid int, err error) {
	if c.Wrapper != nil {
		return c.startWrapped()
	}
	calls, err := c.calls()
	if err != nil {
		return 0, &forkexec.Error{Purpose: "prepare the command's restrictions", Err: err}
	}
	child := forkexec.Command{Path: c.Path, Argv: c.Argv, Env: c.Env, Inherit: c.Keep, Cgroup: c.Cgroup, Calls: calls}
	return child.Start()
}

// calls returns the system calls by which the child restricts itself. The filters are last, because they may deny the other calls.
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
		calls = append(calls, joinCgroup(c.Join)...)
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
