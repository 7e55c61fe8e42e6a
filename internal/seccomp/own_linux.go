package seccomp

import (
	"os"

	"golang.org/x/sys/unix"
)

// OwnProgram is one of toolguard's own programs, with what it needs apart from sockets of the internet and of the routing part of netlink.
type OwnProgram struct {
	Unix           bool // unix sockets
	Diag           bool // NETLINK_SOCK_DIAG
	Audit          bool // NETLINK_AUDIT
	OtherProcesses bool // signals and limits of other processes
}

// Filter makes the filter that complements this process's allow list, which looks at no arguments: it refuses other sockets, namespaces
// made by clone, what no session may do either (setuid files, leases, typing into the terminal), what is said of other processes, and calls
// newer than the tables, and kills foreign ABIs.
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
