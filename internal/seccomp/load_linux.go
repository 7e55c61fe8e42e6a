package seccomp

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Load stacks the filters on the calling OS thread, which must be locked to its goroutine and carry no_new_privs; what
// it starts afterwards inherits them. Nothing takes them off again. Other threads aren't touched.
//
// The thread itself is filtered from then on: it can't change another process's limits or mount anything.
func Load(filters []Filter) error {
	if len(filters) == 0 {
		return errors.New("no system call filters to load")
	}
	nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || nnp != 1 {
		return fmt.Errorf("the thread must have no_new_privs before system call filters are loaded (prctl: %d, %v)", nnp, err)
	}
	for i, f := range filters {
		if err := load(f); err != nil {
			return fmt.Errorf("load system call filter %d of %d: %w", i+1, len(filters), err)
		}
	}
	return nil
}

// load is seccomp(2) without TSYNC: with it the kernel reports a failure as a positive number, which looks like success. The
// log flag makes refusals known to the audit system (Linux 4.14).
func load(f Filter) error {
	if len(f.Program) == 0 || len(f.Program) > 4096 { // BPF_MAXINSNS
		return fmt.Errorf("%d instructions", len(f.Program))
	}
	prog := unix.SockFprog{Len: uint16(len(f.Program)), Filter: &f.Program[0]}
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_LOG)
	if f.Silent {
		flags = 0
	}
	r, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags,
		uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return e
	}
	if r != 0 {
		return fmt.Errorf("seccomp returned %d", r)
	}
	return nil
}
