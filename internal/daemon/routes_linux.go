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

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/api/http1"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// answering bounds the time in which a client must read an answer, or a piece of a stream.
const answering = 10 * time.Second

// request is a request with its peer.
type request struct {
	*http.Request
	w    http.ResponseWriter
	peer *peer.Peer

	sending sync.Mutex  // locked while a piece of the answer is being sent
	left    atomic.Bool // set when nothing more may be sent
}

// permission is the set of processes that may send a request.
type permission int

const (
	unconfined permission = iota // an unconfined process; about a session: its user's, and root's
	anyProcess                   // a confined process, too
	starter                      // the process that started the session
)

// Handler answers requests. Their connections must come from a peer.Listener.
func (d *Daemon) Handler() http.Handler {
	mux := http.NewServeMux()
	plain := func(pattern string, may permission, do func(*request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { d.answer(w, r, may, do) })
	}
	one := func(method, path string, may permission, do func(*request, *session) (any, error)) {
		plain(method+" "+api.Sessions+"/{id}"+path, may, func(r *request) (any, error) {
			s, err := d.sessionFor(r, may)
			if err != nil {
				return nil, err
			}
			return do(r, s)
		})
	}
	plain("GET "+api.Status, anyProcess, d.status)
	plain("GET "+api.Events, unconfined, d.follow)
	plain("GET "+api.Denials, unconfined, d.getDenials)
	plain("GET "+api.Health, unconfined, func(r *request) (any, error) { d.health(r.w, true); return nil, nil })
	plain("GET "+api.Metrics, unconfined, func(r *request) (any, error) {
		if r.peer.UID != 0 {
			return nil, reject(403, "only root may read the metrics, which are about all users")
		}
		d.writeMetrics(r.w)
		return nil, nil
	})
	plain("POST "+api.Prune, unconfined, d.prune)
	plain("GET "+api.Sessions, unconfined, d.list)
	plain("POST "+api.Sessions, anyProcess, d.post)
	one("GET", "", unconfined, func(_ *request, s *session) (any, error) { return s.infoWithUsage(), nil })
	one("DELETE", "", unconfined, kill)
	one("PUT", api.Policy, unconfined, d.putPolicy)
	one("PUT", api.Thread, starter, putThread)
	one("GET", api.Notices, starter, notices)
	one("POST", api.Command, starter, d.command)
	one("POST", api.Ended, starter, postEnded)
	one("POST", api.Calls, starter, d.serveCalls)
	one("POST", api.CallEvents, starter, callEvent)
	plain("POST "+message.Calls, anyProcess, d.forward)
	plain("GET "+message.Calls+"/{id}", anyProcess, d.forward)
	plain("POST "+message.Calls+"/{id}"+message.Result, anyProcess, d.forward)
	plain("POST "+message.Calls+"/{id}"+message.Cancel, anyProcess, d.forward)
	plain("GET "+message.Approvals, anyProcess, d.forward)
	plain("POST "+message.Approvals, anyProcess, d.forward)
	plain("POST "+message.Approvals+"/{id}", anyProcess, d.forward)
	plain("GET "+message.Approvals+"/{id}"+message.Decision, anyProcess, d.forward)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, reject(404, "there is nothing at %s %s", r.Method, r.URL.Path))
	})
	return mux
}

