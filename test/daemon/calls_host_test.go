//go:build linux

package daemon

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// approving is work, and people who are asked.
const approving = work + `
[approvals]
timeout = "30m"
`

// host is a session that submits tool calls, as a framework of agents does.
type host struct {
	*job
	*agent
	home string
}

// newHost prepares a session of testdata/agent.py.
func newHost(t *testing.T, uid uint32, policy string, flags ...string) *host {
	t.Helper()
	h := &host{job: newJob(t, uid, policy, "exec python3 -S -E agent.py", flags...)}
	program, err := os.ReadFile("testdata/agent.py")
	must(t, errors.Join(err, os.WriteFile(h.workspace+"/agent.py", program, 0o644)))
	h.home = filepath.Dir(h.workspace) + "/home"
	must(t, errors.Join(os.Mkdir(h.home, 0o700), os.Chown(h.home, int(uid), int(uid))))
	h.Env = append(h.Env, "HOME="+h.home)
	return h
}

// begin starts the session, and waits until its calls are answered.
func (h *host) begin() *host {
	h.job.t.Helper()
	h.agent = h.talk(h.job.Cmd)
	h.job.t.Cleanup(h.end)
	h.want(200, "GET", message.Approvals, nil)
	return h
}

// end ends the session.
func (h *host) end() {
	if h.ProcessState != nil {
		return
	}
	_ = h.in.Close()
	_ = h.Wait()
	h.job.t.Logf("%s%v", &h.out, h.ProcessState)
}

// id is the session's.
func (h *host) id() string {
	h.job.t.Helper()
	for _, s := range sessions(h.job.t, 0) {
		if s.PID == h.Process.Pid {
			return s.ID
		}
	}
	h.job.t.Fatal("it has no session")
	return ""
}

// outside is a process of a user's outside of all sessions, which asks toolguardd.
func (h *host) outside(uid uint32, groups ...uint32) *agent {
	h.job.t.Helper()
	return h.at(socket, uid, groups...)
}

// at is outside for a process that asks at another socket.
func (h *host) at(socket string, uid uint32, groups ...uint32) *agent {
	h.job.t.Helper()
	cmd := exec.Command("python3", "-S", "-E", h.workspace+"/agent.py", socket)
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: groups}}
	a := h.talk(cmd)
	h.job.t.Cleanup(func() {
		_ = a.in.Close()
		_ = cmd.Wait()
	})
	return a
}

// agent is a process that does what it's asked.
type agent struct {
	t  *testing.T
	in io.WriteCloser

	mu      sync.Mutex
	asked   int
	waiting map[int]chan reply
}

// reply is the result of one thing that an agent did.
type reply struct {
	N, Status int
	Body      json.RawMessage
	Error     string
}

// talk starts an agent.
func (j *job) talk(cmd *exec.Cmd) *agent {
	j.t.Helper()
	a := &agent{t: j.t, waiting: map[int]chan reply{}}
	var err error
	a.in, err = cmd.StdinPipe()
	must(j.t, err)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	must(j.t, errors.Join(err, cmd.Start()))
	go func() {
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			var r reply
			if json.Unmarshal(line, &r) == nil {
				a.mu.Lock()
				a.waiting[r.N] <- r
				a.mu.Unlock()
			}
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, c := range a.waiting { // it has ended
			select {
			case c <- reply{Error: "the agent has ended"}:
			default:
			}
		}
	}()
	return a
}

// send makes the agent do something, and doesn't wait for the result.
func (a *agent) send(what map[string]any) <-chan reply {
	a.t.Helper()
	c := make(chan reply, 1)
	a.mu.Lock()
	a.asked++
	what["n"] = a.asked
	a.waiting[a.asked] = c
	line, err := json.Marshal(what)
	if err == nil {
		_, err = a.in.Write(append(line, '\n'))
	}
	a.mu.Unlock()
	must(a.t, err)
	return c
}

// request is what sends a request.
func request(method, path string, body any) map[string]any {
	return map[string]any{"method": method, "path": path, "body": body}
}

// await waits for a result.
func (a *agent) await(c <-chan reply) reply {
	a.t.Helper()
	select {
	case r := <-c:
		if r.Error != "" {
			a.t.Fatalf("the agent failed: %s", r.Error)
		}
		return r
	case <-time.After(5 * time.Minute):
		a.t.Fatal("the agent doesn't answer")
		return reply{}
	}
}

// ask sends a request and returns its answer.
func (a *agent) ask(method, path string, body any) reply {
	a.t.Helper()
	return a.await(a.send(request(method, path, body)))
}

