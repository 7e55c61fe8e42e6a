package serve

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/calls/socket"
	"github.com/toolguard/toolguard/internal/daemon/peer"
)

// pause is the time until the next attempt after one that failed, which a client may have caused.
const pause = 10 * time.Millisecond

// Outside makes the session's socket in the first of the folders that can be made, and answers on it. It returns the socket's path.
func (s *Server) Outside(folders []string) (path string, err error) {
	return s.listen(folders, s.outsidePeer)
}

// Inside makes a socket in a folder that the session's processes can reach, and answers on it. Nobody else may reach it. It returns the socket's path.
func (s *Server) Inside(folder string) (path string, err error) {
	return s.listen([]string{folder}, func(p *peer.Peer) (Peer, error) {
		in := s.inside()
		in.UID, in.PID, in.Exe = p.UID, p.PID(), p.Exe()
		return in, nil
	})
}

func (s *Server) listen(folders []string, peerOf func(*peer.Peer) (Peer, error)) (string, error) {
	l, err := socket.Listen(folders, s.session)
	if err != nil {
		return "", err
	}
	done, err := s.track(l)
	if err != nil {
		return "", err
	}
	go func() {
		defer done()
		s.accept(l, peerOf)
	}()
	return l.Path, nil
}

// accept accepts connections at once, also those that it rejects: before Linux 6.5, the process of one that waits could end, and another one get
// its PID.
func (s *Server) accept(l *socket.Listener, peerOf func(*peer.Peer) (Peer, error)) {
	for {
		c, err := l.AcceptUnix()
		switch {
		case err == nil:
			s.admit(c, peerOf)
		case errors.Is(err, net.ErrClosed):
			return
		case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS), errors.Is(err, unix.ECONNABORTED):
			time.Sleep(pause)
		default:
			s.log(fmt.Sprintf("the session's socket %s accepts no other connections: %v", l.Path, err))
			return
		}
	}
}

// admit begins to answer a connection, or rejects it.
func (s *Server) admit(c *net.UnixConn, peerOf func(*peer.Peer) (Peer, error)) {
	p, err := identify(c, peerOf)
	if err != nil {
		rejectConn(c, 403, err.Error())
		return
	}
	go func() { _ = s.ServeConn(c, p) }()
}

func identify(c *net.UnixConn, peerOf func(*peer.Peer) (Peer, error)) (Peer, error) {
	p, err := peer.Identify(c)
	switch {
	case errors.Is(err, peer.ErrElsewhere):
		return Peer{}, errors.New("the client is outside of the container or PID namespace in which the session was begun: run it there")
	case err != nil:
		return Peer{}, fmt.Errorf("the client can't be identified: %w", err)
	}
	defer p.Process.Close()
	if p.UID != os.Geteuid() && p.UID != 0 {
		return Peer{}, fmt.Errorf("user %d may not use a session of user %d: only that user and root may", p.UID, os.Geteuid())
	}
	return peerOf(p)
}

// outsidePeer is a peer on the socket outside of the session. A confined one may be in another session, so it may see only its own requests.
func (s *Server) outsidePeer(p *peer.Peer) (Peer, error) {
	isConfined, err := p.NoNewPrivs()
	if err != nil {
		return Peer{}, fmt.Errorf("it can't be decided whether the client is in a session: %w", err)
	}
	owner := fmt.Sprintf("user %d", p.UID)
	if isConfined {
		owner = fmt.Sprintf("process %d %d", p.PID(), p.Process.Start)
	}
	return Peer{UID: p.UID, PID: p.PID(), Exe: p.Exe(), Confined: isConfined, Owner: owner}, nil
}

// Descriptor returns a descriptor for the session's processes to inherit, and answers the connections that they send over it. The caller passes it
// on, and closes it.
func (s *Server) Descriptor() (*os.File, error) {
	r, theirs, err := socket.Pair()
	if err != nil {
		return nil, err
	}
	done, err := s.track(r)
	if err != nil {
		_ = theirs.Close()
		return nil, err
	}
	go func() {
		defer done()
		s.receive(r)
	}()
	return theirs, nil
}

// receive receives connections while there are slots for them; later ones wait in the kernel's queue, which is short.
func (s *Server) receive(r *socket.Receiver) {
	p := s.inside()
	p.UID = os.Geteuid()
	warn := sync.OnceFunc(func() { s.log("a process of the session sent messages to its descriptor that are no connections") })
	for {
		select {
		case s.slots[confined] <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		c, err := r.Receive()
		if err == nil {
			go func() { _ = s.serve(c, confined, always(p), nil) }()
			continue
		}
		<-s.slots[confined]
		if !errors.Is(err, socket.ErrMessage) {
			return
		}
		warn()
		time.Sleep(pause)
	}
}

// inside is a peer in this server's session that the kernel doesn't name.
func (s *Server) inside() Peer {
	return Peer{Confined: true, Session: s.session, Owner: ownerOf(s.session)}
}
