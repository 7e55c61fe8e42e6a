package calls

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/api/http1"
	"github.com/toolguard/toolguard/internal/calls/serve"
	"github.com/toolguard/toolguard/internal/tool/approval"
	"github.com/toolguard/toolguard/internal/tool/gate"
	"github.com/toolguard/toolguard/internal/tool/message"
	"github.com/toolguard/toolguard/internal/tool/strictjson"
)

// maxWait is the longest that a client waits for an answer.
const maxWait = 24 * time.Hour

// Serve answers a request.
func (s *Service) Serve(ctx context.Context, r *serve.Request) (status int, body any) {
	body, err := s.route(ctx, r)
	if errors.Is(err, context.Canceled) { // the client has disconnected, or the server is closed
		err = http1.Reject(503, "the session has ended")
	}
	if err != nil {
		status := statusOf(err)
		if status == 403 || status == 409 {
			s.Record.Rejected(r, status, err)
		}
		return status, message.Failure{Error: err.Error()}
	}
	if body == nil {
		body = struct{}{}
	}
	return 200, body
}

// statusOf is the status of the answer to a request with an error.
func statusOf(err error) int {
	var own *http1.Error
	var bad *gate.BadCall
	var rejected *approval.RejectedError
	var conflict *approval.ConflictError
	var decided *approval.DecidedError
	var notOffered *approval.NotOfferedError
	var full *approval.FullError
	switch {
	case errors.As(err, &own):
		return own.Status
	case errors.As(err, &bad), errors.As(err, &rejected), errors.As(err, &notOffered):
		return 400
	case errors.Is(err, approval.ErrConfined):
		return 403
	case errors.Is(err, approval.ErrUnknown):
		return 404
	case errors.As(err, &conflict), errors.As(err, &decided):
		return 409
	case errors.As(err, &full):
		return 429
	}
	return 500
}

func (s *Service) route(ctx context.Context, r *serve.Request) (any, error) {
	if r.Peer.Confined && r.Peer.Session != s.Session { // on the socket outside, where nothing shows in which session it is
		return nil, http1.Reject(403, "the client is confined, and isn't known to be in session %s: a process of a session asks at its own TOOLGUARD_SOCKET", s.Session)
	}
	wait, err := waitOf(r)
	if err != nil {
		return nil, err
	}
	path, id := r.Path, ""
	for _, base := range []string{message.Calls, message.Approvals} {
		if rest, ok := strings.CutPrefix(path, base+"/"); ok {
			more := ""
			id, more, _ = strings.Cut(rest, "/")
			path = base + "/ID"
			if more != "" {
				path += "/" + more
			}
		}
	}
	switch r.Method + " " + path {
	case "POST " + message.Calls:
		return s.submit(ctx, r)
	case "GET " + message.Calls + "/ID":
		return s.State(ctx, id, r.Peer.Confined, wait)
	case "POST " + message.Calls + "/ID" + message.Result:
		end, err := parseEnd(r.Body)
		if err != nil {
			return nil, err
		}
		return nil, s.End(id, r.Peer.Confined, end)
	case "POST " + message.Calls + "/ID" + message.Cancel:
		return nil, s.Cancel(id, r.Peer.Confined)
	case "POST " + message.Approvals:
		return s.request(ctx, r)
	case "GET " + message.Approvals:
		return s.list(ctx, r, wait)
	case "GET " + message.Approvals + "/ID" + message.Decision:
		return s.decision(ctx, id, r.Peer.Confined, wait)
	case "POST " + message.Approvals + "/ID":
		return s.decide(id, r)
	}
	return nil, http1.Reject(404, "there is nothing at %s %s", r.Method, r.Path)
}

func waitOf(r *serve.Request) (time.Duration, error) {
	text := r.Query["wait_ms"]
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxWait.Milliseconds() {
		return 0, http1.Reject(400, "wait_ms is a number of milliseconds, at most %d", maxWait.Milliseconds())
	}
	return time.Duration(n) * time.Millisecond, nil
}

// submit reads a call. Beyond the keys of one it may have wait_ms.
func (s *Service) submit(ctx context.Context, r *serve.Request) (any, error) {
	text, wait, err := cutWait(r.Body)
	if err != nil {
		return nil, err
	}
	c, end, err := gate.Parse(text)
	switch {
	case err != nil:
		return nil, err
	case end != nil:
		return nil, http1.Reject(400, "it's the end of a call: POST it to %s/ID%s", message.Calls, message.Result)
	}
	if s.Engine.Store != nil && c.Invocation == "" {
		return nil, http1.Reject(400, "the policy counts calls by invocation, and the call has none")
	}
	if err := s.checkCaller(c, r.Peer.Confined); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	return s.Submit(ctx, c, hex.EncodeToString(sum[:]), r.Peer.Confined, wait)
}