// want is ask for an answer with a status.
func (a *agent) want(status int, method, path string, body any) reply {
	a.t.Helper()
	r := a.ask(method, path, body)
	if r.Status != status {
		a.t.Errorf("%s %s: %d, %s; want %d", method, path, r.Status, r.Body, status)
	}
	return r
}

// do calls a function of testdata/agent.py and returns what it returns.
func do[T any](a *agent, name string, args ...any) (v T) {
	a.t.Helper()
	must(a.t, json.Unmarshal(a.await(a.send(map[string]any{"do": name, "args": args})).Body, &v))
	return v
}

// tries reports whether the agent can open a file, execute it, or connect to it.
func (a *agent) tries(what, how string) bool {
	a.t.Helper()
	return do[bool](a, "tried", what, how)
}

// in is the body of an answer.
func in[T any](a *agent, r reply) (v T) {
	a.t.Helper()
	must(a.t, json.Unmarshal(r.Body, &v))
	return v
}

// submit submits a call and returns its state.
func (a *agent) submit(id, tool string, arguments map[string]string) *message.State {
	a.t.Helper()
	return in[*message.State](a, a.want(200, "POST", message.Calls, map[string]any{"id": id, "tool": tool, "arguments": arguments}))
}

// bash submits a command about which a person is asked, and returns the approval's id.
func (a *agent) bash(id string) string {
	a.t.Helper()
	s := a.submit(id, "Bash", map[string]string{"command": "uname -a"})
	if s.State != message.Waiting || s.Approval == nil {
		a.t.Fatalf("nobody is asked: %+v, %+v", s, s.Answer)
	}
	return *s.Approval
}

// wantState waits until a call has a state.
func (a *agent) wantState(call, state string) {
	a.t.Helper()
	s := in[*message.State](a, a.want(200, "GET", message.Calls+"/"+call+"?wait_ms=100000", nil))
	if s.State != state {
		a.t.Errorf("call %s is %s, want %s", call, s.State, state)
	}
}

// grant asks for a grant and returns the approval's id.
func (a *agent) grant(resource, action, target string) string {
	a.t.Helper()
	return in[*message.Approval](a, a.want(200, "POST", message.Approvals, message.Grant{Why: "test", Resource: resource, Action: action, Target: target})).ID
}

// decides decides about an approval of a session, and returns the effect.
func (a *agent) decides(session, id, decision string, lasts time.Duration) string {
	a.t.Helper()
	r := a.want(200, "POST", message.Approvals+"/"+id+"?session="+session, message.Decided{Decision: &decision, For: lasts.Milliseconds()})
	return in[message.Decided](a, r).Effect
}

// listed are the ids of the approvals that the agent is shown, in order.
func (a *agent) listed() (ids []string) {
	a.t.Helper()
	for _, x := range in[message.List](a, a.want(200, "GET", message.Approvals, nil)).Approvals {
		ids = append(ids, x.ID)
	}
	slices.Sort(ids)
	return ids
}

// callEvent has the fields of an event about a call that the tests check.
type callEvent struct {
	Actor struct {
		Process struct {
			PID  int
			User struct{ UID string }
		}
	}
	Policy   struct{ Name string }
	Unmapped struct {
		Kind, Reason, Target, Session, Owner string
		Extra                                map[string]string
	}
}

// callEvents returns the events about calls among lines of JSON.
func callEvents(t *testing.T, lines []byte) (list []callEvent) {
	t.Helper()
	for line := range bytes.Lines(lines) {
		var e callEvent
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it's being written
		}
		must(t, json.Unmarshal(line, &e))
		if slices.Contains([]string{"tool_denied", "tool_call", "approval", "grant", "hook_failed"}, e.Unmapped.Kind) {
			list = append(list, e)
		}
	}
	return list
}

// inAudit returns the events about calls in a toolguardd's audit.
func inAudit(t *testing.T, state string) []callEvent {
	t.Helper()
	var text []byte
	readAudit(t, state, func(line []byte) { text = append(append(text, bytes.TrimSpace(line)...), '\n') })
	return callEvents(t, text)
}

// contains fails unless a file in the workspace matches a pattern.
func (j *job) contains(name, pattern string) {
	j.t.Helper()
	text, err := os.ReadFile(filepath.Join(j.workspace, name))
	if err != nil || !regexp.MustCompile(pattern).Match(text) {
		j.t.Errorf("%s contains %s, %v; want %s", name, text, err, pattern)
	}
}
