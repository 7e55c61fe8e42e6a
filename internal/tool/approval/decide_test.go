package approval

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/message"
)

func TestResolveErrors(t *testing.T) {
	s, _ := newTestSet()
	once := ask("once", "make")
	once.Offers = []string{message.AllowOnce, message.Deny}
	for _, a := range []*message.Approval{once, ask("decided", "make"), ask("cancelled", "make")} {
		mustAsk(t, s, confined, a)
	}
	childtest.Must(t, s.Resolve(user, "decided", message.Deny, by, nil))
	childtest.Must(t, s.Cancel(confined, "cancelled"))
	for _, row := range []struct {
		client             Client
		id, decision, want string
	}{
		{user, "none", message.Deny, ErrUnknown.Error()},
		{user, "cancelled", message.Deny, ErrCancelled.Error()},
		{user, "decided", message.Deny, "it's already decided: deny"},
		{user, "once", message.AllowAlways, `the decision "allow-always" isn't possible here: use one of allow-once, deny`},
		{user, "once", "", `the decision "" isn't possible here: use one of allow-once, deny`},
		{user, "once", "ALLOW-ONCE", `the decision "ALLOW-ONCE" isn't possible here: use one of allow-once, deny`},
		{confined, "once", message.AllowOnce, ErrConfined.Error()},
		{confined, "none", message.AllowOnce, ErrConfined.Error()},
	} {
		err := s.Resolve(row.client, row.id, row.decision, by, func(*message.Approval) error { t.Error("stored"); return nil })
		if err == nil || err.Error() != row.want {
			t.Errorf("%+v: %v", row, err)
		}
	}
	wantAnswer(t, s, confined, "once", "pending")
	childtest.Must(t, s.Resolve(user, "once", message.AllowOnce, by, nil))
	wantAnswer(t, s, confined, "once", message.AllowOnce) // the positive control
}

// Of many decisions at once one counts, and it's stored once. All who wait get it.
func TestOneDecision(t *testing.T) {
	for _, failing := range []bool{false, true} {
		s := New(RealClock(), newRandom())
		mustAsk(t, s, confined, ask("1", "make"))
		var group sync.WaitGroup
		var mu sync.Mutex
		var made, stored, answers []string
		for i := range 16 {
			decision := []string{message.AllowOnce, message.Deny}[i%2]
			group.Go(func() {
				err := s.Resolve(user, "1", decision, by, func(a *message.Approval) error {
					mu.Lock()
					defer mu.Unlock()
					if failing && len(stored) == 0 && *a.Decision == message.AllowOnce {
						return errors.New("disk full")
					}
					stored = append(stored, *a.Decision)
					return nil
				})
				mu.Lock()
				defer mu.Unlock()
				if other := (*DecidedError)(nil); err == nil {
					made = append(made, decision)
				} else if !errors.As(err, &other) && !failing {
					t.Error(err)
				}
			})
			group.Go(func() {
				decision, err := s.Wait(confined, "1", nil)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				answers = append(answers, *decision)
			})
		}
		group.Wait()
		if len(made) != 1 || !slices.Equal(made, stored) || len(answers) != 16 || len(slices.Compact(answers)) != 1 || answers[0] != made[0] {
			t.Errorf("made %v, stored %v, answers %v", made, stored, answers)
		}
	}
}

