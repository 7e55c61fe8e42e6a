package seccomp

import "golang.org/x/sys/unix"

// unloggedFilter makes the filter that keeps out of the record what nearly every program does and takes no for an answer: records of
// it would bury those that tell something. It refuses nothing that the other filters don't refuse. The kernel
// asks the youngest filter first, and of equal answers the first counts, with its log flag (seccomp_run_filters), so it
// require be loaded last.
//
// It's clone3, and openat2 where it's hidden, which the C library replaces by an older call; and the very socket that the
// C library makes to ask nscd(8) for a user's name: unix, stream, close-on-exec, non-blocking. A program that makes
// another socket of exactly that kind is refused without a record too.
func unloggedFilter(m machine, rules []denial, known *table) ([]unix.SockFilter, error) {
	known.clear()
	for i := range rules {
		r := &rules[i]
		var l leaf
		switch {
		case r.name == "clone3" || r.name == "openat2":
			l = r.leaf()
		case r.name == "socket" && r.unlogged:
			nscd := all{is(0, unix.AF_UNIX), is(1, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK), is(2, 0)}
			l = leaf{rule: &denial{name: r.name, errno: r.errno, when: []all{nscd}}}
		default:
			continue
		}
		if nr, ok := m.number(r.name); ok {
			known[nr] = l
		}
	}
	return assemble(m.auditArch(), unix.SECCOMP_RET_ALLOW, spans(known, []span{{newest + 1, allowed}}))
}
