package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/daemon/peer"
)

// answering bounds how long an answer, or a piece of one that goes on, may take to be read.
const answering = 10 * time.Second

// request is a request with who makes it.
type request struct {
	*http.Request
	w    http.ResponseWriter
	peer *peer.Peer

	sending sync.Mutex  // held while a piece of the answer is being sent
	left    atomic.Bool // no more of them may be
}

// who may make a kind of request.
type who int

const (
	owners  who = iota // whoever isn't guarded; about a session: its user, and root
	anybody            // the guarded too
	starter            // the process that started the session
)

// Handler answers requests. Their connections must come from a listener of this package's.
func (d *Daemon) Handler() http.Handler {
	mux := http.NewServeMux()
	plain := func(pattern string, may who, do func(*request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { d.answer(w, r, may, do) })
	}
	one := func(method, path string, may who, do func(*request, *session) (any, error)) {
		plain(method+" "+api.Sessions+"/{id}"+path, may, func(r *request) (any, error) {
			s, err := d.sessionFor(r, may)
			if err != nil {
				return nil, err
			}
			return do(r, s)
		})
	}
	plain("GET "+api.Status, anybody, d.status)
	plain("GET "+api.Events, owners, d.follow)
	plain("GET "+api.Denials, owners, d.getDenials)
	plain("GET "+api.Health, owners, func(r *request) (any, error) { d.health(r.w, true); return nil, nil })
	plain("GET "+api.Metrics, owners, func(r *request) (any, error) {
		if r.peer.UID != 0 {
			return nil, refuse(403, "what toolguardd counts of all users together is root's")
		}
		d.measured(r.w)
		return nil, nil
	})
	plain("POST "+api.Prune, owners, d.prune)
	plain("GET "+api.Sessions, owners, d.list)
	plain("POST "+api.Sessions, anybody, d.post)
	one("GET", "", owners, func(_ *request, s *session) (any, error) { return s.show(), nil })
	one("DELETE", "", owners, kill)
	one("PUT", api.Policy, owners, d.putPolicy)
	one("PUT", api.Thread, starter, putThread)
	one("GET", api.Notices, starter, notices)
	one("POST", api.Command, starter, d.command)
	one("POST", api.Ended, starter, postEnded)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, refuse(404, "there is nothing at %s %s", r.Method, r.URL.Path))
	})
	return mux
}