// checkCaller rejects a call whose submitter may not speak for its caller: the processes of a session have one agent, and none is the owner.
func (s *Service) checkCaller(c *gate.Call, confined bool) error {
	switch {
	case confined && c.Owner:
		return http1.Reject(403, "a process of a session isn't the owner: leave owner out")
	case confined && c.Agent != "" && c.Agent != s.Agent: // which could have looser [approvals]
		return http1.Reject(403, "the call names the agent %q, which isn't the session's (%q): start the session with --agent", c.Agent, s.Agent)
	}
	c.Agent = cmp.Or(c.Agent, s.Agent)
	return nil
}

// cutWait takes wait_ms out of a call, and returns the call with its keys in order and without blanks: the same call has the same text.
func cutWait(text []byte) ([]byte, time.Duration, error) {
	if err := strictjson.Check(text); err != nil {
		return nil, 0, &gate.BadCall{Err: err}
	}
	keys, err := strictjson.Object(text)
	if err != nil {
		return nil, 0, &gate.BadCall{Err: err}
	}
	var n int64
	if value, ok := keys["wait_ms"]; ok && (json.Unmarshal(value, &n) != nil || n < 0 || n > maxWait.Milliseconds()) {
		return nil, 0, http1.Reject(400, "wait_ms is a number of milliseconds, at most %d", maxWait.Milliseconds())
	}
	delete(keys, "wait_ms")
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // people read it
	err = e.Encode(keys)
	return b.Bytes(), time.Duration(n) * time.Millisecond, err
}

// read reads a body with known keys alone.
func read(text []byte, v any) error {
	if err := strictjson.Check(text); err != nil {
		return http1.Reject(400, "the body: %v", err)
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return http1.Reject(400, "the body: %v", err)
	}
	return nil
}

func parseEnd(text []byte) (*message.End, error) {
	end := new(message.End)
	if err := read(text, end); err != nil {
		return nil, err
	}
	if (end.Result == nil) == (end.Error == nil) {
		return nil, http1.Reject(400, "the body has either a result or an error")
	}
	return end, nil
}

// request asks for a grant.
func (s *Service) request(ctx context.Context, r *serve.Request) (any, error) {
	m := new(message.Grant)
	if err := read(r.Body, m); err != nil {
		return nil, err
	}
	a, err := s.Request(ctx, m, r.Peer.Confined)
	if err != nil || a != nil {
		return a, err
	}
	once := message.AllowOnce
	return &message.Approval{Session: s.Session, Reason: "the policy allows it already", Decision: &once, Offers: []string{}, Files: []message.File{}}, nil
}

// list lists the approvals that wait for a person. With "since" it waits for changes, too.
func (s *Service) list(ctx context.Context, r *serve.Request, wait time.Duration) (any, error) {
	client := s.client(r.Peer.Confined)
	text, ok := r.Query["since"]
	if !ok {
		return &message.List{Approvals: list(s.Approvals.List(client))}, nil
	}
	since, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, http1.Reject(400, "since is the version of an earlier answer, or 0")
	}
	until, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	changed, version := s.Approvals.Changes(client, since, until.Done())
	if len(changed) == 0 && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return &message.List{Approvals: list(changed), Version: version}, nil
}

func list(all []message.Approval) []message.Approval { return append([]message.Approval{}, all...) }

// decision waits for a decision.
func (s *Service) decision(ctx context.Context, id string, confined bool, wait time.Duration) (any, error) {
	until, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	d, err := s.Approvals.Wait(s.client(confined), id, until.Done())
	switch {
	case errors.Is(err, approval.ErrPending) && ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, approval.ErrPending):
		return &message.Decided{Pending: true}, nil
	case err != nil:
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &message.Decided{Decision: d}
	if of := s.asked[id]; of != nil {
		out.Effect = of.effect
	}
	return out, nil
}

// decide records a decision. Who decides is the peer, whatever the body says.
func (s *Service) decide(id string, r *serve.Request) (any, error) {
	if r.Peer.Confined {
		return nil, approval.ErrConfined
	}
	d := new(message.Decided)
	if err := read(r.Body, d); err != nil {
		return nil, err
	}
	via := "api"
	if d.Via == "terminal" || d.Via == "command" {
		via = d.Via
	}
	effect, err := s.Decide(id, d, message.By{UID: r.Peer.UID, PID: r.Peer.PID, Exe: r.Peer.Exe, Via: via})
	if err != nil {
		return nil, err
	}
	return &message.Decided{Decision: d.Decision, Effect: effect}, nil
}
