package approval

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/message"
)

func mustAsk(t testing.TB, s *Set, c Client, a *message.Approval) *message.Approval {
	t.Helper()
	got, err := s.Ask(c, a, 2*time.Minute)
	childtest.Must(t, err)
	return got
}

// answer is the outcome of a question that doesn't wait, as a word.
func answer(s *Set, c Client, id string) string {
	decision, err := s.Wait(c, id, never)
	switch {
	case errors.Is(err, ErrCancelled):
		return "cancelled"
	case errors.Is(err, ErrUnknown):
		return "unknown"
	case errors.Is(err, ErrPending):
		return "pending"
	case err != nil:
		return err.Error()
	case decision == nil:
		return "null"
	}
	return *decision
}

func wantAnswer(t *testing.T, s *Set, c Client, id, want string) {
	t.Helper()
	if got := answer(s, c, id); got != want {
		t.Errorf("the answer of %s is %s, want %s", id, got, want)
	}
}

func ids(list []message.Approval) (out []string) {
	for _, a := range list {
		out = append(out, a.ID)
	}
	return out
}

// Without an answer the decision is null, for those who wait and for another 15 seconds. Then the approval isn't known any more.
func TestExpiry(t *testing.T) {
	s, f := newTestSet()
	a := mustAsk(t, s, confined, ask("1", "make"))
	if a.Created != f.now.UnixMilli() || a.Expires != a.Created+120000 || a.Decision != nil || a.Resolved != 0 {
		t.Errorf("%+v", a)
	}
	waiting := make(chan string)
	go func() {
		decision, err := s.Wait(confined, "1", nil)
		waiting <- fmt.Sprint(decision == nil, err)
	}()
	f.advance(2*time.Minute - time.Millisecond)
	wantAnswer(t, s, confined, "1", "pending")
	f.advance(time.Millisecond)
	if got := <-waiting; got != "true <nil>" {
		t.Error(got)
	}
	f.advance(Grace - time.Millisecond)
	wantAnswer(t, s, confined, "1", "null")
	if err := s.Resolve(user, "1", message.AllowOnce, by, nil); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	f.advance(time.Millisecond)
	wantAnswer(t, s, confined, "1", "unknown")
	if len(f.timers) != 0 || len(s.entries) != 0 || s.bytes != 0 || s.open != 0 || s.confined != 0 {
		t.Errorf("%d timers, %+v", len(f.timers), s)
	}
}

// A decision that comes when the time has ended is none, even if the timer is late.
func TestLateTimer(t *testing.T) {
	s, f := newTestSet()
	mustAsk(t, s, confined, ask("1", "make"))
	f.sleep(2 * time.Minute)
	if err := s.Resolve(user, "1", message.AllowOnce, by, nil); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
	wantAnswer(t, s, confined, "1", "null")
	f.advance(0)
	wantAnswer(t, s, confined, "1", "null")
}

// A decision is known for 15 seconds after it was made, to those who have asked and to those who ask again.
func TestGrace(t *testing.T) {
	s, f := newTestSet()
	mustAsk(t, s, confined, ask("1", "make"))
	childtest.Must(t, s.Resolve(user, "1", message.AllowAlways, by, nil))
	f.advance(Grace - time.Millisecond)
	wantAnswer(t, s, confined, "1", message.AllowAlways)
	if a := mustAsk(t, s, confined, ask("1", "make")); a.Decision == nil || *a.Decision != message.AllowAlways || a.Resolved == 0 || *a.ResolvedBy != by {
		t.Errorf("%+v", a)
	}
	f.advance(time.Millisecond)
	wantAnswer(t, s, confined, "1", "unknown")
	if a := mustAsk(t, s, confined, ask("1", "make")); a.Decision != nil || a.Resolved != 0 { // a new one
		t.Errorf("%+v", a)
	}
}

