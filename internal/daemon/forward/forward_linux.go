package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/api/http1"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// sending bounds the time in which a session's toolguard must take a request, and in which a client must send one and read its answer.
const sending = 10 * time.Second

// takingOver is how long after a start of toolguardd the toolguards of sessions may take to connect again.
const takingOver = 10 * time.Second

// The bounds of requests that are forwarded at a time. The toolguard of a session opens at most 64 connections, so neither its confined clients nor
// the others can use them up.
const (
	maxOfSession = 24 // of a session's confined clients, and of its other clients
	maxOfQuota   = 64 // of one quota key
)

// maxForwarded bounds the answer of a session's toolguard, in bytes.
const maxForwarded = 64 << 20

// The bounds of the list of the approvals of several sessions.
const (
	listing     = 2 * time.Second // for the answer of each
	maxListed   = 1 << 20         // bytes of each
	maxListings = 8               // sessions at a time
)

// Session is a session that requests are forwarded to.
type Session struct {
	ID    string
	Conns *Conns
	Over  <-chan struct{} // closed when it has ended
}

// Only returns the only one of a user's sessions that serve calls, which a request needn't name.
func Only(sessions []*Session) (*Session, error) {
	switch len(sessions) {
	case 0:
		return nil, http1.Reject(404, "no session of this user that toolguardd made serves calls: their policies have no [approvals], hooks or constraints")
	case 1:
		return sessions[0], nil
	}
	var ids []string
	for _, s := range sessions {
		ids = append(ids, s.ID)
	}
	return nil, http1.Reject(400, "several sessions serve calls: name one with ?session=ID, of %s", strings.Join(ids, ", "))
}

// Forwarder forwards requests within the quotas of their clients.
type Forwarder struct {
	stopping <-chan struct{}
	started  time.Time

	mu    sync.Mutex
	quota map[peer.QuotaKey]int // requests that are being forwarded
}

// New returns a Forwarder of a toolguardd that has started then. stopping ends what it forwards.
func New(started time.Time, stopping <-chan struct{}) *Forwarder {
	return &Forwarder{stopping: stopping, started: started, quota: map[peer.QuotaKey]int{}}
}

// acquire reserves a request until done.
func (f *Forwarder) acquire(s *Session, p *peer.Peer, confined bool) (done func(), err error) {
	i := 0
	if confined {
		i = 1
	}
	key := p.QuotaKey()
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.Conns.forwards[i] >= maxOfSession || f.quota[key] >= maxOfQuota {
		return nil, http1.Reject(429, "as many requests about calls wait as one session (%d) or one user (%d) may have: try again", maxOfSession, maxOfQuota)
	}
	s.Conns.forwards[i]++
	f.quota[key]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		s.Conns.forwards[i]--
		if f.quota[key]--; f.quota[key] == 0 {
			delete(f.quota, key)
		}
	}, nil
}

var errServesNone = http1.Reject(404, "the session serves no calls: its policy has no [approvals], hooks or constraints")

// connTo returns an idle connection to a session's toolguard.
func (f *Forwarder) connTo(ctx context.Context, s *Session) (*conn, error) {
	if !s.Conns.IsServed() && time.Since(f.started) > takingOver {
		return nil, errServesNone
	}
	ctx, cancel := context.WithTimeout(ctx, sending)
	defer cancel()
	c, err := s.Conns.take(ctx)
	switch {
	case err == nil:
		return c, nil
	case !s.Conns.IsServed():
		return nil, errServesNone
	}
	return nil, http1.Reject(503, "the toolguard of session %s doesn't answer: it has opened no connection within %v", s.ID, sending)
}

// Forward sends a request to the toolguard of a session, and its answer to the client. It reads neither. An error was not answered yet.
func (f *Forwarder) Forward(w http.ResponseWriter, r *http.Request, p *peer.Peer, confined bool, s *Session) error {
	if r.ContentLength < 0 {
		return http1.Reject(411, "the request's body has no Content-Length")
	}
	if r.ContentLength > api.MaxBody {
		return http1.Reject(413, "the request's body is too large: it may have %d bytes", api.MaxBody)
	}
	done, err := f.acquire(s, p, confined)
	if err != nil {
		return err
	}
	defer done()
	query := r.URL.Query()
	query.Del("session")
	out := outgoing(r.Method, p, confined, &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: query.Encode()})
	if r.ContentLength > 0 {
		out.Body, out.ContentLength = r.Body, r.ContentLength
	}
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Now().Add(sending)) // for the body, which is sent on as it comes
	answer, end, err := f.exchange(r.Context(), s, out, func() { _ = c.SetReadDeadline(time.Time{}) })
	if err != nil {
		return err
	}
	defer end()
	_ = c.SetWriteDeadline(time.Now().Add(sending))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.FormatInt(answer.ContentLength, 10))
	w.WriteHeader(answer.StatusCode)
	if _, err := io.Copy(w, answer.Body); err != nil {
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
	return nil
}

