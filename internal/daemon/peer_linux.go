package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/proc"
)

// peer is who is at the other end of a connection: whoever has made it, whatever has become of it since.
type peer struct {
	uid     int
	process *proc.Process
	from    uint64 // the session that it's in; 0: none
}

func (p *peer) pid() int { return p.process.PID }

// asker is whose share of what toolguardd has a peer takes from: a user's guarded processes can't take what the others need.
type asker struct {
	uid     int
	guarded bool
}

func (p *peer) asker() asker { return asker{p.uid, p.from != 0} }

// peerOf asks the kernel. caller tells the session of who made a connection.
func peerOf(conn *net.UnixConn, caller func(conn, pidfd int) (uint64, error)) (*peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var p *peer
	cerr := raw.Control(func(fd uintptr) {
		if p, err = peerOn(int(fd)); err != nil {
			return
		}
		if p.from, err = caller(int(fd), p.process.FD); err != nil {
			p.process.Close()
		}
	})
	return p, errors.Join(cerr, err)
}

func peerOn(fd int) (*peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return nil, os.NewSyscallError("getsockopt(SO_PEERCRED)", err)
	}
	if cred.Pid == 0 {
		return nil, errors.New("it has no number in toolguardd's PID namespace, which is one of its own, as in a container: run toolguardd outside of it")
	}
	p := &peer{uid: int(cred.Uid)}
	pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch {
	case err == nil:
		p.process, err = proc.New(int(cred.Pid), pidfd, 0)
	case errors.Is(err, unix.ENOPROTOOPT): // before Linux 6.5: by its number, which another one of the same user may have by now
		if p.process, err = proc.Open(int(cred.Pid), 0); err == nil {
			err = p.owned()
		}
	}
	return p, err
}

// owned makes sure that the process that was found is its user's.
func (p *peer) owned() error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid()))
	if err != nil {
		return err
	}
	_, line, _ := strings.Cut(string(status), "\nUid:\t")
	line, _, _ = strings.Cut(line, "\n")
	for _, uid := range strings.Fields(line) {
		if uid != fmt.Sprint(p.uid) {
			return fmt.Errorf("process %d isn't user %d's", p.pid(), p.uid)
		}
	}
	return p.process.Alive()
}

// notSubordinate refuses the numbers that a user has beside his own, for containers: with each he'd have another user's share. What root has
// of them, as for LXD, are no user's, and may be anybody's besides. file is of subuid(5).
func notSubordinate(uid int, file string) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 || f[0] == "root" || f[0] == "0" {
			continue
		}
		first, e := strconv.Atoi(f[1])
		n, err := strconv.Atoi(f[2])
		if e == nil && err == nil && first <= uid && uid-first < n {
			return fmt.Errorf("user %d is a subordinate one of %s's (%s), which is for containers: ask as %s", uid, f[0], file, f[0])
		}
	}
	return nil
}

// listener accepts connections, so many of each user's at a time.
type listener struct {
	*net.UnixListener
	most   func() int
	caller func(conn, pidfd int) (uint64, error)
	subuid string // the file of subordinate users

	mu   sync.Mutex
	open map[asker]int
}

// conn is a connection with its peer.
type conn struct {
	*net.UnixConn
	peer  *peer
	close func()
}

// Close closes it once.
func (c *conn) Close() error {
	c.close()
	return c.UnixConn.Close()
}

const busy = "this user has too many connections already"

// turnAway answers a new connection that nobody is to read from, and closes it. There's room in it, so that doesn't wait.
func turnAway(c *net.UnixConn, why string) {
	_, _ = fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n{\"error\":%q}\n", why)
	_ = c.Close()
}

// Accept waits for the next one. What can't be accepted is no reason to stop.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return nil, err
		}
		p, err := peerOf(c, l.caller)
		if err != nil {
			turnAway(c, fmt.Sprintf("it can't be told who asks: %v", err))
			continue
		}
		why := busy
		if err := notSubordinate(p.uid, l.subuid); err != nil {
			why = err.Error()
		} else if l.enter(p.asker()) {
			return &conn{c, p, sync.OnceFunc(func() { l.leave(p) })}, nil
		}
		p.process.Close()
		turnAway(c, why)
	}
}

func (l *listener) enter(a asker) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[a] >= l.most() {
		return false
	}
	l.open[a]++
	return true
}

func (l *listener) leave(p *peer) {
	p.process.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	a := p.asker()
	if l.open[a]--; l.open[a] == 0 {
		delete(l.open, a)
	}
}

type peerKey struct{}

// withPeer is the server's ConnContext.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, c.(*conn).peer)
}
