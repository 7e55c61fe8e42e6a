package daemon

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/proc"
)

// accounting is a toolguardd that only counts what is used.
func accounting(l Limits) *Daemon {
	return &Daemon{cfg: Config{Limits: l}, sessions: map[uint64]*session{}, reserved: map[peer.QuotaKey]usage{}, leaving: map[peer.QuotaKey]usage{}}
}

// A user's unconfined processes, the user's confined processes, and other users have separate quotas.
func TestLimits(t *testing.T) {
	d := accounting(Limits{Sessions: 2, Lines: 100, Policies: 1000, Bodies: 1})
	there := &session{uid: 7}
	there.lines.Store(60)
	there.size.Store(600)
	d.sessions[1] = there
	user := peer.QuotaKey{UID: 7}
	for _, x := range []struct {
		key         peer.QuotaKey
		lines, size int
		ok          bool
	}{
		{user, 40, 400, true},
		{user, 41, 400, false},
		{user, 40, 401, false},
		{peer.QuotaKey{UID: 8}, 100, 1000, true},
		{peer.QuotaKey{UID: 8}, 101, 0, false},
		{peer.QuotaKey{UID: 7, Confined: true}, 100, 1000, true},
	} {
		done, err := d.reserve(x.key, usage{sessions: 1, lines: x.lines, size: x.size})
		if (err == nil) != x.ok {
			t.Errorf("%+v: %v", x, err)
		}
		if err == nil {
			done()
		}
	}
	if done, err := d.reserve(user, usage{1, 1, 1, 1}); err == nil {
		done()
		t.Error("a network where none may be had")
	}
	done, err := d.reserve(user, usage{1, 0, 1, 1})
	must(t, err)
	if _, err := d.reserve(user, usage{1, 0, 1, 1}); err == nil {
		t.Error("a third session, with one that is being made")
	}
	done()
	if _, err := d.reserve(user, usage{1, 0, 1, 1}); err != nil {
		t.Error(err)
	}
}

// A session that is being created counts as if it existed.
func TestReservations(t *testing.T) {
	d := accounting(Limits{Sessions: 9, Lines: 100, Policies: 1000})
	user := peer.QuotaKey{UID: 7}
	for _, x := range []struct{ first, second usage }{
		{usage{sessions: 1, lines: 60}, usage{sessions: 1, lines: 41}},
		{usage{sessions: 1, size: 600}, usage{sessions: 1, size: 401}},
		{usage{lines: 60}, usage{lines: 41}}, // another policy for an existing session
	} {
		done, err := d.reserve(user, x.first)
		must(t, err)
		if _, err := d.reserve(user, x.second); err == nil {
			t.Errorf("%+v in addition to %+v", x.second, x.first)
		}
		done()
		done, err = d.reserve(user, x.second)
		if err != nil {
			t.Fatalf("%+v after %+v: %v", x.second, x.first, err)
		}
		done()
	}
	if len(d.reserved) != 0 {
		t.Errorf("%+v is left", d.reserved)
	}
	// A change that uses no more is allowed, even above limits that were lowered since.
	full := &session{uid: 7}
	full.lines.Store(200)
	d.sessions[1] = full
	if _, err := d.reserve(user, usage{size: 1}); err != nil {
		t.Error(err)
	}
}

// An ended session counts until the kernel has freed it. A request that only such sessions prevent waits a moment.
func TestLeaving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := accounting(Limits{Sessions: 1})
		user, one := peer.QuotaKey{UID: 7}, usage{sessions: 1}
		began := time.Now()
		gone := d.addUsage(d.leaving, user, one)
		if _, err := d.reserve(user, one); err == nil || time.Since(began) < time.Second {
			t.Errorf("%v, after %v", err, time.Since(began))
		}
		began = time.Now()
		if _, err := d.reserve(user, usage{sessions: 2}); err == nil || time.Since(began) != 0 { // it would be rejected anyway
			t.Errorf("%v, after %v", err, time.Since(began))
		}
		time.AfterFunc(500*time.Millisecond, gone)
		done, err := d.reserve(user, one)
		must(t, err)
		began = time.Now()
		if _, err := d.reserve(user, one); err == nil || time.Since(began) != 0 { // a session is being created
			t.Errorf("%v, after %v", err, time.Since(began))
		}
		done()
		if len(d.leaving)+len(d.reserved) != 0 {
			t.Errorf("%+v, %+v", d.leaving, d.reserved)
		}
	})
}

