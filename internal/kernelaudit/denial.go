package kernelaudit

import (
	"net"
	"strings"
	"syscall"
	"time"
)

// Source is the mechanism that denied.
type Source string

// The sources.
const (
	Landlock Source = "landlock"
	Seccomp  Source = "seccomp"
)

// Denial is one denial. Fields that the kernel didn't report are zero, and NoSession in Session.
type Denial struct {
	Time   time.Time
	Serial uint64 // the kernel's; records of one system call share it
	Source Source

	PID, PPID int // in the initial pid namespace
	UID       int // -1: unknown
	Session   uint32
	Exe, Comm string

	Call  Call
	Errno syscall.Errno // as the system call returned it; 0: unknown, as always with seccomp

	// Landlock only.
	Domain   uint64   // that denied
	Nested   bool     // a confined program created the domain for itself
	Moot     bool     // the call continued without the denied right
	Blockers []string // the denied rights or scopes: "fs.read_file", "net.connect_tcp", …
	Path     string   // the object; for an operation on a name the directory. Abstract sockets begin with a NUL
	Device   string
	Inode    uint64
	Local    string // host:port, for a bind
	Remote   string // host:port, for a connect
	PeerPID  int    // of a signal or a trace
	PeerComm string

	// Seccomp only.
	Signal int    // the signal that killed the process; 0: the call only failed
	Action uint32 // SECCOMP_RET_…; the kernel doesn't report the errno
}

// Call is a system call. Known is false if there was no record of it.
type Call struct {
	Arch   uint32 // AUDIT_ARCH_…
	Number int
	Known  bool
}

// NoSession means no audit session.
const NoSession = uint32(unset)

// decodeAccess reads a LANDLOCK_ACCESS record.
func decodeAccess(r *record) (*Denial, error) {
	d := decoder{r: r}
	d.need("domain")
	d.need("blockers")
	blockers, _ := r.get("blockers")
	n := &Denial{
		Time: r.time, Serial: r.serial, Source: Landlock, Session: NoSession, UID: -1,
		Domain:   uint64(d.number("domain", 16, 0)),
		Blockers: strings.Split(blockers, ","),
		Path:     d.text("path"),
		Device:   d.text("dev"),
		Inode:    uint64(d.number("ino", 10, 0)),
		Local:    endpoint(r, "saddr", "src"),
		Remote:   endpoint(r, "daddr", "dest"),
		PeerPID:  int(d.number("opid", 10, 0)),
		PeerComm: d.text("ocomm"),
	}
	if n.Path == "<too_long>" || n.Path == "<no_memory>" { // a real path begins with "/"
		n.Path = ""
	}
	return n, d.err
}

// endpoint joins an address and a port; either may be missing.
func endpoint(r *record, addr, port string) string {
	a, hasAddr := r.get(addr)
	p, hasPort := r.get(port)
	if !hasAddr && !hasPort {
		return ""
	}
	return net.JoinHostPort(strings.Trim(a, "[]"), p)
}

// decodeSeccomp reads a SECCOMP record.
func decodeSeccomp(r *record) (*Denial, error) {
	d := decoder{r: r}
	for _, k := range []string{"ses", "pid", "syscall", "arch", "code"} {
		d.need(k)
	}
	n := &Denial{
		Time: r.time, Serial: r.serial, Source: Seccomp,
		PID:     int(d.number("pid", 10, 0)),
		UID:     int(d.number("uid", 10, -1)),
		Session: uint32(d.number("ses", 10, unset)),
		Exe:     d.text("exe"),
		Comm:    d.text("comm"),
		Call:    Call{Arch: uint32(d.number("arch", 16, 0)), Number: int(d.number("syscall", 10, 0)), Known: true},
		Signal:  int(d.number("sig", 10, 0)),
		Action:  uint32(d.number("code", 0, 0)), // Linux logs the action without its data: no errno
	}
	return n, d.err
}

// caller has the fields of a SYSCALL record.
type caller struct {
	pid, ppid, uid int
	session        uint32
	exe, comm      string
	call           Call
	errno          syscall.Errno
	returned       bool // and how is known: errno is 0 where the call did what it was asked for
}

// decodeSyscall reads a SYSCALL record.
func decodeSyscall(r *record) (*caller, error) {
	d := decoder{r: r}
	for _, k := range []string{"ses", "pid", "syscall", "arch"} {
		d.need(k)
	}
	c := &caller{
		pid: int(d.number("pid", 10, 0)), ppid: int(d.number("ppid", 10, 0)), uid: int(d.number("uid", 10, -1)),
		session: uint32(d.number("ses", 10, unset)),
		exe:     d.text("exe"), comm: d.text("comm"),
		call: Call{Arch: uint32(d.number("arch", 16, 0)), Number: int(d.number("syscall", 10, 0)), Known: true},
	}
	if exit := d.number("exit", 10, 0); exit < 0 && exit > -4096 {
		c.errno = syscall.Errno(-exit)
	}
	_, c.returned = r.get("exit")
	return c, d.err
}

// describe sets the fields of a denial that identify the process and the call.
func (c *caller) describe(d *Denial) {
	d.PID, d.PPID, d.UID, d.Session = c.pid, c.ppid, c.uid, c.session
	d.Exe, d.Comm, d.Call, d.Errno = c.exe, c.comm, c.call, c.errno
}

// domain is a LANDLOCK_DOMAIN record.
type domain struct {
	id      uint64
	ended   bool
	pid     int // the process that created it, with its user and name then; only if not ended
	uid     int
	comm    string
	denials uint64 // in all; only if ended
}

func decodeDomain(r *record) (domain, error) {
	d := decoder{r: r}
	d.need("domain")
	d.need("status")
	status, _ := r.get("status")
	out := domain{
		id:    uint64(d.number("domain", 16, 0)),
		ended: status == "deallocated",
		pid:   int(d.number("pid", 10, 0)), uid: int(d.number("uid", 10, -1)), comm: d.text("comm"),
		denials: uint64(d.number("denials", 10, 0)),
	}
	return out, d.err
}
