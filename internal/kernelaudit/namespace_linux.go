package kernelaudit

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// firstNetNamespace is the network namespace of the kernel's threads, of which process 2 is the first. Records are sent only there
// (kauditd_send_multicast_skb, kernel/audit.c).
const firstNetNamespace = "/proc/2/ns/net"

// Permitted returns an error if this process certainly can't receive records: it lacks the capability to read them, or it isn't in the first
// network namespace. It returns nil where only Open or Prove can determine it.
func Permitted() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) == nil && data[unix.CAP_AUDIT_READ/32].Effective&(1<<(unix.CAP_AUDIT_READ%32)) == 0 {
		return fmt.Errorf("%w: %w", ErrUnavailable, explain(unix.EPERM, "CAP_AUDIT_READ"))
	}
	if inOtherNetNamespace() {
		return fmt.Errorf("%w: they're sent only in the first network namespace, and this is another one", ErrUnavailable)
	}
	return nil
}

// inOtherNetNamespace reports whether this thread is known to be in another network namespace than the first.
func inOtherNetNamespace() bool {
	kernels, err := os.Readlink(firstNetNamespace)
	own, err2 := os.Readlink("/proc/thread-self/ns/net")
	return err == nil && err2 == nil && own != kernels
}

// OpenFirst is Open in the first network namespace. A process in another one, such as toolguardd, needs CAP_SYS_ADMIN and CAP_SYS_PTRACE.
func OpenFirst() (r *Reader, err error) {
	if !inOtherNetNamespace() {
		return Open()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with this function
		if unix.Gettid() == os.Getpid() {
			r, err = OpenFirst() // on another thread: the first one doesn't end
			runtime.UnlockOSThread()
		} else if err = enterNetNamespace(firstNetNamespace); err == nil {
			r, err = Open()
		} else {
			err = fmt.Errorf("%w: enter the first network namespace: %w", ErrUnavailable, err)
		}
	}()
	<-done
	return r, err
}

// enterNetNamespace moves this thread to a network namespace.
func enterNetNamespace(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return os.NewSyscallError("setns", unix.Setns(int(file.Fd()), unix.CLONE_NEWNET))
}
