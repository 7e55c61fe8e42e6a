package seccomp

import (
	"golang.org/x/sys/unix"
)

// answer is the expected result of a call: 0 is success, killed is the process's end, anything else the error.
type answer = unix.Errno

const killed_ = answer(1 << 16)

// expectation is the effect of a policy, written by hand for each policy of the test.
type expectation struct {
	abi                    int
	fs, exec, namespaces   bool
	strict                 bool
	sealed                 bool   // the machine seals memory files
	decidedElsewhere       bool   // another mechanism decides about addresses and ports
	net                    string // "open", "nothing", or some of "t" (TCP), "u" (UDP), "l" (listen)
	allow, deny            []uint32
	file_setattr, file_get bool // a call newer than the tables passes
	noRings                bool // io_uring stays denied although it is allowed
}

func (s expectation) has(what string) bool {
	for _, c := range s.net {
		if s.net != "open" && s.net != "nothing" && string(c) == what {
			return true
		}
	}
	return s.net == "open"
}

// model is the specification as a plain function of one call.
func (s expectation) model(arch, nr uint32, a [6]uint64) answer {
	switch {
	case arch != nativeArch:
		return killed_
	case nr == 0xffffffff:
		return unix.ENOSYS
	case nr&0x40000000 != 0:
		return killed_
	case nr == 468 && s.file_get, nr == 469 && s.file_setattr, nr == 471:
		return 0
	case nr > 467:
		return unix.ENOSYS
	}
	if in(nr, s.deny) {
		return unix.EPERM
	}
	if e := s.conditional(nr, a); e != 0 {
		return e
	}
	if in(nr, s.allow) {
		return 0
	}
	if s.abi < FullMediation && in(nr, modelNoXattr) {
		return unix.EOPNOTSUPP
	}
	if in(nr, modelENOSYS) {
		return unix.ENOSYS
	}
	if in(nr, modelEPERM) || s.strict && in(nr, modelStrict) {
		return unix.EPERM
	}
	return 0
}

func in(nr uint32, set []uint32) bool {
	for _, n := range set {
		if n == nr {
			return true
		}
	}
	return false
}

const namespaceBits = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
	unix.CLONE_NEWPID | unix.CLONE_NEWNET

func (s expectation) conditional(nr uint32, a [6]uint64) answer {
	switch nr {
	case unix.SYS_IOCTL:
		if cmd := uint32(a[1]); cmd == 0x5412 || cmd == 0x541c {
			return unix.EPERM
		}
	case unix.SYS_FCNTL:
		if cmd := uint32(a[1]); cmd == 1024 || cmd == 1040 {
			return unix.EACCES
		}
	case unix.SYS_CHMOD, unix.SYS_FCHMOD:
		if a[1]&0o6000 != 0 {
			return unix.EPERM
		}
	case unix.SYS_FCHMODAT, 452: // fchmodat2
		if a[2]&0o6000 != 0 {
			return unix.EPERM
		}
	case unix.SYS_CLONE:
		if !s.namespaces && uint32(a[0])&namespaceBits != 0 {
			return unix.EPERM
		}
	case unix.SYS_UNSHARE:
		harmless := uint64(unix.CLONE_FILES | unix.CLONE_FS | unix.CLONE_SYSVSEM | unix.CLONE_THREAD | unix.CLONE_SIGHAND | unix.CLONE_VM)
		if !s.namespaces && a[0]|harmless != harmless {
			return unix.EPERM
		}
	case unix.SYS_SETNS:
		if !s.namespaces {
			return unix.EPERM
		}
	case unix.SYS_PRLIMIT64:
		if a[0] != 0 && a[2] != 0 {
			return unix.EPERM
		}
	case unix.SYS_SETPRIORITY:
		if a[0] != 0 || a[1] != 0 {
			return unix.EPERM
		}
	case unix.SYS_IOPRIO_SET:
		if a[0] != 1 || a[1] != 0 {
			return unix.EPERM
		}
	case unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR:
		if a[0] != 0 {
			return unix.EPERM
		}
	case unix.SYS_MEMFD_CREATE:
		if flags := uint32(a[1]); s.exec && s.abi < FullMediation && (!s.sealed && flags&8 == 0 || s.sealed && flags&16 != 0) {
			return unix.EACCES
		}
	case unix.SYS_PTRACE:
		if s.strict && a[0] != 0 && a[0] != 7 && a[0] != 17 {
			return unix.EPERM
		}
	case unix.SYS_SOCKET:
		return s.socket(a[0], uint32(a[1])&0xf, a[2])
	case unix.SYS_SOCKETPAIR:
		if typ := uint32(a[1]) & 0xf; a[0] != 1 || s.noUnix() && typ != 1 && typ != 5 && typ&2 != 0 {
			return unix.EACCES
		}
	}
	if e := s.ports(nr, a); e != 0 {
		return e
	}
	return s.truncation(nr, a)
}

