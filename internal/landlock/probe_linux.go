package landlock

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// ErrUnsupported is what errors are about a kernel that has no Landlock to use; its text says what is needed.
var ErrUnsupported = errors.New("this kernel has no Landlock in use")

// Probe asks the kernel which Landlock ABI it has, and which of Landlock's own mistakes are corrected in it (errata; 0 where the
// kernel can't tell).
func Probe() (abi, errata int, err error) {
	abi, err = ll.LandlockGetABIVersion()
	switch {
	case errors.Is(err, unix.ENOSYS):
		return 0, 0, fmt.Errorf("%w: it takes Linux 5.13 or newer, built with CONFIG_SECURITY_LANDLOCK", ErrUnsupported)
	case errors.Is(err, unix.EOPNOTSUPP):
		return 0, 0, fmt.Errorf("%w: it is off; add landlock to the lsm= list on the kernel's command line", ErrUnsupported)
	case err != nil:
		return 0, 0, fmt.Errorf("ask for the Landlock ABI: %w", err)
	case abi < 1:
		return 0, 0, fmt.Errorf("%w: the kernel says ABI %d", ErrUnsupported, abi)
	}
	errata, _ = ll.LandlockGetErrata() // negative where the kernel doesn't know
	return abi, max(errata, 0), nil
}

// Audited is nil where the kernel writes audit records of what Landlock denies (ABI 7, Linux 6.15).
func Audited() error {
	abi, _, err := Probe()
	if err == nil && abi < 7 {
		err = fmt.Errorf("this kernel doesn't report what Landlock denies: it takes Linux 6.15 or newer (ABI 7), and this one has ABI %d", abi)
	}
	return err
}

// Canary proves on a throw-away thread that Landlock denies here and now: a folder that could be opened can't any more, once a
// ruleset without grants is in force. The denial isn't logged.
func Canary() error {
	abi, _, err := Probe()
	if err != nil {
		return err
	}
	return throwAway(func() error { return sing(abi) })
}

// throwAway runs f on a thread that ends afterwards. The process's first thread can't end, and what /proc says of the
// process is what it says of that one, so it's kept busy while another is found.
func throwAway(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine
		if unix.Gettid() != unix.Getpid() {
			result <- f()
			return
		}
		result <- throwAway(f)
		runtime.UnlockOSThread()
	}()
	return <-result
}

func sing(abi int) error {
	dir, err := openable()
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	fd, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{HandledAccessFS: handled(min(abi, newest))}, 0)
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
		return fmt.Errorf("a folder that no rule grants was refused in an unexpected way: %w", err)
	}
	return nil
}

// openable is a folder that can be opened now: inside another session not every one can. The first is one that hardly any session is
// without, since whoever is told what happens there is told of each that can't.
func openable() (string, error) {
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
