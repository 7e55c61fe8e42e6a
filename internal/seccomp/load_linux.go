package seccomp

import "golang.org/x/sys/unix"

// Args returns the arguments of the seccomp(2) that loads a filter for the calling thread, which must have no_new_privs. The third
// argument is a pointer to prog. The thread's children inherit the filter, which can't be removed.
//
// The flags don't have TSYNC, with which the kernel reports a failure as a positive number, like success. The log flag makes
// denials visible to the audit system (Linux 4.14).
func (f Filter) Args() (operation, flags uintptr, prog *unix.SockFprog) {
	flags = unix.SECCOMP_FILTER_FLAG_LOG
	if f.Silent {
		flags = 0
	}
	return unix.SECCOMP_SET_MODE_FILTER, flags, &unix.SockFprog{Len: uint16(len(f.Program)), Filter: &f.Program[0]}
}
