//go:build linux

package calls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// base is the policy of the tests, to which each adds. The folder of this program is granted, since the agent is executed there.
const base = `
version = 1
name = "calls"
[access]
default = { net = "deny", commands = "allow" }
fs = [
  { path = ".", read = true, write = true, execute = true },
  { path = "AGENT", read = true, execute = true },
]
`

// session is a running toolguard exec with an agent in it, and one outside.
type session struct {
	*fixture
	cmd             *exec.Cmd
	inside, outside *agent
	socket          string // of those outside
	events          string
	stderr          *childtest.Output
	ended           chan struct{}

	stopping sync.Once
}

// policy writes the policy that is base and more.
func (p *fixture) policy(t *testing.T, more string) {
	t.Helper()
	p.write(t, "policy/p.toml", strings.ReplaceAll(base, "AGENT", filepath.Dir(self))+more)
}

// exec is toolguard exec under the fixture's policy, with the agent as the command.
func (p *fixture) exec(events string, flags ...string) *exec.Cmd {
	args := []string{binary, "exec", "--quiet", "--backend", "landlock", "--daemon", "none", "--report", "never", "--policy", p.in + "/p.toml", "--events", events}
	args = append(append(args, flags...), "--", self, agentArg)
	if p.wrap != nil {
		return p.as(users()[0], append(slices.Clip(p.wrap), args...)...)
	}
	return p.command(args...)
}

// start starts a session under base and more.
func (p *fixture) start(t *testing.T, more string, flags ...string) *session {
	t.Helper()
	p.policy(t, more)
	return p.again(t, flags...)
}

// sessions counts them, for the names of their files of events.
var sessions struct {
	sync.Mutex
	n int
}

// again starts a session under the policy that is there.
func (p *fixture) again(t *testing.T, flags ...string) *session {
	t.Helper()
	sessions.Lock()
	sessions.n++
	s := &session{fixture: p, stderr: new(childtest.Output), ended: make(chan struct{}), events: filepath.Join(p.in, fmt.Sprintf("events-%d.jsonl", sessions.n))}
	sessions.Unlock()
	s.cmd = p.exec(s.events, flags...)
	s.cmd.Stderr = s.stderr
	s.inside = talk(t, s.cmd, "")
	must(t, s.cmd.Start())
	go func() {
		_ = s.cmd.Wait()
		close(s.ended)
	}()
	t.Cleanup(func() { s.stop(t) })
	r := s.inside.do(t, request("GET", message.Approvals, nil))
	if r.Status != 200 {
		t.Fatalf("the session doesn't answer: %+v\n%s", r, s.stderr)
	}
	s.socket = s.findSocket(t)
	s.outside = p.person(t, s.socket)
	return s
}

// findSocket finds the socket of a session by its first event.
func (s *session) findSocket(t *testing.T) string {
	t.Helper()
	var path string
	if !eventually(func() bool {
		for _, e := range s.read(t) {
			path = filepath.Join(s.run, "toolguard", e.Actor.Session.UID+".sock")
		}
		return path != ""
	}) {
		t.Fatalf("no event, and no socket: %s", s.stderr)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("the session's socket: %v", err)
	}
	return path
}

// person starts an unconfined process of the user's, which sends requests to a session's socket.
func (p *fixture) person(t *testing.T, socket string) *agent {
	t.Helper()
	return p.startAgent(t, p.command(self, agentArg), socket)
}

func (p *fixture) startAgent(t *testing.T, cmd *exec.Cmd, socket string) *agent {
	t.Helper()
	cmd.Stderr = os.Stderr
	a := talk(t, cmd, socket)
	must(t, cmd.Start())
	a.pid = cmd.Process.Pid
	t.Cleanup(func() {
		_ = a.close()
		<-a.ended
		_ = cmd.Wait()
	})
	return a
}

// stop ends a session in the usual way: its command ends.
func (s *session) stop(t *testing.T) {
	t.Helper()
	s.stopping.Do(func() {
		_ = s.inside.close()
		select {
		case <-s.ended:
		case <-time.After(patience):
			t.Errorf("the session doesn't end: %s", s.stderr)
			_ = s.cmd.Process.Signal(syscall.SIGKILL)
			<-s.ended
		}
	})
}

// kill ends toolguard itself by a signal.
func (s *session) kill(t *testing.T, signal syscall.Signal) {
	t.Helper()
	must(t, s.cmd.Process.Signal(signal))
	select {
	case <-s.ended:
	case <-time.After(patience):
		t.Fatal("toolguard doesn't end")
	}
}

// happened is an event.
type happened struct {
	Actor struct {
		Session struct{ UID string }
		Process struct {
			PID  int
			User struct{ UID string }
			File struct{ Path string }
		}
	}
	Unmapped struct {
		Kind, Target, Reason, Resource, Capability string
		Suggest                                    string
		Extra                                      map[string]string
	}
	StatusDetail string `json:"status_detail"`
	text         string
}

