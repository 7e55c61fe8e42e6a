package calls

import (
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/tool/approval"
	"github.com/toolguard/toolguard/internal/tool/callstate"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// reloads are the policies under which a session was put, each by its name: the rules that it has.
type reloads struct {
	names  chan string
	broken bool // the policy doesn't load
	gone   int  // how many reloads fail
}

func (r *reloads) load(granted []byte) (*policy.Compiled, error) {
	if r.broken {
		return nil, errors.New("doesn't load")
	}
	return &policy.Compiled{Name: strings.Join(strings.Fields(string(granted)), " ")}, nil
}

func (r *reloads) reload(c *policy.Compiled) error {
	if r.gone > 0 {
		r.gone--
		return errors.New("toolguardd isn't there")
	}
	r.names <- c.Name
	return nil
}

// A grant whose time is up is withdrawn, whatever the session has done to the files that the policy's rules are about.
func TestWithdrawal(t *testing.T) {
	const first, timed, other = "[a]\n", "[b]\n", "[c]\n"
	for name, x := range map[string]struct {
		broken bool
		gone   int
		policy string
		given  []string
	}{
		"it loads":                 {policy: "version = 1 [a] [c]", given: []string{first, other}},
		"it doesn't load":          {broken: true, policy: "bare"},
		"toolguardd is restarting": {gone: 3, policy: "version = 1 [a] [c]", given: []string{first, other}},
		"both":                     {gone: 3, broken: true, policy: "bare"},
	} {
		r := &reloads{names: make(chan string, 1), broken: x.broken}
		g := &Grants{Given: []string{first}, Bare: &policy.Compiled{Name: "bare"}, Load: r.load, Reload: r.reload, Apply: func([]byte) {}, judging: new(sync.Mutex)}
		g.Given = append(g.Given, timed, other)
		r.gone = x.gone
		g.withdraw(timed)
		if got := <-r.names; got != x.policy {
			t.Errorf("%s: the session is under %q, not %q", name, got, x.policy)
		}
		g.mu.Lock()
		if !slices.Equal(g.Given, x.given) {
			t.Errorf("%s: the rules in force are %q, not %q", name, g.Given, x.given)
		}
		g.mu.Unlock()
		g.end()
		g.withdraw(first)
		if len(r.names) > 0 {
			t.Errorf("%s: the policy of a session that has ended was changed", name)
		}
	}
}

// A rule that was stored with a time is withdrawn from the session that began with it.
func TestStoredTime(t *testing.T) {
	r := &reloads{names: make(chan string, 2)}
	g := &Grants{Given: []string{"[a]\n", "[b]\n"}, Until: map[string]time.Time{"[a]\n": time.Now().Add(10 * time.Millisecond)}, Load: r.load, Reload: r.reload, Apply: func([]byte) {}}
	New(Config{Grants: g})
	if got := <-r.names; got != "version = 1 [b]" {
		t.Errorf("the session is under %q", got)
	}
}

// The time of a grant is bounded, also where it's too large for a duration.
func TestGrantTimes(t *testing.T) {
	for lasts, ok := range map[int64]bool{0: true, 1: true, 365 * 24 * 3600 * 1000: true, 365*24*3600*1000 + 1: false, -1: false, 1 << 62: false, 1<<63 - 1: false} {
		g := &Grants{WhyNot: "no"}
		if _, err := g.give(&proposal{}, message.Deny, lasts, message.By{}); (err == nil) != ok {
			t.Errorf("%d ms: %v", lasts, err)
		}
	}
}

// A grant that is needed for a time is given for it, unless the person says for how long.
func TestNeededTime(t *testing.T) {
	for _, x := range []struct{ asked, decided, want int64 }{{0, 0, 0}, {60_000, 0, 60_000}, {60_000, 5_000, 5_000}, {0, 5_000, 5_000}} {
		var kept callstate.Stored
		g := &Grants{WhyNot: "no", Keep: func(s callstate.Stored) error { kept = s; return nil }}
		s := New(Config{Grants: g, Approvals: approval.New(approval.RealClock(), rand.Reader), Record: &Recorder{Emit: func(event.Event) {}}})
		a, err := s.Approvals.Ask(approval.Client{}, &message.Approval{Offers: []string{message.AllowOnce}}, time.Minute)
		childtest.Must(t, err)
		s.asked[a.ID] = &asked{grant: &proposal{rule: "[a]\n"}, about: &message.Grant{For: x.asked}}
		once := message.AllowOnce
		_, err = s.Decide(a.ID, &message.Decided{Decision: &once, For: x.decided}, message.By{})
		childtest.Must(t, err)
		if got := max(kept.Expires-kept.Created, 0); got != x.want {
			t.Errorf("asked for %d ms, given for %d ms: it lasts %d ms", x.asked, x.decided, got)
		}
	}
}