// outgoing is a request to a session's toolguard about a client's. The client's fields aren't in it.
func outgoing(method string, p *peer.Peer, confined bool, target *url.URL) *http.Request {
	in, is := "", "0"
	if p.Session != 0 {
		in = fmt.Sprintf("%016x", p.Session)
	}
	if confined {
		is = "1"
	}
	h := http.Header{"User-Agent": nil}
	for name, value := range map[string]string{
		api.ForwardedUID: strconv.Itoa(p.UID), api.ForwardedPID: strconv.Itoa(p.PID()), api.ForwardedExe: url.PathEscape(p.Exe()),
		api.ForwardedConfined: is, api.ForwardedSession: in,
	} {
		h.Set(name, value)
	}
	return &http.Request{Method: method, URL: target, Host: "toolguard", Header: h, ProtoMajor: 1, ProtoMinor: 1}
}

// exchange sends a request to a session's toolguard and reads the head of its answer. sent is called between. It ends when ctx is done, the session
// is over, or toolguardd stops. The caller calls end once it has read the body.
func (f *Forwarder) exchange(ctx context.Context, s *Session, out *http.Request, sent func()) (answer *http.Response, end func(), err error) {
	c, err := f.connTo(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-watching.Done():
		case <-s.Over:
		case <-f.stopping:
		}
		_ = c.SetDeadline(time.Unix(1, 0))
	}()
	release := func(reuse bool) {
		stop()
		<-watched
		_ = c.SetDeadline(time.Time{})
		if reuse && c.in.Buffered() == 0 {
			s.Conns.add(c)
			return
		}
		_ = c.Close()
	}
	_ = c.SetWriteDeadline(time.Now().Add(sending))
	sendErr := out.Write(c)
	sent()
	if sendErr != nil {
		_ = c.SetReadDeadline(time.Now().Add(time.Second)) // it may have answered before the end of the body
	}
	answer, err = http.ReadResponse(c.in, out)
	if err != nil {
		release(false)
		return nil, nil, http1.Reject(502, "the toolguard of session %s: %v", s.ID, errors.Join(sendErr, err))
	}
	if answer.ContentLength < 0 || answer.ContentLength > maxForwarded {
		release(false)
		return nil, nil, http1.Reject(502, "the toolguard of session %s answered without Content-Length, or with more than %d bytes", s.ID, maxForwarded)
	}
	_ = c.SetReadDeadline(time.Now().Add(sending))
	return answer, func() {
		_, err := io.Copy(io.Discard, answer.Body)
		release(err == nil && sendErr == nil && !answer.Close)
	}, nil
}

// Approvals lists the approvals of several sessions, in their order. One whose toolguard doesn't answer in time is left out and logged.
func (f *Forwarder) Approvals(r *http.Request, p *peer.Peer, sessions []*Session, log func(format string, args ...any)) any {
	parts := make([][]json.RawMessage, len(sessions))
	turns := make(chan struct{}, maxListings)
	var all sync.WaitGroup
	for i, s := range sessions {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			var err error
			if parts[i], err = f.approvalsOf(r, p, s); err != nil && r.Context().Err() == nil {
				log("the approvals of session %s aren't listed: %v", s.ID, err)
			}
		})
	}
	all.Wait()
	list := approvals{[]json.RawMessage{}}
	for _, part := range parts {
		list.Approvals = append(list.Approvals, part...)
	}
	return list
}

// approvals is a message.List whose elements aren't read.
type approvals struct {
	Approvals []json.RawMessage `json:"approvals"`
}

// approvalsOf lists the approvals of one session.
func (f *Forwarder) approvalsOf(r *http.Request, p *peer.Peer, s *Session) ([]json.RawMessage, error) {
	done, err := f.acquire(s, p, false)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(r.Context(), listing)
	defer cancel()
	query := r.URL.Query()
	query.Del("wait_ms")
	answer, end, err := f.exchange(ctx, s, outgoing("GET", p, false, &url.URL{Path: message.Approvals, RawQuery: query.Encode()}), func() {})
	if err != nil {
		return nil, err
	}
	defer end()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxListed+1))
	switch {
	case err != nil:
		return nil, err
	case answer.StatusCode != 200 || len(text) > maxListed:
		return nil, fmt.Errorf("its toolguard answered with status %d and %d bytes", answer.StatusCode, answer.ContentLength)
	}
	var list approvals
	err = json.Unmarshal(text, &list)
	return list.Approvals, err
}
