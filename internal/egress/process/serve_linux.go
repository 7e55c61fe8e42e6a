package process

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/allowlist"
	"github.com/toolguard/toolguard/internal/egress"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/egress/ownaddr"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
)

// Serve runs egress. The descriptor is a socket to toolguard; Serve returns when toolguard closes it.
func Serve(fd int) error {
	toolguard := os.NewFile(uintptr(fd), "toolguard")
	r := newReporter(toolguard)
	err := serve(json.NewDecoder(toolguard), r)
	if err != nil {
		_ = r.send(&message.Message{Error: err.Error()})
	}
	return err
}

func serve(toolguard *json.Decoder, r *reporter) error {
	o, err := receive(toolguard)
	if err != nil {
		return err
	}
	if intercepts(o) { // the system's authorities can't be read after confine
		if _, err := x509.SystemCertPool(); err != nil {
			return err
		}
	}
	own, err := ownaddr.List() // confine forbids new netlink sockets
	if err != nil {
		return err
	}
	if err := confine(); err != nil {
		return err
	}
	return serveBy(toolguard, r, o, &egress.Server{Kernel: cgroupsock.NewKernel(o.Originals, o.Names), IsOwn: own.Has})
}

// confine removes everything that egress doesn't need from this process: the terminal, root, files, other programs and processes.
func confine() error {
	_, _ = unix.Setsid() // fails if it leads a session already
	allowFiles()
	steps := []struct {
		doing string
		do    func() error
	}{
		{"set no_new_privs", func() error { return onAllThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0) }},
		{"leave all groups", func() error { return syscall.Setgroups(nil) }},
		{"change the group", func() error { return syscall.Setresgid(message.UserID, message.UserID, message.UserID) }},
		{"change the user", func() error { return syscall.Setresuid(message.UserID, message.UserID, message.UserID) }},
		{"end with toolguard", func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) }},
		{"limit the memory", limitMemory},
		{"deny all files", denyFiles},
		{"deny most system calls", func() error { return allowlist.Load(allowlist.Egress) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.doing, err)
		}
	}
	return nil
}

// maxFiles is enough for all connections of a session, and as many to servers.
const maxFiles = 40000

// allowFiles raises the inherited limit of open files. If it can't, egress denies connections above the limit.
func allowFiles() {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) == nil && l.Cur < maxFiles {
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: maxFiles, Max: max(l.Max, maxFiles)})
	}
}

// limitMemory prevents a session from making egress use all memory. Above half of the limit Go collects garbage more often.
func limitMemory() error {
	debug.SetMemoryLimit(maxMemory / 2)
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: maxMemory, Max: maxMemory})
}

// onAllThreads makes a system call on each thread.
func onAllThreads(nr, a, b, c uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall6(nr, a, b, c, 0, 0, 0)
	switch errno {
	case 0:
		return nil
	case unix.ENOTSUP:
		return errors.New("toolguardd was built with cgo, which starts threads that can't be restricted: build it with CGO_ENABLED=0")
	}
	return errno
}

// networkOnly is a policy that grants nothing except the network.
func networkOnly() *policy.Compiled {
	l := &policy.Layer{Authority: policy.Session}
	l.Defaults[policy.FS], l.Defaults[policy.Commands] = policy.Deny, policy.Deny
	return &policy.Compiled{Workspace: "/", Layers: []*policy.Layer{l}}
}

// denyFiles denies all files by Landlock. Without Landlock, only file permissions restrict the process.
func denyFiles() error {
	abi, _, err := landlock.Probe()
	switch {
	case errors.Is(err, landlock.ErrUnsupported):
		return nil
	case err != nil:
		return err
	}
	plan, err := landlock.NewPlan(networkOnly(), abi)
	if err != nil {
		return err
	}
	defer plan.Close()
	err = plan.ApplyTo(func(ruleset int, flags uint32) error {
		return onAllThreads(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), uintptr(flags), 0)
	})
	if err != nil {
		return err
	}
	if _, err := os.ReadDir("/"); !errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("reading / isn't denied by Landlock: %v", err)
	}
	return nil
}
