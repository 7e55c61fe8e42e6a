package seccomp

import "golang.org/x/sys/unix"

// unloggedFilter returns the filter for denied calls that nearly every program makes, with a fallback: records of them would hide
// relevant ones. It denies nothing that the other filter allows. The kernel runs the youngest filter first, and of equal results
// the first counts, with its log flag (seccomp_run_filters), so it must be loaded last.
//
// The calls are clone3, and openat2 where it is denied, for which the C library uses an older call, and the exact socket that the C
// library creates for nscd(8): unix, stream, close-on-exec, non-blocking. Another socket of exactly this kind is denied without a
// record, too.
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
