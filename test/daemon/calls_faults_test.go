//go:build linux

package daemon

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/daemontest"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// A restart of toolguardd between a request and its decision loses neither: the approval is still there, the decision reaches who waits for it, and
// the grant is in force. One whose time ends while toolguardd doesn't run is withdrawn by the next one.
func TestToolCallsRestart(t *testing.T) {
	u := newUnit(t)
	h := newHost(t, nobodyUID, approving)
	h.SysProcAttr.Credential.Groups = daemontest.Group()
	h.begin()
	asked := h.grant("fs", "read", h.job.outside)
	waiter := h.send(map[string]any{"method": "GET", "path": message.Approvals + "/" + asked + "/decision?wait_ms=600000", "persist": true})
	opened := h.becomes(h.job.outside, "read", true)
	call := h.bash("1")
	before := u.pid()
	u.sh("systemctl restart toolguardd")
	if u.pid() == before {
		t.Fatal("toolguardd wasn't restarted")
	}
	person := h.outside(nobodyUID, daemontest.Group()...)
	if list := person.listedOnce(2); !slices.Contains(list, asked) || !slices.Contains(list, call) {
		t.Errorf("after the restart, a person is asked %q, want %s and %s", list, asked, call)
	}
	if h.tries(h.job.outside, "read") {
		t.Error("the restart has given the grant")
	}
	if effect := person.decides(h.id(), asked, message.AllowOnce, 0); effect != "now" {
		t.Errorf("the effect is %q", effect)
	}
	h.await(opened)
	if d := in[message.Decided](h.agent, h.await(waiter)); d.Decision == nil || *d.Decision != message.AllowOnce {
		t.Errorf("who waits for the decision gets %+v", d)
	}
	person.decides(h.id(), call, message.AllowOnce, 0)
	h.wantState("1", message.Running)

	short := h.job.outside + "-short"
	must(t, os.WriteFile(short, nil, 0o644))
	person.decides(h.id(), h.grant("fs", "read", short), message.AllowOnce, 5*time.Second)
	if !h.tries(short, "read") {
		t.Error("the file can't be read with a grant for five seconds")
	}
	u.sh("systemctl stop toolguardd.socket toolguardd && sleep 6")
	if !h.tries(short, "read") {
		t.Error("the grant was withdrawn without toolguardd") // or the next check says nothing
	}
	u.sh("systemctl start toolguardd.socket")
	h.await(h.becomes(short, "read", false))
	if !h.tries(h.job.outside, "read") {
		t.Error("the other grant was withdrawn, too")
	}
}

// listedOnce waits until the agent is shown a number of approvals: the toolguards of sessions connect to a new toolguardd again.
func (a *agent) listedOnce(n int) (ids []string) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("%d approvals are listed", n), func() bool {
		ids = a.listed()
		return len(ids) >= n
	})
	return ids
}

var (
	callKills = flag.Int("call-kills", 100, "how often toolguardd is killed, at most, while calls are counted")
	callTime  = flag.Duration("call-time", time.Minute, "how long it's killed, at most")
	callers   = flag.Int("callers", 8, "how many submit calls at once")
)

// toolguardd is killed at random times while callers submit calls that are counted: each limit is met exactly, the counts are on the disk, and
// what nobody has decided isn't given.
func TestToolCallsKilled(t *testing.T) {
	const limit = 12
	state := t.TempDir()
	s := serve(t, state)
	h := newHost(t, nobodyUID, approving+"[tools.count]\nkind = \"read\"\nconstraints.max_invocations = "+fmt.Sprint(limit)+"\n").begin()
	asked := h.grant("fs", "read", h.job.outside)
	rounds := 0
	for began := time.Now(); rounds < *callKills && time.Since(began) < *callTime; rounds++ {
		var results []<-chan reply
		for i := range *callers {
			results = append(results, h.send(map[string]any{"do": "caller", "args": []any{fmt.Sprintf("r%d-c%d", rounds, i), "count", fmt.Sprint("r", rounds)}}))
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
		s.stop(syscall.SIGKILL)
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
		next, err := start(state, s.log)
		must(t, err)
		*s = *next
		ran := 0
		for _, r := range results {
			got := in[struct {
				Ran    []string
				Status int
				Last   message.State
			}](h.agent, h.await(r))
			if ran += len(got.Ran); got.Status != 200 || got.Last.State != message.Denied || got.Last.Answer.Reason != "constraint" {
				t.Errorf("round %d: a caller ended with %d, %+v, %+v", rounds, got.Status, got.Last, got.Last.Answer)
			}
		}
		if ran != limit {
			t.Errorf("round %d: %d calls could run, the limit is %d", rounds, ran, limit)
		}
		if h.tries(h.job.outside, "read") {
			t.Fatalf("round %d: a grant that nobody has given is in force", rounds)
		}
	}
	t.Logf("toolguardd was killed %d times", rounds)
	if rounds == 0 {
		t.Error("no round ended in time")
	}
	if list := h.outside(nobodyUID).listedOnce(1); !slices.Equal(list, []string{asked}) {
		t.Errorf("a person is asked %q, want %s", list, asked)
	}
	if d := in[message.Decided](h.agent, h.want(200, "GET", message.Approvals+"/"+asked+"/decision", nil)); d.Decision != nil || !d.Pending {
		t.Errorf("a request that nobody has answered has the decision %+v", d)
	}
	text, err := os.ReadFile(h.home + "/.local/state/toolguard/calls.json")
	var counts any
	must(t, errors.Join(err, json.Unmarshal(text, &counts)))
	for i := range rounds {
		if !strings.Contains(string(text), fmt.Sprintf(`"r%d"`, i)) {
			t.Errorf("the counts of round %d are gone: %s", i, text)
		}
	}
}