// read returns the events until now.
func (s *session) read(t *testing.T) (all []happened) {
	t.Helper()
	text, err := os.ReadFile(s.events)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		e := happened{text: string(line)}
		must(t, json.Unmarshal(line, &e))
		all = append(all, e)
	}
	return all
}

// event waits for an event of a kind with these facts, which are key=value; "reason" and "target" are facts, too.
func (s *session) event(t *testing.T, kind string, facts ...string) *happened {
	t.Helper()
	var found []happened
	if !eventually(func() bool {
		found = s.find(t, kind, facts...)
		return len(found) > 0
	}) {
		t.Errorf("there is no event %s with %q: %s", kind, facts, s.list(t))
		return &happened{}
	}
	return &found[0]
}

// find returns the events of a kind with these facts.
func (s *session) find(t *testing.T, kind string, facts ...string) (found []happened) {
	t.Helper()
	for _, e := range s.read(t) {
		if e.Unmapped.Kind == kind && e.has(facts) {
			found = append(found, e)
		}
	}
	return found
}

func (e *happened) has(facts []string) bool {
	for _, f := range facts {
		key, value, _ := strings.Cut(f, "=")
		got := e.Unmapped.Extra[key]
		switch key {
		case "reason":
			got = e.StatusDetail
		case "target":
			got = e.Unmapped.Target
		}
		if got != value {
			return false
		}
	}
	return true
}

// list shows the events.
func (s *session) list(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, e := range s.read(t) {
		fmt.Fprintf(&b, "\n%s %s %s %v", e.Unmapped.Kind, e.Unmapped.Target, e.StatusDetail, e.Unmapped.Extra)
	}
	return b.String()
}

// call is a call as a host submits it.
type call map[string]any

// bash is a call of Bash.
func bash(id, command string) call {
	return call{"id": id, "tool": "Bash", "arguments": map[string]string{"command": command}}
}

func (c call) with(key string, value any) call {
	out := call{key: value}
	for k, v := range c {
		if k != key {
			out[k] = v
		}
	}
	return out
}

// submit submits a call and returns its state.
func submit(t *testing.T, a *agent, c call) *message.State {
	t.Helper()
	return get[message.State](t, a, "POST", message.Calls, c)
}

// end reports the end of a call.
func end(t *testing.T, a *agent, id, body string) {
	t.Helper()
	get[struct{}](t, a, "POST", message.Calls+"/"+url.PathEscape(id)+message.Result, body)
}

// denied checks that a call was denied for a reason, and its event.
func (s *session) denied(t *testing.T, st *message.State, reason string) {
	t.Helper()
	if st.State != message.Denied || st.Answer == nil || st.Answer.Reason != reason || !st.Answer.Swallow {
		t.Errorf("call %s: %s, want denied, %s", st.Call, show(st), reason)
		return
	}
	s.event(t, "tool_denied", "reason="+reason, "call="+st.Call)
}

// runs checks that a call runs.
func runs(t *testing.T, st *message.State) {
	t.Helper()
	if st.State != message.Running || st.Answer == nil || st.Answer.Decision != "allow" || st.Approval != nil {
		t.Errorf("call %s: %s, want running", st.Call, show(st))
	}
}

// waits checks that a call waits for a person, and returns the approval's id.
func waits(t *testing.T, st *message.State) string {
	t.Helper()
	if st.State != message.Waiting || st.Approval == nil {
		t.Fatalf("call %s: %s, want waiting", st.Call, show(st))
	}
	return *st.Approval
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// approvals are those that wait, as a client sees them.
func approvals(t *testing.T, a *agent) []message.Approval {
	t.Helper()
	return get[message.List](t, a, "GET", message.Approvals, nil).Approvals
}

// approval is the one that waits under an id.
func approval(t *testing.T, a *agent, id string) *message.Approval {
	t.Helper()
	for _, x := range approvals(t, a) {
		if x.ID == id {
			return &x
		}
	}
	t.Fatalf("no approval %s waits", id)
	return nil
}

// decide decides, and returns the status of the answer.
func decide(t *testing.T, a *agent, id, decision string) *reply {
	t.Helper()
	return a.do(t, request("POST", message.Approvals+"/"+id, message.Decided{Decision: &decision}))
}

// decision waits for the decision about an approval.
func decision(t *testing.T, a *agent, id string, wait time.Duration) *message.Decided {
	t.Helper()
	return get[message.Decided](t, a, "GET", fmt.Sprintf("%s/%s%s?wait_ms=%d", message.Approvals, id, message.Decision, wait.Milliseconds()), nil)
}

// after waits for the state of a call.
func after(t *testing.T, a *agent, id string, wait time.Duration) *message.State {
	t.Helper()
	return get[message.State](t, a, "GET", fmt.Sprintf("%s/%s?wait_ms=%d", message.Calls, url.PathEscape(id), wait.Milliseconds()), nil)
}

// kinds are those of the events.
func (s *session) kinds(t *testing.T) (kinds []string) {
	t.Helper()
	for _, e := range s.read(t) {
		kinds = append(kinds, e.Unmapped.Kind)
	}
	return kinds
}