// The same id with the same request is one approval, with another it's a conflict: while it's pending, when it has ended, and when it's gone.
func TestSameID(t *testing.T) {
	for _, end := range []string{"pending", "decided", "expired", "cancelled"} {
		for _, gone := range []bool{false, true} {
			s, f := newTestSet()
			first := mustAsk(t, s, confined, ask("1", "make"))
			f.advance(time.Second)
			switch end {
			case "decided":
				childtest.Must(t, s.Resolve(user, "1", message.AllowOnce, by, nil))
			case "expired":
				f.advance(2*time.Minute - time.Second)
			case "cancelled":
				childtest.Must(t, s.Cancel(confined, "1"))
			}
			if gone && end != "pending" {
				f.advance(Grace)
			}
			for name, a := range map[string]*message.Approval{"other": ask("1", "rm"), "own": ask("1", "make")} {
				for _, c := range []Client{confined, other, user} {
					got, err := s.Ask(c, a, time.Minute)
					switch conflict := (*ConflictError)(nil); {
					case name == "own" && c == confined:
						if isNew := end == "cancelled" || gone && end != "pending"; err != nil || got.Created != first.Created != isNew {
							t.Errorf("%s %t: %+v %v", end, gone, got, err)
						}
					case !errors.As(err, &conflict):
						t.Errorf("%s %t, %s by %+v: %v", end, gone, name, c, err)
					}
				}
			}
		}
	}
}

// Each field that a person sees makes another request, and each new one does.
func TestDigest(t *testing.T) {
	outcome := map[string]bool{"Created": true, "Expires": true, "Decision": true, "Resolved": true, "ResolvedBy": true, "ID": true}
	of := func(c Client, a *message.Approval) any {
		r, err := newRequest(c, a)
		childtest.Must(t, err)
		return r.digest
	}
	want := of(confined, ask("1", "make"))
	for i := range reflect.TypeFor[message.Approval]().NumField() {
		a, name := ask("1", "make"), reflect.TypeFor[message.Approval]().Field(i).Name
		switch v := reflect.ValueOf(a).Elem().Field(i).Addr().Interface().(type) {
		case *string:
			*v += "x"
		case *int64:
			*v++
		case *[]string:
			*v = (*v)[1:]
			if name == "Offers" {
				*v = []string{message.Deny}
			}
		case *[]message.File:
			*v = []message.File{{Path: "/x"}}
		case **message.File:
			*v = &message.File{Path: "/x"}
		case **message.By:
			*v = &by
		case **string:
			*v = new(string)
		default:
			a.Arguments = []byte(`{}`)
		}
		if same := of(confined, a) == want; same != outcome[name] {
			t.Errorf("another %s is the same request: %t", name, same)
		}
	}
	for _, c := range []Client{other, user, {Owner: "s1", Unconfined: true}} {
		if of(c, ask("1", "make")) == want {
			t.Errorf("the request of %+v is that of %+v", c, confined)
		}
	}
}

func TestRejected(t *testing.T) {
	for _, row := range []struct {
		name string
		edit func(*message.Approval)
		want string
	}{
		{"control character", func(a *message.Approval) { a.ID = "a\x1bb" }, "no control characters"},
		{"C1 control character", func(a *message.Approval) { a.ID = "a\u009bb" }, "no control characters"},
		{"long id", func(a *message.Approval) { a.ID = strings.Repeat("a", 257) }, "at most 256 bytes"},
		{"id", func(a *message.Approval) { a.ID = "\xff" }, "UTF-8"},
		{"argv", func(a *message.Approval) { a.Argv = []string{"\xff"} }, "UTF-8"},
		{"file", func(a *message.Approval) { a.Files = []message.File{{Path: "/\xff"}} }, "UTF-8"},
		{"exe", func(a *message.Approval) { a.Exe = &message.File{Path: "/\xff"} }, "UTF-8"},
		{"arguments", func(a *message.Approval) { a.Arguments = []byte("\"\xff\"") }, "UTF-8"},
		{"no JSON", func(a *message.Approval) { a.Arguments = []byte("{") }, "no JSON"},
		{"no offers", func(a *message.Approval) { a.Offers = nil }, "offers no decision"},
		{"unknown offer", func(a *message.Approval) { a.Offers = []string{"allow"} }, `can't offer "allow"`},
		{"one offer twice", func(a *message.Approval) { a.Offers = []string{message.Deny, message.Deny} }, `can't offer "deny"`},
		{"no rule", func(a *message.Approval) { a.Rule = "" }, "shows no rule"},
		{"large", func(a *message.Approval) { a.Reason = strings.Repeat("a", maxSize) }, "64 KiB, more than 64"},
	} {
		s, _ := newTestSet()
		a := ask("1", "make")
		row.edit(a)
		_, err := s.Ask(user, a, time.Minute)
		if got := (*RejectedError)(nil); !errors.As(err, &got) || !strings.Contains(got.Text, row.want) || len(s.entries) != 0 {
			t.Errorf("%s: %v", row.name, err)
		}
	}
	s, _ := newTestSet()
	for _, timeout := range []time.Duration{-1, 0, time.Microsecond, maxTimeout + 1} {
		_, err := s.Ask(user, ask("1", "make"), timeout)
		if got := (*RejectedError)(nil); !errors.As(err, &got) {
			t.Errorf("%s: %v", timeout, err)
		}
	}
	good := ask(strings.Repeat("ä", 128), "make")
	good.Rule, good.Offers, good.Reason = "", []string{message.AllowOnce, message.Deny}, strings.Repeat("a", maxSize-1000)
	for _, timeout := range []time.Duration{minTimeout, maxTimeout} {
		if _, err := s.Ask(user, good, timeout); err != nil {
			t.Errorf("the positive control: %v", err)
		}
	}
}