// A decision that isn't stored isn't made: nobody gets it, and another one is possible. It's stored before anyone gets it.
func TestStore(t *testing.T) {
	s, _ := newTestSet()
	mustAsk(t, s, confined, ask("1", "make"))
	if err := s.Resolve(user, "1", message.AllowAlways, by, func(*message.Approval) error { return errDisk }); !errors.Is(err, errDisk) {
		t.Error(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = s.Resolve(user, "1", message.AllowAlways, by, func(*message.Approval) error { panic("x") })
	}()
	wantAnswer(t, s, confined, "1", "pending")
	childtest.Must(t, s.Resolve(user, "1", message.AllowAlways, by, func(a *message.Approval) error {
		if got := answer(s, confined, "1"); got != "pending" || *a.Decision != message.AllowAlways || a.Resolved == 0 || *a.ResolvedBy != by || a.Rule != ask("").Rule {
			t.Errorf("%s %+v", got, a)
		}
		return nil
	}))
	wantAnswer(t, s, confined, "1", message.AllowAlways)
}

var errDisk = errors.New("disk full")

// What happens while a decision is stored: the time ends after it; a withdrawal counts.
func TestWhileStoring(t *testing.T) {
	for _, row := range []struct {
		cancel   bool
		store    error
		err      error
		decision string
	}{
		{false, nil, nil, message.AllowOnce}, {false, errDisk, errDisk, "null"}, {true, nil, ErrCancelled, "cancelled"}, {true, errDisk, errDisk, "cancelled"},
	} {
		s, f := newTestSet()
		mustAsk(t, s, confined, ask("1", "make"))
		err := s.Resolve(user, "1", message.AllowOnce, by, func(*message.Approval) error {
			f.advance(2 * time.Minute)
			wantAnswer(t, s, confined, "1", "pending")
			if row.cancel {
				childtest.Must(t, s.Cancel(confined, "1"))
				wantAnswer(t, s, confined, "1", "cancelled")
			}
			return row.store
		})
		if got := answer(s, confined, "1"); !errors.Is(err, row.err) || got != row.decision {
			t.Errorf("%+v: %s %v", row, got, err)
		}
	}
}

// A confined process sees, waits for and withdraws its own requests alone.
func TestOwner(t *testing.T) {
	s, _ := newTestSet()
	mustAsk(t, s, confined, ask("own", "make"))
	mustAsk(t, s, other, ask("other", "make"))
	mustAsk(t, s, user, ask("user", "make"))
	for _, row := range []struct {
		client Client
		want   []string
	}{
		{user, []string{"own", "other", "user"}},
		{confined, []string{"own"}},
		{other, []string{"other"}},
		{Client{}, nil}, // not those of unconfined clients, which have no owner
	} {
		list := s.List(row.client)
		changes, version := s.Changes(row.client, 0, never)
		if !slices.Equal(ids(list), row.want) || !slices.Equal(ids(changes), row.want) || version != 3 {
			t.Errorf("%+v: %v %v", row, ids(list), ids(changes))
		}
		for _, id := range []string{"own", "other", "user"} {
			_, err := s.Get(row.client, id)
			got, want := answer(s, row.client, id), "unknown"
			if slices.Contains(row.want, id) {
				want = "pending"
			}
			if got != want || err == nil != (want == "pending") || err != nil && !errors.Is(err, ErrUnknown) {
				t.Errorf("%+v %s: %s %v", row, id, got, err)
			}
			if row.client != user && want == "unknown" {
				if err := s.Cancel(row.client, id); !errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
			}
		}
	}
	if n := len(s.List(user)); n != 3 {
		t.Error(n)
	}
}

func TestCancel(t *testing.T) {
	s, f := newTestSet()
	for _, id := range []string{"decided", "expired", "cancelled"} {
		mustAsk(t, s, confined, ask(id, "make"))
	}
	childtest.Must(t, s.Resolve(user, "decided", message.Deny, by, nil))
	childtest.Must(t, s.Cancel(confined, "cancelled"))
	childtest.Must(t, s.Cancel(user, "cancelled"))
	decided := (*DecidedError)(nil)
	if err := s.Cancel(confined, "decided"); !errors.As(err, &decided) {
		t.Error(err)
	}
	if _, err := s.Get(confined, "cancelled"); !errors.Is(err, ErrCancelled) {
		t.Error(err)
	}
	f.advance(2 * time.Minute)
	for _, id := range []string{"none", "expired", "cancelled"} {
		if err := s.Cancel(confined, id); !errors.Is(err, ErrUnknown) {
			t.Error(id, err)
		}
	}
}

// Those who wait are released when a decision is made, when the time ends, when the request is withdrawn and when they are done, and by
// nothing else. Nothing waits for a timer or a poll: in the bubble of the test, time passes only when all goroutines wait.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(RealClock(), newRandom())
		for _, row := range []struct {
			end   func(id string) error
			after time.Duration
			want  string
		}{
			{func(id string) error { return s.Resolve(user, id, message.Deny, by, nil) }, 7 * time.Second, "deny <nil>"},
			{func(id string) error { return s.Cancel(confined, id) }, 8 * time.Second, "null " + ErrCancelled.Error()},
			{func(string) error { return nil }, 2 * time.Minute, "null <nil>"},
			{nil, 9 * time.Second, "null " + ErrPending.Error()},
		} {
			id, begin, done := mustAsk(t, s, confined, ask("", "make")).ID, time.Now(), make(chan struct{})
			answers := make(chan string, 3)
			for range cap(answers) {
				go func() {
					decision, err := s.Wait(confined, id, done)
					if decision == nil {
						decision = new(string)
						*decision = "null"
					}
					answers <- fmt.Sprintf("%s %v after %s", *decision, err, time.Since(begin))
				}()
			}
			synctest.Wait()
			if time.Sleep(min(row.after, 10*time.Second)); row.end == nil {
				close(done)
			} else {
				childtest.Must(t, row.end(id))
			}
			for range cap(answers) {
				if got, want := <-answers, fmt.Sprintf("%s after %s", row.want, row.after); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		}
		time.Sleep(Grace + 2*time.Minute)
		synctest.Wait()
		if len(s.entries) != 0 {
			t.Error(len(s.entries))
		}
	})
}