// answer checks the permission of the peer, and answers.
func (d *Daemon) answer(w http.ResponseWriter, r *http.Request, may permission, do func(*request) (any, error)) {
	req := &request{Request: r, w: w, peer: peer.FromContext(r.Context())}
	defer req.leave()
	most := int64(api.MaxBody)
	if may == starter { // these bodies are short
		most = 64 << 10
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
	if may == unconfined && (req.peer.Session != 0 || d.denials.confines(req.peer.PID())) {
		fail(w, reject(403, "a confined process may only begin a nested session"))
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
	var f *statusError
	var forwarded *http1.Error
	switch {
	case errors.As(err, &forwarded):
		return forwarded.Status
	case errors.As(err, &f):
		return f.status
	case errors.Is(err, peer.ErrNoThread):
		return http.StatusConflict
	case errors.Is(err, peer.ErrPrivileges):
		return http.StatusForbidden
	}
	return http.StatusInternalServerError
}

// read parses the request's body.
func (r *request) read(v any) error {
	text, err := r.body()
	if err != nil {
		return err
	}
	return parse(text, v)
}

func (r *request) body() ([]byte, error) {
	text, err := io.ReadAll(r.Body)
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, reject(413, "the request's body is too large: it may have %d bytes", long.Limit)
	case err != nil:
		return nil, reject(400, "the request's body: %v", err)
	case bytes.Count(text, []byte{','}) > maxValues:
		return nil, reject(413, "the request's body has more than %d values, which no policy that can be enforced has", maxValues)
	}
	return text, nil
}

// parse parses JSON without duplicate names. It's faster than encoding/json: a session's policy has some 50 KiB.
func parse(body []byte, v any) error {
	if err := jsonv2.Unmarshal(body, v, jsonv1.FormatDurationAsNano(true)); err != nil {
		return reject(400, "the request's body: %v", err)
	}
	return nil
}

// readPolicy is read for a body that may be long. It's parsed when a slot is free. Until the body has arrived it uses no slot.
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

// reading waits until fewer than maxBodies policies are being parsed.
func (d *Daemon) reading(ctx context.Context) (done func(), err error) {
	return acquire(ctx, d.bodies, reject(503, "toolguardd is reading the most policies that it can at a time: try again"))
}

// sessionFor is the session that a request is about. For a user, another user's session doesn't exist.
func (d *Daemon) sessionFor(r *request, may permission) (*session, error) {
	id := r.PathValue("id")
	number, err := strconv.ParseUint(id, 16, 64)
	if err != nil || fmt.Sprintf("%016x", number) != id {
		return nil, reject(404, "there is no session %q", id)
	}
	s, err := d.session(number)
	if err != nil {
		return nil, err
	}
	if !mayAsk(r.peer.UID, s.uid) {
		return nil, reject(404, "there is no session %s", id)
	}
	if may == starter && (r.peer.PID() != s.client.PID || r.peer.Process.Start != s.client.Start || r.peer.Session != s.from) {
		return nil, reject(403, "only the process that started session %s may send this request", id)
	}
	return s, nil
}

func (d *Daemon) status(r *request) (any, error) {
	a := api.Daemon{Version: d.cfg.Version, Protocol: api.Protocol, PID: d.pid, Started: d.started, Why: d.unavailable, Cgroups: d.facts(r.peer.Session), Network: d.whyNoNetwork(r.peer.Session), Denials: d.denials.why}
	if r.peer.Session == 0 {
		a.Sessions = len(d.all(r.peer.UID))
	} else if _, err := d.session(r.peer.Session); err != nil {
		a.Why = notOurs
	}
	return a, nil
}

// facts are the limits that a nested session can have.
func (d *Daemon) facts(from uint64) cgroup.Support {
	if d.isLimited(from) {
		return cgroup.Support{Why: "the outer session has limits already"}
	}
	return cgroup.Probe()
}

// list writes one session after the other: the answer may be long, and the client may read slowly.
func (d *Daemon) list(r *request) (any, error) {
	r.w.Header().Set("Content-Type", "application/json")
	_, err := io.WriteString(r.w, "[")
	for i, s := range d.all(r.peer.UID) {
		if err == nil && i > 0 {
			_, err = io.WriteString(r.w, ",")
		}
		if err != nil {
			return nil, nil // the client has disconnected
		}
		err = json.NewEncoder(r.w).Encode(s.infoWithUsage())
	}
	_, _ = io.WriteString(r.w, "]\n")
	return nil, nil
}

func (d *Daemon) post(r *request) (any, error) {
	if d.unavailable != "" {
		return nil, reject(503, "%s", d.unavailable)
	}
	done, err := d.acquireTurn(r.Context(), r.peer.QuotaKey())
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
	answer := s.info()
	answer.Bundle = s.bundle
	return answer, nil
}

func kill(_ *request, s *session) (any, error) {
	s.stop()
	return s.info(), nil
}

func (d *Daemon) putPolicy(r *request, s *session) (any, error) {
	done, err := d.acquireTurn(r.Context(), r.peer.QuotaKey())
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
		return nil, reject(400, "a reload needs a policy")
	}
	if err := s.reload(body.Policy, size, body.Reloads); err != nil {
		return nil, err
	}
	d.restrictNested(s.number)
	return s.info(), nil
}

// restrictNested restricts the nested sessions by the new policy of their outer session. It ends one where that fails.
func (d *Daemon) restrictNested(number uint64) {
	for _, in := range d.all(0) {
		if in.from != number {
			continue
		}
		if err := in.reapplyPolicy(); err != nil {
			d.log("session %s is ended: it can't be restricted by the new policy of the outer session: %v", in.id, err)
			in.stop()
		}
		d.restrictNested(in.number)
	}
}

// reapplyPolicy restricts the session by the current policies of its outer sessions. A hostile policy that makes it panic must not keep the
// other sessions from being restricted.
func (s *session) reapplyPolicy() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	p, err := s.policies()
	if err != nil {
		return err
	}
	return s.reload(p.asked, p.size, nil)
}

func putThread(r *request, s *session) (any, error) {
	var body api.Enter
	if err := r.read(&body); err != nil {
		return nil, err
	}
	thread, err := peer.ThreadOf(s.client.PID, body.Thread)
	if err != nil {
		return nil, err
	}
	if thread == s.client.PID {
		return nil, reject(400, "the first thread of a process can't enter a session: give another one")
	}
	return nil, s.expectThread(thread)
}

// postEnded answers when the session is over.
func postEnded(r *request, s *session) (any, error) {
	var body api.Outcome
	if err := r.read(&body); err != nil {
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