// The number of a user's sessions with egress is limited.
func TestNetworks(t *testing.T) {
	d := accounting(Limits{Sessions: 9, Networks: 2, Lines: 100, Policies: 1000, Bodies: 1})
	d.sessions[1], d.sessions[2] = &session{uid: 7, network: &networkRecord{}}, &session{uid: 7}
	user := peer.QuotaKey{UID: 7}
	done, err := d.reserve(user, usage{1, 1, 1, 1})
	must(t, err)
	if _, err := d.reserve(user, usage{1, 1, 1, 1}); err == nil {
		t.Error("a third network")
	}
	for _, key := range []peer.QuotaKey{user, {UID: 8}, {UID: 7, Confined: true}} {
		more := usage{1, 1, 1, 1}
		if key == user {
			more.networks = 0
		}
		if _, err := d.reserve(key, more); err != nil {
			t.Errorf("%+v: %v", key, err)
		}
	}
	done()
	if _, err := d.reserve(user, usage{1, 1, 1, 1}); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// The bodies of one user's requests are read one after the other, those of other users in parallel.
func TestTurns(t *testing.T) {
	d := &Daemon{cfg: Config{Limits: Limits{Bodies: 1}}, turns: map[peer.QuotaKey]chan struct{}{}}
	done, err := d.acquireTurn(t.Context(), peer.QuotaKey{UID: 7})
	must(t, err)
	late, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := d.acquireTurn(late, peer.QuotaKey{UID: 7}); err == nil {
		t.Error("two at a time")
	}
	if _, err := d.acquireTurn(t.Context(), peer.QuotaKey{UID: 8}); err != nil {
		t.Error(err)
	}
	if _, err := d.acquireTurn(t.Context(), peer.QuotaKey{UID: 7, Confined: true}); err != nil {
		t.Errorf("confined processes wait for their user's unconfined ones: %v", err)
	}
	done()
	if _, err := d.acquireTurn(t.Context(), peer.QuotaKey{UID: 7}); err != nil {
		t.Error(err)
	}
}

// A request that waits too long is rejected, and may be sent again.
func TestLongTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Daemon{cfg: Config{Limits: Limits{Bodies: 1}}, turns: map[peer.QuotaKey]chan struct{}{}}
		if _, err := d.acquireTurn(t.Context(), peer.QuotaKey{UID: 7}); err != nil {
			t.Fatal(err)
		}
		if _, err := d.acquireTurn(t.Context(), peer.QuotaKey{UID: 7}); err == nil || err.(*statusError).status != 429 || !strings.Contains(err.Error(), "1 long requests of user 7") {
			t.Error(err)
		}
	})
}

// A client that doesn't send the announced body is rejected, and doesn't block other clients.
func TestSilentBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Daemon{bodies: make(chan struct{}, 1)}
		asked, answers := net.Pipe()
		l := &onlyOne{conns: make(chan net.Conn, 1)}
		l.conns <- answers
		serveAs(t, l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d.answer(w, r, anyProcess, func(r *request) (any, error) {
				_, err := d.readPolicy(r, &api.Start{})
				return nil, err
			})
		}), &peer.Peer{})
		since := time.Now()
		if _, err := asked.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(d.bodies) != 0 {
			t.Error("other clients wait for the body")
		}
		answer, err := io.ReadAll(asked)
		if waited := time.Since(since); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") || waited > 2*answering {
			t.Errorf("after %v: %s, %v", waited, answer, err)
		}
	})
}

// onlyOne is a listener with the connections that are in it.
type onlyOne struct{ conns chan net.Conn }

func (l *onlyOne) Accept() (net.Conn, error) {
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (l *onlyOne) Close() error {
	close(l.conns)
	return nil
}

func (l *onlyOne) Addr() net.Addr { return &net.UnixAddr{} }

// The number of policies that are parsed at a time is limited for all users together.
func TestBodies(t *testing.T) {
	d, c := served(t, DefaultLimits)
	d.unavailable = "" // requests are checked before the kernel is used
	for range maxBodies {
		d.bodies <- struct{}{}
	}
	done := make(chan error, 1)
	go func() { done <- c.Do("POST", api.Sessions, api.Start{}, nil) }()
	select {
	case err := <-done:
		t.Fatalf("one more is parsed at once: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	<-d.bodies
	wantRejection(t, <-done, 400, "needs a policy and a command")
}

// After any number of reloads a session has two images in the kernel and three policies: the first, the current and the former one. A nested
// session's size includes the policies of the outer ones.
func TestFill(t *testing.T) {
	d := &Daemon{sessions: map[uint64]*session{}}
	var r record
	for _, x := range []struct{ lines, size, around, wantLines, wantSize int }{
		{100, 1000, 0, 100, 1000},
		{10, 200, 50, 110, 1250},
		{20, 300, 0, 30, 1550},
		{40, 400, 0, 60, 1700},
	} {
		r.fill(x.lines, x.size, x.around)
		r.Generation++
		s := d.newSession(&r, proc.Ended(1))
		if got, want := s.quotaUsage(), (usage{sessions: 1, lines: x.wantLines, size: x.wantSize}); got != want {
			t.Errorf("%+v: %+v", x, got)
		}
		d.sessions[7] = s
		if got := d.sizeOf(7); got != x.size+x.around {
			t.Errorf("%+v: %d", x, got)
		}
		if _, err := s.events.Close(); err != nil {
			t.Error(err)
		}
	}
	if got := d.sizeOf(8); got != 0 {
		t.Errorf("none: %d", got)
	}
}
