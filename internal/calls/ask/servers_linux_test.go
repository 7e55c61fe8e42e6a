package ask

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/calls/client"
	"github.com/toolguard/toolguard/internal/calls/serve"
	"github.com/toolguard/toolguard/internal/calls/socket"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/approval"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// process is a process that serves approvals, on a real socket, and no calls.
type process struct {
	set     *approval.Set
	session string
	confine bool // treat each peer as confined
}

func (p *process) Serve(ctx context.Context, r *serve.Request) (int, any) {
	fail := func(status int, err error) (int, any) { return status, message.Failure{Error: err.Error()} }
	c := approval.Client{Unconfined: !p.confine && !r.Peer.Confined, Owner: r.Peer.Owner}
	id := strings.TrimPrefix(r.Path, message.Approvals+"/")
	wait, cancel := context.WithTimeout(ctx, milliseconds(r.Query["wait_ms"]))
	defer cancel()
	switch {
	case r.Method == "GET" && r.Path == message.Approvals:
		if r.Query["since"] == "" {
			return 200, message.List{Approvals: p.set.List(c)}
		}
		since, err := strconv.ParseUint(r.Query["since"], 10, 64)
		if err != nil {
			return fail(400, err)
		}
		changed, version := p.set.Changes(c, since, wait.Done())
		return 200, message.List{Approvals: changed, Version: version}
	case r.Method == "POST" && r.Path == message.Approvals:
		var g message.Grant
		if err := json.Unmarshal(r.Body, &g); err != nil {
			return fail(400, err)
		}
		a, err := p.set.Ask(c, &message.Approval{
			ID: g.ID, Session: p.session, Reason: g.Why, Rule: fmt.Sprintf("[[access.%s]]\npath = %q\n", g.Resource, g.Target),
			Offers: []string{message.AllowOnce, message.Deny},
		}, time.Minute)
		if err != nil {
			return fail(409, err)
		}
		return 200, a
	case r.Method == "GET" && strings.HasSuffix(id, message.Decision):
		id = strings.TrimSuffix(id, message.Decision)
		d, err := p.set.Wait(c, id, wait.Done())
		if errors.Is(err, approval.ErrPending) {
			return 200, message.Decided{Pending: true}
		}
		if err != nil {
			return fail(404, err)
		}
		made := message.Decided{Decision: d}
		if d != nil {
			made.Effect = "now"
		}
		return 200, made
	case r.Method == "POST":
		var d message.Decided
		if err := json.Unmarshal(r.Body, &d); err != nil {
			return fail(400, err)
		}
		err := p.set.Resolve(c, id, *d.Decision, message.By{UID: r.Peer.UID, PID: r.Peer.PID, Exe: r.Peer.Exe, Via: d.Via}, nil)
		var decided *approval.DecidedError
		switch {
		case errors.As(err, &decided):
			return fail(409, err)
		case errors.Is(err, approval.ErrConfined):
			return fail(403, err)
		case err != nil:
			return fail(404, err)
		}
		return 200, d
	}
	return fail(404, errors.New("nothing is here"))
}

func milliseconds(text string) time.Duration {
	n, _ := strconv.Atoi(text)
	return time.Duration(n) * time.Millisecond
}

// start serves approvals in a folder of the user's.
func start(t *testing.T, folder, session string) (*process, string) {
	t.Helper()
	p := &process{set: approval.New(approval.RealClock(), rand.Reader), session: session}
	s := serve.New(session, p, func(text string) { t.Log(text) })
	path, err := s.Outside([]string{folder})
	childtest.Must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return p, path
}

// asks adds an approval, as the session's own process does.
func (p *process) asks(t *testing.T, id string) {
	t.Helper()
	_, err := p.set.Ask(approval.Client{Owner: "agent"}, &message.Approval{
		ID: id, Session: p.session, Tool: "Bash", Argv: []string{"git", "push"}, Rule: "[[approved]]\n", Offers: []string{message.AllowOnce, message.AllowAlways, message.Deny},
	}, time.Minute)
	childtest.Must(t, err)
}

// folder is a folder for sockets, and the environment in which they are found.
func folder(t *testing.T) (string, Source) {
	t.Helper()
	run := t.TempDir()
	childtest.Must(t, os.Chmod(run, 0o700))
	getenv := func(name string) string { return map[string]string{"XDG_RUNTIME_DIR": run}[name] }
	return socket.Folders(t.TempDir(), getenv)[0], All(t.TempDir(), getenv)
}