// unlogged reports whether a denied call leaves no record.
func (s expectation) unlogged(nr uint32, a [6]uint64) bool {
	return nr == unix.SYS_CLONE3 || nr == unix.SYS_OPENAT2 || nr == unix.SYS_SOCKET && s.noUnix() && a == [6]uint64{1, 0x80801, 0, a[3], a[4], a[5]}
}

func (s expectation) noUnix() bool { return s.fs && s.abi < 9 || s.net != "open" && s.abi < 6 }

func (s expectation) socket(family uint64, typ uint32, protocol uint64) answer {
	ok := false
	switch family {
	case 16: // netlink: the routing part only
		ok = protocol == 0
	case 1: // unix
		ok = !s.noUnix() && (typ == 0 || typ == 1 || typ == 2 || typ == 4 || typ == 5 || typ == 6)
	case 2, 10:
		switch {
		case s.net == "open":
			ok = (typ == 0 || typ == 1 || typ == 2) &&
				(protocol == 0 || protocol == 1 || protocol == 6 || protocol == 17 || protocol == 58 || protocol == 262)
		case typ == 1:
			ok = (s.has("t") || s.has("l")) && (protocol == 0 || protocol == 6 || protocol == 17 && s.has("u"))
		case typ == 2:
			ok = s.has("u") && (protocol == 0 || protocol == 17 || protocol == 6 && (s.has("t") || s.has("l")))
		case typ == 0: // no such type: the kernel returns an error
			ok = s.net != "nothing" && (protocol == 0 || protocol == 6 && (s.has("t") || s.has("l")) || protocol == 17 && s.has("u"))
		}
	}
	if ok {
		return 0
	}
	return unix.EACCES
}

// ports models what complements Landlock's port rules: no groups, no foreign addresses, no fast open, and no listening where none
// is granted.
func (s expectation) ports(nr uint32, a [6]uint64) answer {
	if s.net == "open" || s.net == "nothing" {
		return 0
	}
	if nr == unix.SYS_SETSOCKOPT {
		switch level, option := uint32(a[1]), uint32(a[2]); {
		case level == 0 && (option == 35 || option == 39), level == 41 && (option == 20 || option == 27),
			(level == 0 || level == 41) && (option == 42 || option == 46),
			level == 0 && (option == 15 || option == 19), level == 41 && (option == 78 || option == 75):
			return unix.EACCES
		}
	}
	flags := map[uint32]uint64{unix.SYS_SENDTO: a[3], unix.SYS_SENDMSG: a[2], unix.SYS_SENDMMSG: a[3]}[nr]
	if uint32(flags)&0x20000000 != 0 && !s.decidedElsewhere || nr == unix.SYS_LISTEN && !s.has("l") {
		return unix.EACCES
	}
	return 0
}

func (s expectation) truncation(nr uint32, a [6]uint64) answer {
	if !s.fs || s.abi >= FullMediation {
		return 0
	}
	if e := legacyOpen(nr, a); e != 0 {
		return e
	}
	switch nr {
	case unix.SYS_TRUNCATE:
		if s.abi < 3 {
			return unix.EACCES
		}
	case unix.SYS_OPENAT2:
		return unix.ENOSYS
	case unix.SYS_OPENAT:
		return truncates(a[2])
	}
	return 0
}

// truncates models truncation by opening other than for writing.
func truncates(flags uint64) answer {
	if mode := flags & 3; flags&unix.O_TRUNC != 0 && mode != unix.O_WRONLY && mode != unix.O_RDWR {
		return unix.EACCES
	}
	return 0
}
