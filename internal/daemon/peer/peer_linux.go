package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/toolguard/toolguard/internal/proc"
	"golang.org/x/sys/unix"
)

// Peer is the process that made a connection.
type Peer struct {
	UID     int
	Process *proc.Process
	Session uint64 // the session that the process is in; 0: none
}

// PID is the process's PID in toolguardd's namespace.
func (p *Peer) PID() int { return p.Process.PID }

// QuotaKey names the client whose quota a request uses.
type QuotaKey struct {
	UID      int
	Confined bool
}

// QuotaKey is the key of the peer's quota.
func (p *Peer) QuotaKey() QuotaKey { return QuotaKey{p.UID, p.Session != 0} }

// ErrElsewhere is the error for a client outside of this process's PID namespace.
var ErrElsewhere = errors.New("the client has no PID in toolguardd's PID namespace: run toolguardd outside of the container or namespace that it is in")

// Identify returns the peer of a connection, without its session. The caller closes its Process.
func Identify(conn *net.UnixConn) (*Peer, error) {
	return identify(conn, func(int, int) (uint64, error) { return 0, nil })
}

// identify returns the peer of a connection. sessionOf returns the session of the process that made it.
func identify(conn *net.UnixConn, sessionOf func(conn, pidfd int) (uint64, error)) (*Peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var p *Peer
	cerr := raw.Control(func(fd uintptr) {
		if p, err = peerOn(int(fd)); err != nil {
			return
		}
		if p.Session, err = sessionOf(int(fd), p.Process.FD); err != nil {
			p.Process.Close()
		}
	})
	return p, errors.Join(cerr, err)
}

// peerOn returns the peer of a descriptor, without its session.
func peerOn(fd int) (*Peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, os.NewSyscallError("getsockopt(SO_PEERCRED)", err)
	}
	if cred.Pid == 0 {
		return nil, ErrElsewhere
	}
	p := &Peer{UID: int(cred.Uid)}
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch {
	case err == nil:
		p.Process, err = proc.New(int(cred.Pid), pidfd, 0)
	case errors.Is(err, unix.ENOPROTOOPT): // before Linux 6.5
		if p.Process, err = proc.Open(int(cred.Pid), 0); err == nil {
			err = p.checkOwner()
		}
	}
	return p, err
}

// checkOwner returns an error if the process that was found by its PID is another user's.
func (p *Peer) checkOwner() error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return err
	}
	_, line, _ := strings.Cut(string(status), "\nUid:\t")
	line, _, _ = strings.Cut(line, "\n")
	for _, uid := range strings.Fields(line) {
		if uid != fmt.Sprint(p.UID) {
			return fmt.Errorf("process %d isn't user %d's", p.PID(), p.UID)
		}
	}
	return p.Process.Alive()
}

// NoNewPrivs reports whether the peer's first thread has set no_new_privs, as all threads of all processes of every session have: children
// inherit it, and the kernel never clears it. A process that has ended is an error: another one may have its PID.
func (p *Peer) NoNewPrivs() (bool, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID())) // whole: the list of groups is long for some users
	if err != nil {
		return false, err
	}
	field := proc.StatusField(status, "NoNewPrivs")
	if len(field) != 1 || field[0] != "0" && field[0] != "1" {
		return false, fmt.Errorf("the kernel doesn't report whether process %d has set no_new_privs", p.PID())
	}
	return field[0] == "1", p.stillThere()
}

// Exe returns the path of the peer's program; "" if the kernel doesn't show it.
func (p *Peer) Exe() string {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID()))
	if err != nil || p.stillThere() != nil {
		return ""
	}
	return exe
}

// stillThere returns an error if the process has ended, so that what was read by its PID may be another process's.
func (p *Peer) stillThere() error {
	if err := p.Process.Alive(); err != nil {
		return fmt.Errorf("process %d has ended: %w", p.PID(), err)
	}
	return nil
}

type contextKey struct{}

// NewContext returns a context that has a peer.
func NewContext(ctx context.Context, p *Peer) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// ConnContext is the ConnContext of an http.Server whose listener is a Listener.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	return NewContext(ctx, c.(*Conn).peer)
}

// FromContext returns the peer that a context has.
func FromContext(ctx context.Context) *Peer { return ctx.Value(contextKey{}).(*Peer) }
