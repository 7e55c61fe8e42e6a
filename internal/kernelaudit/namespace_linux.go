package kernelaudit

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// first is the network namespace of the kernel's own threads, of which process 2 is the first: records are sent there alone
// (kauditd_send_multicast_skb, kernel/audit.c).
const first = "/proc/2/ns/net"

// Permitted says beforehand what certainly keeps this process from hearing anything: the capability to read records is missing, or it's in
// another network namespace than the kernel's own threads, of which process 2 is the first. It's nil where only Open or Prove can determine it.
func Permitted() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) == nil && data[unix.CAP_AUDIT_READ/32].Effective&(1<<(unix.CAP_AUDIT_READ%32)) == 0 {
		return fmt.Errorf("%w: %w", ErrUnavailable, explain(unix.EPERM, "CAP_AUDIT_READ"))
	}
	if elsewhere() {
		return fmt.Errorf("%w: they're sent in the first network namespace alone, and this is another one", ErrUnavailable)
	}
	return nil
}

// elsewhere reports whether this thread is known to be in another network namespace than the first.
func elsewhere() bool {
	there, err := os.Readlink(first)
	here, err2 := os.Readlink("/proc/thread-self/ns/net")
	return err == nil && err2 == nil && here != there
}

// OpenFirst is Open in the first network namespace, wherever this process is. It takes CAP_SYS_ADMIN and CAP_SYS_PTRACE where it's in another
// one, as toolguardd is.
func OpenFirst() (r *Reader, err error) {
	if !elsewhere() {
		return Open()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with this function
		if unix.Gettid() == os.Getpid() {
			r, err = OpenFirst() // on another thread: the first one doesn't end
			runtime.UnlockOSThread()
		} else if err = enter(first); err == nil {
			r, err = Open()
		} else {
			err = fmt.Errorf("%w: enter the first network namespace: %w", ErrUnavailable, err)
		}
	}()
	<-done
	return r, err
}

// enter puts this thread into a network namespace.
func enter(path string) error {
	place, err := os.Open(path)
	if err != nil {
		return err
	}
	defer place.Close()
	return os.NewSyscallError("setns", unix.Setns(int(place.Fd()), unix.CLONE_NEWNET))
}
