package daemon

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/event"
)

// follow sends events as they happen, or from a time on.
func (d *Daemon) follow(r *request) (any, error) {
	ask := r.URL.Query()
	format, err := event.ParseFormat(ask.Get("format"))
	if err != nil {
		return nil, reject(400, "%v", err)
	}
	w := &filter{uid: r.peer.UID, session: ask.Get("session"), tool: ask.Get("tool"), kind: ask.Get("kind"), reason: ask.Get("reason")}
	if ask.Has("since") {
		since, err := time.Parse(time.RFC3339, ask.Get("since"))
		if err != nil {
			return nil, reject(400, "since: write a time such as 2026-11-21T08:15:02Z")
		}
		w.since = since.UnixMilli()
		return nil, d.history(r, w, format, ask.Get("follow") == "true")
	}
	begun := make(chan struct{})
	f := &follower{uid: w.uid, wants: w.fits, queue: event.NewQueueSize(sink(func(e *event.Event) error {
		<-begun
		return r.send(format.Append(nil, e))
	}), waitingEvents)}
	d.hub.subscribe(f) // a client that waits for the answer's start misses no later event
	r.w.Header().Set("Content-Type", "application/x-ndjson")
	_ = r.send(nil)
	close(begun)
	select {
	case <-r.Context().Done():
	case <-d.stopping:
	}
	d.hub.unsubscribe(f)
	return nil, nil
}

// notices sends the client of a session what happens in it, from when its thread is in it. It takes over the connection from net/http, whose
// buffers and stack would use more memory than the rest of the session.
func notices(r *request, s *session) (any, error) {
	if s.currentState() == api.Starting {
		if err := s.confirmThread(); err != nil {
			return nil, err
		}
	}
	c, _, err := http.NewResponseController(r.w).Hijack()
	if err != nil {
		return nil, err
	}
	s.d.streams.Go(func() { s.notify(c) })
	return nil, nil
}

// notify writes the answer of notices. Its last line shows that it is complete.
func (s *session) notify(c net.Conn) {
	defer c.Close()
	send := func(n api.Notice) error {
		text, _ := json.Marshal(n) // everything in it can be
		return write(c, append(text, '\n'))
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = c.Read(make([]byte, 1)) // end of file, or an error
	}()
	begun := make(chan struct{})
	f := follower{queue: event.NewQueueSize(sink(func(e *event.Event) error {
		<-begun
		return send(api.Notice{Event: e})
	}), waitingEvents)}
	end, over := s.serveOwner(&f, func() {
		_ = write(c, []byte("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/x-ndjson\r\n\r\n"))
		close(begun)
	}, gone)
	_, _ = f.queue.Close()
	if over {
		_ = send(api.Notice{End: &end})
	}
}

// write writes a piece of a stream.
func write(c net.Conn, text []byte) error {
	_ = c.SetWriteDeadline(time.Now().Add(answering))
	_, err := c.Write(text)
	return err
}

var errLeft = errors.New("the request has been answered")

// send writes a piece of a stream. A call from another goroutine than the handler may come after the answer.
func (r *request) send(text []byte) error {
	r.sending.Lock()
	defer r.sending.Unlock()
	if r.left.Load() {
		return errLeft
	}
	c := http.NewResponseController(r.w)
	_ = c.SetWriteDeadline(time.Now().Add(answering))
	if r.left.Load() { // and its deadline may have come before this one
		return errLeft
	}
	_, err := r.w.Write(text)
	return errors.Join(err, c.Flush())
}

// leave waits for a write, and prevents later ones: after the handler has returned, r.w may belong to another request.
func (r *request) leave() {
	r.left.Store(true)
	if !r.sending.TryLock() {
		_ = http.NewResponseController(r.w).SetWriteDeadline(time.Unix(1, 0)) // aborts the write if the client doesn't read
		r.sending.Lock()
	}
	r.sending.Unlock()
}

// command is the connection on which the command waits for its cgroup: the command sends a byte, and gets one when it's in the cgroup. The
// kernel identifies the command by SCM_CREDENTIALS (unix(7)).
func (d *Daemon) command(r *request, s *session) (any, error) {
	if !s.beginsInGroup() || s.group.Load() == nil {
		return nil, reject(409, "session %s has no limits that need a cgroup", s.id)
	}
	c, _, err := http.NewResponseController(r.w).Hijack()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := d.receiveCommand(c.(*peer.Conn).UnixConn, s); err != nil {
		d.log("the command of session %s can't start: %v", s.id, err)
	}
	return nil, nil
}

func (d *Daemon) receiveCommand(c *net.UnixConn, s *session) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
	if err := errors.Join(cerr, os.NewSyscallError("setsockopt(SO_PASSCRED)", err)); err != nil {
		return err
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Write([]byte("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")); err != nil {
		return err
	}
	pid, err := receivePID(c)
	if err != nil {
		return err
	}
	if err := s.addCommand(pid); err != nil {
		return err
	}
	_, err = c.Write([]byte{1})
	return err
}

// receivePID receives a byte, and returns the PID of its sender.
func receivePID(c *net.UnixConn) (pid int, err error) {
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	n, m, _, _, err := c.ReadMsgUnix(make([]byte, 1), oob)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:m])
	if err != nil || n != 1 || len(messages) != 1 {
		return 0, errors.Join(errors.New("the command has disconnected"), err)
	}
	cred, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}
