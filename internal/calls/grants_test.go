package calls

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// rule is a grant.
const rule = "[[access.fs]]\npath = \"/rule\"\nread = true\n"

// running is a session whose policy can be changed, unless err says why not.
type running struct {
	loaded, inForce, judged string
	failed                  int
	reloads                 int
	err                     error
	unloadable              error
}

func (r *running) grants() *Grants {
	return &Grants{
		judging: new(sync.Mutex),
		Load:    func(text []byte) (*policy.Compiled, error) { r.loaded = string(text); return nil, r.unloadable },
		Reload: func(*policy.Compiled) error {
			if r.reloads++; r.err == nil {
				r.inForce = r.loaded
			}
			return r.err
		},
		Apply:  func(text []byte) { r.judged = string(text) },
		Failed: func(error) { r.failed++ },
	}
}

func (r *running) want(t *testing.T, when string, inForce, judged bool) {
	t.Helper()
	synctest.Wait()
	if in, by := strings.Contains(r.inForce, "/rule"), strings.Contains(r.judged, "/rule"); in != inForce || by != judged {
		t.Errorf("%s: in force: %v, and calls are judged by it: %v; want %v, %v", when, in, by, inForce, judged)
	}
}

// A grant is withdrawn when its time is up, however long the session's policy can't be changed then. Calls aren't judged by it any more at once.
func TestWithdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &running{}
		g := r.grants()
		if effect, err := g.give(&proposal{rule, policy.FS}, message.AllowOnce, 60_000, message.By{}); effect != "now" || err != nil {
			t.Errorf("%q, %v", effect, err)
		}
		time.Sleep(59 * time.Second)
		r.want(t, "before the time is up", true, true)
		r.err = errors.New("toolguardd isn't running")
		time.Sleep(time.Minute)
		r.want(t, "while it can't be withdrawn", true, false)
		r.err = nil
		time.Sleep(lastPause)
		r.want(t, "when it can", false, false)
		if n := r.reloads; r.failed != 1 || g.settling {
			t.Errorf("%d reloads, %d reports, still settling: %v", n, r.failed, g.settling)
		}
	})
}

// If a grant can't be put in force, it's made certain that it isn't: the answer may be what was lost.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &running{err: errors.New("no answer")}
		g := r.grants()
		if err := g.add(rule); err == nil {
			t.Error("it's in force")
		}
		r.inForce = r.loaded // it was done
		r.err = nil
		time.Sleep(time.Minute)
		r.want(t, "afterwards", false, false)
	})
}

// What the session does to its files can keep its policy from being compiled, and the grants from being given, but none from being withdrawn: the
// policy without any grants is in force then.
func TestWithdrawAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &running{}
		g := r.grants()
		g.Bare = &policy.Compiled{}
		g.Reload = func(c *policy.Compiled) error {
			if r.inForce = r.loaded; c == g.Bare {
				r.inForce = "bare"
			}
			return nil
		}
		for _, lasts := range []int64{60_000, 0} {
			if effect, err := g.give(&proposal{rule, policy.FS}, message.AllowOnce, lasts, message.By{}); effect != "now" || err != nil {
				t.Errorf("%q, %v", effect, err)
			}
		}
		r.unloadable = errors.New("a symlink")
		time.Sleep(2 * time.Minute)
		if r.want(t, "when one is over", false, false); r.inForce != "bare" || len(g.Given) != 0 {
			t.Errorf("%q is in force, with %q", r.inForce, g.Given)
		}
	})
}

// Nothing is changed in a session whose policy was replaced, or that has ended.
func TestGrantsEnd(t *testing.T) {
	for name, end := range map[string]func(*running, *Grants){
		"replaced": func(r *running, _ *Grants) { r.err = api.ErrReplaced },
		"ended":    func(_ *running, g *Grants) { g.end() },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &running{}
			g := r.grants()
			_, err := g.give(&proposal{rule, policy.FS}, message.AllowOnce, 1000, message.By{})
			if err != nil {
				t.Error(err)
			}
			end(r, g)
			time.Sleep(time.Hour)
			if r.reloads > 2 || r.failed > 0 || g.add("other") == nil {
				t.Errorf("%s: %d reloads, %d reports, or another grant is in force", name, r.reloads, r.failed)
			}
			time.Sleep(time.Hour)
		})
	}
}