// answer makes sure that whoever asks may, and answers.
func (d *Daemon) answer(w http.ResponseWriter, r *http.Request, may who, do func(*request) (any, error)) {
	req := &request{Request: r, w: w, peer: peer.FromContext(r.Context())}
	defer req.leave()
	most := int64(api.MaxBody)
	if may == starter { // what these say is short
		most = 64 << 10
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
	if may == owners && (req.peer.Session != 0 || d.denials.confines(req.peer.PID())) {
		fail(w, refuse(403, "a guarded process may begin a session within its own, and nothing else"))
		return
	}
	answer, err := do(req)
	switch {
	case err != nil:
		fail(w, err)
	case answer != nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func fail(w http.ResponseWriter, err error) {
	status := statusOf(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(api.Failure{Error: err.Error()})
}

// statusOf is the status of an error's answer.
func statusOf(err error) int {
	var f *failure
	switch {
	case errors.As(err, &f):
		return f.status
	case errors.Is(err, peer.ErrNoThread):
		return http.StatusConflict
	case errors.Is(err, peer.ErrPrivileges):
		return http.StatusForbidden
	}
	return http.StatusInternalServerError
}

// read reads what the request says, and returns its size.
func (r *request) read(v any) (size int, err error) {
	text, err := r.body()
	if err != nil {
		return 0, err
	}
	return len(text), parse(text, v)
}

func (r *request) body() ([]byte, error) {
	text, err := io.ReadAll(r.Body)
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, refuse(413, "the request's body is too large: it may have %d bytes", long.Limit)
	case err != nil:
		return nil, refuse(400, "the request's body: %v", err)
	case bytes.Count(text, []byte{','}) > maxValues:
		return nil, refuse(413, "the request's body has more than %d values, which no policy that can be enforced has", maxValues)
	}
	return text, nil
}

func parse(body []byte, v any) error {
	if err := json.Unmarshal(body, v); err != nil {
		return refuse(400, "the request's body: %v", err)
	}
	return nil
}

// readPolicy is read for what may be long: it's parsed when few enough of all users' are. Until it's there it keeps nobody else waiting.
func (d *Daemon) readPolicy(r *request, v any) (size int, err error) {
	c := http.NewResponseController(r.w)
	_ = c.SetReadDeadline(time.Now().Add(answering))
	text, err := r.body()
	if err != nil {
		return 0, err // the deadline stays: net/http waits for the rest of the body
	}
	_ = c.SetReadDeadline(time.Time{})
	done, err := d.reading(r.Context())
	if err != nil {
		return 0, err
	}
	defer done()
	return len(text), parse(text, v)
}

// reading waits until few enough policies are being parsed.
func (d *Daemon) reading(ctx context.Context) (done func(), err error) {
	return take(ctx, d.bodies, refuse(503, "toolguardd reads as many policies as it can at a time: try again"))
}

// sessionFor is the session that a request is about. Another user's isn't there.
func (d *Daemon) sessionFor(r *request, may who) (*session, error) {
	id := r.PathValue("id")
	number, err := strconv.ParseUint(id, 16, 64)
	if err != nil || fmt.Sprintf("%016x", number) != id {
		return nil, refuse(404, "there is no session %q", id)
	}
	s, err := d.session(number)
	if err != nil {
		return nil, err
	}
	if !mayAsk(r.peer.UID, s.uid) {
		return nil, refuse(404, "there is no session %s", id)
	}
	if may == starter && (r.peer.PID() != s.client.PID || r.peer.Process.Start != s.client.Start || r.peer.Session != s.from) {
		return nil, refuse(403, "this is for the process alone that started session %s", id)
	}
	return s, nil
}

func (d *Daemon) status(r *request) (any, error) {
	a := api.Daemon{Version: d.cfg.Version, Protocol: api.Protocol, PID: d.pid, Started: d.began, Why: d.why, Cgroups: d.facts(r.peer.Session), Network: d.whyNoNetwork(r.peer.Session), Denials: d.denials.why}
	if r.peer.Session == 0 {
		a.Sessions = len(d.all(r.peer.UID))
	} else if _, err := d.session(r.peer.Session); err != nil {
		a.Why = notOurs
	}
	return a, nil
}

// facts are what can be limited in a session within another one.
func (d *Daemon) facts(from uint64) cgroup.Support {
	if d.isLimited(from) {
		return cgroup.Support{Why: "the session around it has limits already"}
	}
	return cgroup.Probe()
}

// list answers with one session after the other: all of them may be long, and who asks may read slowly.
func (d *Daemon) list(r *request) (any, error) {
	r.w.Header().Set("Content-Type", "application/json")
	_, err := io.WriteString(r.w, "[")
	for i, s := range d.all(r.peer.UID) {
		if err == nil && i > 0 {
			_, err = io.WriteString(r.w, ",")
		}
		if err != nil {
			return nil, nil // whoever asked is gone
		}
		err = json.NewEncoder(r.w).Encode(s.show())
	}
	_, _ = io.WriteString(r.w, "]\n")
	return nil, nil
}

func (d *Daemon) post(r *request) (any, error) {
	if d.why != "" {
		return nil, refuse(503, "%s", d.why)
	}
	done, err := d.turn(r.Context(), r.peer.QuotaKey())
	if err != nil {
		return nil, err
	}
	defer done()
	var st api.Start
	size, err := d.readPolicy(r, &st)
	if err != nil {
		return nil, err
	}
	since := time.Now()
	s, err := d.begin(r.peer, st, size)
	d.counts.start(since, err)
	if err != nil {
		return nil, err
	}
	answer := s.look()
	answer.Bundle = s.bundle
	return answer, nil
}

func kill(_ *request, s *session) (any, error) {
	s.stop()
	return s.look(), nil
}

func (d *Daemon) putPolicy(r *request, s *session) (any, error) {
	done, err := d.turn(r.Context(), r.peer.QuotaKey())
	if err != nil {
		return nil, err
	}
	defer done()
	var body api.Reload
	size, err := d.readPolicy(r, &body)
	if err != nil {
		return nil, err
	}
	if body.Policy == nil {
		return nil, refuse(400, "a reload takes a policy")
	}
	if err := s.reload(body.Policy, size); err != nil {
		return nil, err
	}
	d.narrow(s.number)
	return s.look(), nil
}

// narrow puts the sessions within one that got another policy within that one. One that can't be is ended.
func (d *Daemon) narrow(number uint64) {
	for _, in := range d.all(0) {
		if in.from != number {
			continue
		}
		if err := in.again(); err != nil {
			d.log("session %s is ended: it can't be held to the new policy of the session around it: %v", in.id, err)
			in.stop()
		}
		d.narrow(in.number)
	}
}

// again puts a session within those around it as they are now. Its own policy may be anybody's: whatever that leads to is an error, and
// keeps nothing from the others.
func (s *session) again() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	p, err := s.policies()
	if err != nil {
		return err
	}
	return s.reload(p.asked, p.size)
}

func putThread(r *request, s *session) (any, error) {
	var body api.Enter
	if _, err := r.read(&body); err != nil {
		return nil, err
	}
	thread, err := peer.ThreadOf(s.client.PID, body.Thread)
	if err != nil {
		return nil, err
	}
	if thread == s.client.PID {
		return nil, refuse(400, "a session takes one of a process's later threads, not its first")
	}
	return nil, s.enter(thread)
}

// postEnded returns when the session is over.
func postEnded(r *request, s *session) (any, error) {
	var body api.Outcome
	if _, err := r.read(&body); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.exit = body.Exit
	lingers := s.lingers
	s.mu.Unlock()
	s.dropped()
	if lingers {
		return api.End{}, nil
	}
	select {
	case <-s.over:
		return s.end, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}
