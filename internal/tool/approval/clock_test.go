package approval

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// fakeClock is a clock that only advance moves.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*fakeTimer
}

type fakeTimer struct {
	at time.Time
	do func()
}

func newFakeClock() *fakeClock { return &fakeClock{now: time.UnixMilli(1800000000000)} }

func (f *fakeClock) clock() Clock { return Clock{f.time, f.after} }

func (f *fakeClock) time() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fakeClock) after(d time.Duration, do func()) (stop func() bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	timer := &fakeTimer{f.now.Add(d), do}
	f.timers = append(f.timers, timer)
	return func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.take(timer)
	}
}

func (f *fakeClock) take(timer *fakeTimer) bool {
	i := slices.Index(f.timers, timer)
	if i < 0 {
		return false
	}
	f.timers = slices.Delete(f.timers, i, i+1)
	return true
}

// advance runs the timers that end within d, in order.
func (f *fakeClock) advance(d time.Duration) {
	f.mu.Lock()
	end := f.now.Add(d)
	for {
		var next *fakeTimer
		for _, timer := range f.timers {
			if !timer.at.After(end) && (next == nil || timer.at.Before(next.at)) {
				next = timer
			}
		}
		if next == nil {
			break
		}
		f.take(next)
		f.now = next.at
		f.mu.Unlock()
		next.do()
		f.mu.Lock()
	}
	f.now = end
	f.mu.Unlock()
}

// sleep moves the clock and runs no timers, as if the machine slept.
func (f *fakeClock) sleep(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

type random struct{ *rand.ChaCha8 }

func newRandom() random { return random{rand.NewChaCha8([32]byte{1})} }

func newTestSet() (*Set, *fakeClock) {
	f := newFakeClock()
	return New(f.clock(), newRandom()), f
}

var (
	user     = Client{Unconfined: true}
	confined = Client{Owner: "s1"}
	other    = Client{Owner: "s2"}
	never    = closed() // for a question that doesn't wait
	by       = message.By{UID: 1000, PID: 4711, Exe: "/usr/bin/toolguard", Via: "command"}
)

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// ask is an approval for a command.
func ask(id string, argv ...string) *message.Approval {
	return &message.Approval{
		ID: id, Agent: "claude", Session: "s", Tool: "Bash", Argv: argv, Cwd: "/home/u/p", Risk: "high", Reason: "no rule names what it runs",
		Offers: []string{message.AllowOnce, message.AllowAlways, message.Deny}, Rule: "[[approved]]\n",
	}
}