// Without an id it's a random one; without random bytes there is no approval.
func TestRandomID(t *testing.T) {
	s, _ := newTestSet()
	first, second := mustAsk(t, s, confined, ask("", "make")), mustAsk(t, s, confined, ask("", "make"))
	if first.ID == second.ID || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(first.ID) {
		t.Errorf("%q %q", first.ID, second.ID)
	}
	s = New(newFakeClock().clock(), strings.NewReader("short"))
	if _, err := s.Ask(user, ask("", "make"), time.Minute); !errors.Is(err, io.ErrUnexpectedEOF) || len(s.entries) != 0 {
		t.Error(err)
	}
}

// What the caller does to the approval later doesn't change what a person sees.
func TestCopied(t *testing.T) {
	s, _ := newTestSet()
	a := ask("1", "make", "test")
	a.Exe, a.Files, a.Arguments = &message.File{Path: "/a"}, []message.File{{Path: "/b"}}, []byte(`"c"`)
	decision := message.AllowOnce
	a.Decision, a.Resolved, a.ResolvedBy = &decision, 1, &by
	mustAsk(t, s, user, a)
	a.Argv[0], a.Exe.Path, a.Files[0].Path, a.Arguments[1], a.Offers[0] = "rm", "/x", "/x", 'x', "x"
	got, err := s.Get(user, "1")
	childtest.Must(t, err)
	if got.Argv[0] != "make" || got.Exe.Path != "/a" || got.Files[0].Path != "/b" || string(got.Arguments) != `"c"` || got.Offers[0] != message.AllowOnce ||
		got.Decision != nil || got.Resolved != 0 || got.ResolvedBy != nil {
		t.Errorf("%+v", got)
	}
}

// Confined processes can't fill the set for others, neither with pending approvals nor with withdrawn ones.
func TestLimits(t *testing.T) {
	s, f := newTestSet()
	full := (*FullError)(nil)
	for i := range maxConfined {
		mustAsk(t, s, confined, ask(fmt.Sprint("c", i), "make"))
		if i%2 == 0 {
			childtest.Must(t, s.Cancel(confined, fmt.Sprint("c", i)))
		}
	}
	for _, c := range []Client{confined, other} {
		if _, err := s.Ask(c, ask("", "make"), time.Minute); !errors.As(err, &full) {
			t.Error(err)
		}
	}
	mustAsk(t, s, confined, ask("c1", "make")) // it's there
	for i := range maxPending - maxConfined {
		mustAsk(t, s, user, ask(fmt.Sprint(i), "make"))
	}
	if _, err := s.Ask(user, ask("", "make"), time.Minute); !errors.As(err, &full) {
		t.Error(err)
	}
	childtest.Must(t, s.Resolve(user, "c1", message.Deny, by, nil)) // one that's decided counts no more
	mustAsk(t, s, confined, ask("", "make"))
	f.advance(Grace)
	mustAsk(t, s, confined, ask("", "make"))
	mustAsk(t, s, user, ask("", "make"))
}

// However small their number, large approvals are bounded.
func TestBytes(t *testing.T) {
	s, _ := newTestSet()
	large := ask("", strings.Repeat("a", maxSize-1000))
	for i := range maxPending {
		_, err := s.Ask(user, large, time.Minute)
		if err != nil {
			if full := (*FullError)(nil); !errors.As(err, &full) || i < maxBytes/maxSize {
				t.Error(i, err)
			}
			return
		}
	}
	t.Error("no limit")
}

