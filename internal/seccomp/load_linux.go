package seccomp

import "golang.org/x/sys/unix"

// Args are the arguments of the seccomp(2) that stacks a filter on the calling thread, which must carry no_new_privs; prog, to
// which the third is to point, is the last. What the thread starts afterwards inherits the filter, and nothing takes it off again.
//
// There is no TSYNC among the flags: with it the kernel reports a failure as a positive number, which looks like success. The
// log flag makes refusals known to the audit system (Linux 4.14).
func (f Filter) Args() (operation, flags uintptr, prog *unix.SockFprog) {
	flags = unix.SECCOMP_FILTER_FLAG_LOG
	if f.Silent {
		flags = 0
	}
	return unix.SECCOMP_SET_MODE_FILTER, flags, &unix.SockFprog{Len: uint16(len(f.Program)), Filter: &f.Program[0]}
}
