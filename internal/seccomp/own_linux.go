package seccomp

import (
	"os"

	"golang.org/x/sys/unix"
)

// OwnProgram is a program of toolguard, with what it needs besides internet sockets and the routing part of netlink.
type OwnProgram struct {
	Unix           bool // unix sockets
	Diag           bool // NETLINK_SOCK_DIAG
	Audit          bool // NETLINK_AUDIT
	OtherProcesses bool // signals and limits of other processes
}

// Filter returns the filter that complements this process's allow list, which doesn't check arguments. It denies other sockets,
// namespaces by clone, what every session is denied (setuid files, leases, terminal injection), operations on other processes, and
// calls newer than the tables. It kills foreign ABIs.
func (o OwnProgram) Filter() (Filter, error) {
	m, err := native()
	if err != nil {
		return Filter{}, err
	}
	f := requirements{abi: 1, fs: !o.Unix, diag: o.Diag, audit: o.Audit, net: network{stream: true, datagram: true, listen: true}}
	rules := append(setid(), f.socket(), namespaces()[0], ioctl(), lease())
	if !o.OtherProcesses {
		another := []all{{not(0, uint64(os.Getpid()))}}
		rules = append(rules, prlimit(), denial{name: "kill", errno: unix.EPERM, when: another}, denial{name: "tgkill", errno: unix.EPERM, when: another})
	}
	var known table
	known.clear()
	for _, r := range rules {
		if nr, ok := m.number(r.name); ok {
			known[nr] = r.leaf()
		}
	}
	prog, err := assemble(m.auditArch(), unix.SECCOMP_RET_KILL_PROCESS, spans(&known, beyondTable(nil)))
	return Filter{Program: prog}, err
}
