package landlock

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// ErrUnsupported is wrapped by errors for a kernel without usable Landlock. The message names the requirement.
var ErrUnsupported = errors.New("this kernel has no Landlock in use")

// Probe returns the kernel's Landlock ABI and the errata that are fixed in it (0 if the kernel doesn't report them).
func Probe() (abi, errata int, err error) {
	abi, err = ll.LandlockGetABIVersion()
	switch {
	case errors.Is(err, unix.ENOSYS):
		return 0, 0, fmt.Errorf("%w: it takes Linux 5.13 or newer, built with CONFIG_SECURITY_LANDLOCK", ErrUnsupported)
	case errors.Is(err, unix.EOPNOTSUPP):
		return 0, 0, fmt.Errorf("%w: it is off; add landlock to the lsm= list on the kernel's command line", ErrUnsupported)
	case err != nil:
		return 0, 0, fmt.Errorf("get the Landlock ABI: %w", err)
	case abi < 1:
		return 0, 0, fmt.Errorf("%w: the kernel reports ABI %d", ErrUnsupported, abi)
	}
	errata, _ = ll.LandlockGetErrata() // negative if the kernel doesn't report them
	return abi, max(errata, 0), nil
}

// Audited returns nil if the kernel writes audit records of Landlock's denials (ABI 7, Linux 6.15).
func Audited() error {
	abi, _, err := Probe()
	if err == nil && abi < 7 {
		err = fmt.Errorf("this kernel doesn't report what Landlock denies: it takes Linux 6.15 or newer (ABI 7), and this one has ABI %d", abi)
	}
	return err
}

// Canary checks on a temporary thread that Landlock denies: a folder that can be opened can't be opened any more once a ruleset without grants
// is enforced. The denial isn't logged.
func Canary() error {
	abi, _, err := Probe()
	if err != nil {
		return err
	}
	return onTemporaryThread(func() error { return runCanary(abi) })
}

// onTemporaryThread runs f on a thread that ends afterwards. That can't be the process's first thread, which doesn't end and whose status is the
// process's in /proc: it is blocked while the runtime uses another one.
func onTemporaryThread(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			result <- f()
			return
		}
		result <- onTemporaryThread(f)
		runtime.UnlockOSThread()
	}()
	return <-result
}

func runCanary(abi int) error {
	dir, err := openableFolder()
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	fd, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{HandledAccessFS: handledFS(min(abi, newestABI))}, 0)
	if err != nil {
		return os.NewSyscallError("landlock_create_ruleset", err)
	}
	defer unix.Close(fd)
	var flags uint32
	if abi >= 7 {
		flags = ll.FlagRestrictSelfLogSameExecOff | ll.FlagRestrictSelfLogSubdomainsOff
	}
	if err := ll.LandlockRestrictSelf(fd, flags); err != nil {
		return os.NewSyscallError("landlock_restrict_self", err)
	}
	switch err := tryOpen(dir); {
	case err == nil:
		return errors.New("a folder could be opened that no rule grants")
	case !errors.Is(err, unix.EACCES):
		return fmt.Errorf("opening a folder that no rule grants failed with an unexpected error: %w", err)
	}
	return nil
}

// openableFolder returns a folder that can be opened now. Within another session some can't, and each failure is a denial event there, so the
// first one is granted to most sessions.
func openableFolder() (string, error) {
	for _, dir := range []string{"/usr", ".", os.TempDir(), "/"} {
		if tryOpen(dir) == nil {
			return dir, nil
		}
	}
	return "", errors.New("there is no folder to try it on: none of /usr, the current one, the TMPDIR and / can be opened")
}

func tryOpen(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