// A decision reaches a process that waits at once.
func TestLatency(t *testing.T) {
	s := New(RealClock(), newRandom())
	mustAsk(t, s, confined, ask("1", "make"))
	arrived := make(chan time.Time)
	go func() {
		_, _ = s.Wait(confined, "1", nil)
		arrived <- time.Now()
	}()
	time.Sleep(10 * time.Millisecond)
	begin := time.Now()
	childtest.Must(t, s.Resolve(user, "1", message.Deny, by, nil))
	if took := (<-arrived).Sub(begin); took > 5*time.Second {
		t.Error(took)
	} else {
		t.Log(took)
	}
}

// A watcher gets what is new and what has ended, once, in this order; a slow one misses nothing within the grace time, and stops nobody.
func TestChanges(t *testing.T) {
	s, f := newTestSet()
	var version uint64
	check := func(c Client, want ...string) {
		t.Helper()
		var list []message.Approval
		list, version = s.Changes(c, version, never)
		var got []string
		for _, a := range list {
			switch {
			case a.Decision != nil:
				got = append(got, a.ID+" "+*a.Decision)
			case a.Resolved != 0:
				got = append(got, a.ID+" null")
			default:
				got = append(got, a.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	check(user)
	for _, id := range []string{"1", "2", "3", "4"} {
		mustAsk(t, s, confined, ask(id, "make"))
	}
	check(user, "1", "2", "3", "4")
	check(user)
	childtest.Must(t, s.Cancel(confined, "3"))
	childtest.Must(t, s.Resolve(user, "1", message.Deny, by, nil))
	mustAsk(t, s, other, ask("5", "make"))
	check(user, "3 null", "1 deny", "5")
	f.advance(2 * time.Minute)
	check(user, "2 null", "4 null", "5 null")
	f.advance(Grace)
	check(user)
	mustAsk(t, s, other, ask("6", "make"))
	check(confined)
	version = 0
	check(user, "6")
	version = 1000 // of a set that is gone
	check(user, "6")

	waiting := make(chan []string)
	go func() {
		list, _ := s.Changes(confined, version, nil)
		waiting <- ids(list)
	}()
	mustAsk(t, s, other, ask("7", "make"))
	childtest.Must(t, s.Cancel(user, "7"))
	mustAsk(t, s, confined, ask("8", "make"))
	if got := <-waiting; !slices.Equal(got, []string{"8"}) {
		t.Error(got)
	}
}
