package seccomp

import (
	lib "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// routine makes the filter that keeps out of the record what nearly every program does and takes no for an answer: records of
// it would bury those that tell something. It refuses nothing that the other filters don't refuse. The kernel
// asks the youngest filter first, and of equal answers the first counts, with its log flag (seccomp_run_filters), so it
// must be loaded last.
//
// It's clone3, and openat2 where it's hidden, which the C library replaces by an older call; and the very socket that the
// C library makes to ask nscd(8) for a user's name: unix, stream, close-on-exec, non-blocking. A program that makes
// another socket of exactly that kind is refused without a record too.
func routine(rules []refusal) (Filter, error) {
	var groups []lib.SyscallGroup
	var socket *lib.SyscallGroup
	for _, r := range rules {
		switch {
		case r.when == nil && (r.name == "clone3" || r.name == "openat2"):
			groups = append(groups, lib.SyscallGroup{Names: []string{r.name}, Action: action(r.errno)})
		case r.name == "socket" && r.quiet:
			nscd := all{is(0, unix.AF_UNIX), is(1, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK), is(2, 0)}
			socket = &lib.SyscallGroup{Action: action(r.errno), NamesWithCondtions: []lib.NameWithConditions{
				{Name: r.name, Conditions: lib.ArgumentConditions(nscd)},
			}}
		}
	}
	if socket != nil {
		groups = append(groups, *socket) // the one with conditions is the last
	}
	f, err := assemble(groups...)
	f.Silent = true
	return f, err
}
