package launch

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// dropCapabilities limits the capabilities of this thread's children to those named in keep. It removes the others from the bounding set, from
// which an execve as root would regain them, and empties the inheritable and ambient sets. The thread's effective set stays, because toolguard
// needs it; the command loses it at its execve.
func dropCapabilities(keep []string) error {
	kept, err := capMask(keep)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_CAP_AMBIENT)", err)
	}
	permitted, err := clearInheritable()
	if err != nil {
		return err
	}
	if permitted == 0 && os.Geteuid() != 0 && os.Getuid() != 0 {
		// Without CAP_SETPCAP the bounding set can't be changed. It has no effect: with no_new_privs and without capabilities, an
		// execve by a user other than root adds none.
		return nil
	}
	for c := 0; c <= 63; c++ {
		if kept&(1<<c) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0)
		if err == nil {
			continue
		}
		in, readErr := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if errors.Is(readErr, unix.EINVAL) {
			return nil // beyond the last capability of this kernel
		}
		if readErr == nil && in == 0 {
			continue // an outer session has dropped it
		}
		return fmt.Errorf("drop capability %d from the bounding set: %w", c, err)
	}
	return nil
}

// clearInheritable empties the thread's inheritable set and returns its permitted one.
func clearInheritable() (permitted uint64, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, os.NewSyscallError("capget", err)
	}
	permitted = uint64(data[0].Permitted) | uint64(data[1].Permitted)<<32
	data[0].Inheritable, data[1].Inheritable = 0, 0
	return permitted, os.NewSyscallError("capset", unix.Capset(&header, &data[0]))
}

// capMask returns the bit mask of capability names.
func capMask(names []string) (mask uint64, err error) {
	for _, n := range names {
		i, ok := capNumber(n)
		if !ok {
			return 0, fmt.Errorf("this build doesn't know the capability %q", n)
		}
		mask |= 1 << i
	}
	return mask, nil
}

// capNumber returns the number of a capability: CAP_CHOWN is 0 (in the order of linux/capability.h).
func capNumber(name string) (int, bool) {
	const all = "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE " +
		"NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT " +
		"SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE " +
		"AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ " +
		"PERFMON BPF CHECKPOINT_RESTORE"
	want, ok := strings.CutPrefix(name, "CAP_")
	if !ok {
		return 0, false
	}
	for i, n := range strings.Fields(all) {
		if n == want {
			return i, true
		}
	}
	return 0, false
}
