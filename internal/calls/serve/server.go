package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/toolguard/toolguard/internal/api/http1"
)

// Handler answers requests. It is called from many goroutines. ctx is done when the client has disconnected, or the server is closed.
type Handler interface {
	// Serve returns the status and what is encoded as JSON. Of an error the body is a message.Failure. A nil body is {}.
	Serve(ctx context.Context, r *Request) (status int, body any)
}

// Request is a request with its peer.
type Request struct {
	Method, Path string // the path is decoded, and has no empty part
	Query        map[string]string
	Body         []byte
	Peer         Peer
}

// Peer is the process that sent a request.
type Peer struct {
	UID, PID int    // in this process's namespaces; of a peer on a descriptor, which the kernel doesn't name, this user and 0
	Exe      string // "": unknown
	Confined bool
	Session  string // that it is in; "": none, or it isn't known in which
	Owner    string // whose requests it may see and cancel: the same for all processes of one session
}

// The most connections of one kind, and the most long bodies of confined and of other peers that are read at a time.
const (
	maxConnections = 64
	maxLong        = 8
)

// kind is a kind of peer, with connections of its own.
type kind int

const (
	unconfined kind = iota
	confined
	forwarded
	kinds
)

// Server answers the requests of one session.
type Server struct {
	session string
	handler Handler
	log     func(string)

	ctx     context.Context
	cancel  context.CancelFunc
	slots   [kinds]chan struct{} // one in it for each connection
	long    [2]chan struct{}     // one in it for each long body of an unconfined and a confined peer
	running sync.WaitGroup

	mu    sync.Mutex
	open  map[interface{ Close() error }]bool
	ended bool
}

// New returns the server of a session. log gets what went wrong in the server itself; nil: nothing.
func New(session string, handler Handler, log func(string)) *Server {
	if log == nil {
		log = func(string) {}
	}
	s := &Server{session: session, handler: handler, log: log, open: map[interface{ Close() error }]bool{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for i := range s.slots {
		s.slots[i] = make(chan struct{}, maxConnections)
	}
	for i := range s.long {
		s.long[i] = make(chan struct{}, maxLong)
	}
	return s
}

// ErrClosed is the error after Close.
var ErrClosed = errors.New("the server of the session's calls is closed")

// Close removes the sockets, closes the connections that wait for a request, and waits for the handlers, whose contexts are done. The answer to a
// request that has arrived is sent before its connection is closed: the process that waited for a decision often ends with the session.
func (s *Server) Close() error {
	s.mu.Lock()
	s.ended = true
	open := s.open
	s.open = nil
	s.mu.Unlock()
	s.cancel()
	var err error
	for c := range open {
		if e := c.Close(); !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	s.running.Wait()
	return err
}

// track remembers what Close closes, until done.
func (s *Server) track(c interface{ Close() error }) (done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, errors.Join(ErrClosed, c.Close())
	}
	s.open[c] = true
	s.running.Add(1)
	return func() {
		s.mu.Lock()
		delete(s.open, c)
		s.mu.Unlock()
		s.running.Done()
	}, nil
}

// identifier names the peer of a request.
type identifier func(*http1.Head) (Peer, error)

// always returns the identifier for a connection whose requests all have one peer.
func always(p Peer) identifier { return func(*http1.Head) (Peer, error) { return p, nil } }

// ownerOf is the owner of what the processes of a session request.
func ownerOf(session string) string { return "session " + session }

// ServeConn answers the requests on a connection, all of one peer, until it is closed. It returns ErrClosed if the server is closed.
func (s *Server) ServeConn(c net.Conn, p Peer) error {
	k := unconfined
	if p.Confined {
		k = confined
	}
	select {
	case s.slots[k] <- struct{}{}:
	default:
		rejectConn(c, 503, tooMany(k))
		return nil
	}
	return s.serve(c, k, always(p), nil)
}

func tooMany(k kind) string {
	who := "unconfined"
	if k == confined {
		who = "confined"
	}
	return fmt.Sprintf("the session has %d connections of %s processes already, the most that it may have", maxConnections, who)
}

// serve answers the requests on a connection. It owns the connection and a slot of kind k. began is called when the first request arrives, or when
// none will; nil: it isn't.
func (s *Server) serve(c net.Conn, k kind, peer identifier, began func()) error {
	defer func() { <-s.slots[k] }()
	if began == nil {
		began = func() {}
	}
	defer began()
	x := newConn(s, c, peer)
	done, err := s.track(x)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer done()
	defer func() {
		_ = c.Close()
		if p := recover(); p != nil { // none is expected: the handler's are caught where it is called
			s.log(fmt.Sprintf("a connection of the session's calls ended: %v", p))
		}
	}()
	x.idles = k == forwarded
	for x.next(began) {
	}
	return nil
}