func TestSeveralSessions(t *testing.T) {
	dir, all := folder(t)
	ctx := t.Context()
	if list, err := all.List(ctx); err != nil || len(list) != 0 {
		t.Fatal("without a session: ", list, err)
	}
	one, _ := start(t, dir, "session1")
	two, path := start(t, dir, "session2")
	if filepath.Dir(path) != dir {
		t.Fatal(path)
	}
	one.asks(t, "aa1")
	two.asks(t, "ab2")
	one.asks(t, "same")
	two.asks(t, "same")
	list, err := all.List(ctx)
	childtest.Must(t, err)
	var ids []string
	for _, a := range list {
		ids = append(ids, a.Session+" "+a.ID)
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"session1 aa1", "session1 same", "session2 ab2", "session2 same"}) {
		t.Errorf("%q", ids)
	}
	for prefix, want := range map[string]string{"aa": "aa1", "ab2": "ab2", "a": "2 approvals", "x": "there is no such", "": "there is no such"} {
		a, err := Find(list, prefix)
		if got := fmt.Sprint(err); a != nil && a.ID != want || a == nil && !strings.Contains(got, want) {
			t.Errorf("%q: %v, %v", prefix, a, err)
		}
	}
	allow, deny := message.AllowOnce, message.Deny
	_, err = all.Decide(ctx, "ab2", message.Decided{Decision: &allow, Via: "command"})
	childtest.Must(t, err)
	a, err := two.set.Get(approval.Client{Unconfined: true}, "ab2")
	if err != nil || *a.Decision != allow || a.ResolvedBy.PID != os.Getpid() || a.ResolvedBy.Via != "command" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := all.Decide(ctx, "ab2", message.Decided{Decision: &deny}); !errors.Is(err, ErrGone) { // it's listed no more
		t.Error("twice: ", err)
	}
	if _, err := all.Decide(ctx, "same", message.Decided{Decision: &allow}); err == nil || !strings.Contains(err.Error(), "2 sessions") {
		t.Error("an id of two sessions: ", err)
	}
	one.confine = true
	if _, err := all.Decide(ctx, "aa1", message.Decided{Decision: &allow}); err == nil {
		t.Error("a confined process decided")
	}
}

// TestRace: of two that decide about what both have seen, one learns that the other was first.
func TestRace(t *testing.T) {
	dir, all := folder(t)
	p, _ := start(t, dir, "session1")
	for i := range 20 {
		id := fmt.Sprint("id", i)
		p.asks(t, id)
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for j, d := range []string{message.AllowOnce, message.Deny} {
			wg.Go(func() { _, errs[j] = all.Decide(t.Context(), id, message.Decided{Decision: &d}) })
		}
		wg.Wait()
		var already *DecidedError
		loser := errors.Join(errs...)
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(loser, ErrGone) && !errors.As(loser, &already) {
			t.Fatal(errs)
		}
	}
}

func TestWatch(t *testing.T) {
	dir, all := folder(t)
	ctx, cancel := context.WithCancel(t.Context())
	lines := make(chan string, 100)
	done := make(chan error, 1)
	c := Changes{
		Asked: func(a *message.Approval) error { lines <- "asked " + a.ID; return nil },
		Ended: func(a *message.Approval, gone bool) error {
			lines <- "ended " + a.ID + " " + Outcome(a, gone, time.Now())
			return nil
		},
	}
	go func() { done <- c.Watch(ctx, all) }()
	next := func(want string) {
		t.Helper()
		select {
		case got := <-lines:
			if !strings.HasPrefix(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("waited in vain for %q", want)
		}
	}
	p, _ := start(t, dir, "session1") // after the watching began
	p.asks(t, "one")
	next("asked one")
	p.asks(t, "two")
	next("asked two")
	user := approval.Client{Unconfined: true}
	childtest.Must(t, p.set.Resolve(user, "one", message.Deny, message.By{UID: 7, Via: "terminal"}, nil))
	next("ended one deny, by user 7")
	childtest.Must(t, p.set.Cancel(approval.Client{Owner: "agent"}, "two"))
	next("ended two withdrawn")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	// A function's error ends it.
	p.asks(t, "three")
	c = Changes{Asked: func(*message.Approval) error { return errors.New("broken pipe") }}
	if err := c.Watch(t.Context(), all); err == nil || err.Error() != "broken pipe" {
		t.Error(err)
	}
}

func TestRequest(t *testing.T) {
	dir, _ := folder(t)
	p, path := start(t, dir, "session1")
	do := (&client.Client{Address: path}).Do
	g := message.Grant{Resource: "fs", Action: "read", Target: "/x", Why: "tests"}
	r, err := Request(t.Context(), do, g, 0)
	if err != nil || !r.Open || r.Approval.Decision != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	id := r.Approval.ID
	results := make(chan Requested, 1)
	go func() {
		r, err := Request(t.Context(), do, g, -1) // the same request is the same approval
		if err != nil {
			t.Error(err)
		}
		results <- r
	}()
	time.Sleep(50 * time.Millisecond)
	childtest.Must(t, p.set.Resolve(approval.Client{Unconfined: true}, id, message.AllowOnce, message.By{UID: 7}, nil))
	if r := <-results; r.Open || r.Approval.ID != id || *r.Approval.Decision != message.AllowOnce || r.Effect != "now" {
		t.Errorf("%+v", r)
	}
	g.Why = "another"
	if r, err = Request(t.Context(), do, g, 20*time.Millisecond); err != nil || !r.Open || r.Approval.ID == id {
		t.Errorf("%+v, %v", r, err)
	}
	childtest.Must(t, p.set.Cancel(approval.Client{Unconfined: true}, r.Approval.ID))
}