// A confined process that uses up many ids doesn't get one of them for another request. It can't make the set forget them.
func TestSpent(t *testing.T) {
	s, f := newTestSet()
	mustAsk(t, s, confined, ask("first", "make"))
	childtest.Must(t, s.Cancel(confined, "first"))
	full, conflict := (*FullError)(nil), (*ConflictError)(nil)
	n := 0
	for ; n < 2*maxSpent; n++ {
		_, err := s.Ask(confined, ask("x", fmt.Sprint("make", n%2)), time.Minute)
		if n%2 == 1 {
			if !errors.As(err, &conflict) && !errors.As(err, &full) {
				t.Fatal(n, err)
			}
			continue
		}
		if errors.As(err, &full) {
			break
		}
		childtest.Must(t, err)
		childtest.Must(t, s.Cancel(confined, "x"))
	}
	f.advance(Grace)
	if _, err := s.Ask(confined, ask("", "make"), time.Minute); !errors.As(err, &full) {
		t.Error(n, err)
	}
	if len(s.spentConfined.order) > maxSpent+maxConfined || len(s.spentConfined.requests) != 2 {
		t.Error(len(s.spentConfined.order), len(s.spentConfined.requests))
	}
	mustAsk(t, s, user, ask("", "make"))
	f.advance(spentTime)
	for _, id := range []string{"first", "x"} {
		if _, err := s.Ask(confined, ask(id, "rm"), time.Minute); !errors.As(err, &conflict) {
			t.Error(id, err)
		}
	}
	mustAsk(t, s, confined, ask("first", "make"))
}

// The ids of unconfined requesters are bounded, too; the oldest goes first.
func TestSpentUnconfined(t *testing.T) {
	var s spentIDs
	now := newFakeClock().now
	for i := range maxSpent + 1 {
		s.add(fmt.Sprint(i), &request{}, now, false)
	}
	r := &request{digest: [32]byte{1}}
	if s.conflicts("0", r) || !s.conflicts("1", r) || !s.conflicts(fmt.Sprint(maxSpent), r) || s.conflicts("1", &request{}) || len(s.order) != maxSpent || len(s.requests) != maxSpent {
		t.Errorf("%d %d", len(s.order), len(s.requests))
	}
}

// What must be kept is kept for a day after it was added for the last time.
func TestSpentTime(t *testing.T) {
	var s spentIDs
	now := newFakeClock().now
	s.add("again", &request{}, now, true)
	s.add("once", &request{}, now, true)
	later := now.Add(time.Hour)
	s.add("again", &request{}, later, true)
	for i := range maxSpent - 2 {
		s.add(fmt.Sprint(i), &request{}, later, true)
	}
	if len(s.order) != maxSpent+1 || !s.full(now.Add(spentTime-1)) || s.full(now.Add(spentTime)) {
		t.Error(len(s.order))
	}
	s.add("last", &request{}, now.Add(spentTime), true)
	r := &request{digest: [32]byte{1}}
	if s.conflicts("once", r) || !s.conflicts("again", r) || !s.conflicts("0", r) || !s.conflicts("last", r) || len(s.order) != maxSpent {
		t.Errorf("%d", len(s.order))
	}
}

// As many approvals as there may be fit into 64 MiB.
func TestMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := New(RealClock(), newRandom())
	for i := range maxPending {
		a := ask("", "bash", "-c", fmt.Sprintf("cd /home/u/p && make test%d", i)+strings.Repeat(" && ./run some more of it", 8))
		a.Arguments = []byte(`{"command":"` + a.Argv[2] + `","description":"runs the tests"}`)
		a.EnvSHA256, a.Exe = strings.Repeat("a", 64), &message.File{Path: "/usr/bin/bash", SHA256: strings.Repeat("b", 64)}
		a.Files = []message.File{{Path: "/home/u/p/run", SHA256: strings.Repeat("c", 64)}, {Path: "/usr/bin/make", SHA256: strings.Repeat("d", 64)}}
		var err error
		a.Rule, err = Rule(&Facts{Tool: a.Tool, Argv: a.Argv, Cwd: a.Cwd, EnvSHA256: a.EnvSHA256, Exe: a.Exe, Files: a.Files})
		childtest.Must(t, err)
		mustAsk(t, s, user, a)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 64<<20 {
		t.Errorf("%d KiB", used>>10)
	} else {
		t.Logf("%d KiB", used>>10)
	}
	if n := len(s.List(user)); n != maxPending {
		t.Error(n)
	}
}
