//go:build linux

package daemon

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// once allows one call.
var once = map[string]string{"decision": message.AllowOnce}

// A process of a session submits the session's calls at toolguardd's socket, and reaches those of no other session. A person decides there, and
// no process of a session.
func TestToolCalls(t *testing.T) {
	share(t)
	h, another := newHost(t, nobodyUID, approving).begin(), newHost(t, nobodyUID, approving).begin()
	id := h.id()
	person := h.outside(nobodyUID)
	if at := do[string](h.agent, "env", "TOOLGUARD_SOCKET"); at != socket {
		t.Errorf("the session's address for calls is %s", at)
	}
	its := another.bash("1")
	asked := h.bash("1")
	if mine := h.listed(); !slices.Equal(mine, []string{asked}) {
		t.Errorf("a process of the session is shown %q, want %q", mine, asked)
	}
	for _, x := range []struct {
		status             int
		method, path, body string
	}{
		{403, "POST", message.Approvals + "/" + asked, "decide"},
		{403, "POST", message.Approvals + "/" + its + "?session=" + another.id(), "decide"},
		{404, "GET", message.Approvals + "/" + its + "/decision", ""},
		{404, "GET", message.Approvals + "/" + its + "/decision?session=" + another.id(), ""},
		{404, "GET", message.Calls + "/2", ""},
		{404, "POST", message.Calls + "/2/cancel?session=" + another.id(), ""},
	} {
		if another.submit("2", "Bash", map[string]string{"command": "id"}); x.body == "decide" {
			h.want(x.status, x.method, x.path, once)
		} else {
			h.want(x.status, x.method, x.path, nil)
		}
	}
	another.wantWaiting("1")
	h.wantWaiting("1")

	if got := person.decides(id, asked, message.AllowOnce, 0); got != "" {
		t.Errorf("a call was approved with the effect %q", got)
	}
	h.wantState("1", message.Running)
	h.want(200, "POST", message.Calls+"/1/result", map[string]any{"result": "Linux", "duration_ms": 5})
	h.want(404, "GET", message.Calls+"/1", nil)
	person.decides(id, h.bash("2"), message.Deny, 0)
	h.wantState("2", message.Denied)
	h.bash("3")
	h.want(200, "POST", message.Calls+"/3/cancel", nil)
	if mine := h.listed(); len(mine) != 0 {
		t.Errorf("after a cancellation a person is asked %q", mine)
	}
	curl := "curl -s -w %{http_code} --unix-socket " + socket + " http://toolguard" + message.Approvals
	inside := do[string](h.agent, "sh", curl)
	if inside != "{\"approvals\":[]}\n200" {
		t.Errorf("curl gets within the session %s", inside)
	}
	cmd := exec.Command("bash", "-c", curl)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyUID, Gid: nobodyUID}}
	if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), its) || !strings.HasSuffix(string(out), "200") {
		t.Errorf("curl gets outside of the session %s, %v", out, err)
	}
}

// wantWaiting fails unless a person is still asked about a call.
func (a *agent) wantWaiting(call string) {
	a.t.Helper()
	if s := in[*message.State](a, a.want(200, "GET", message.Calls+"/"+call, nil)); s.State != message.Waiting {
		a.t.Errorf("call %s is %s", call, s.State)
	}
}

// For another user the session's calls and approvals don't exist. root may decide, and the event names root.
func TestToolCallsOfOthers(t *testing.T) {
	state := share(t).state
	h := newHost(t, nobodyUID, approving).begin()
	id, asked := h.id(), h.bash("1")
	unrelated, root := h.outside(other), h.outside(0)
	if list := unrelated.listed(); len(list) != 0 {
		t.Errorf("another user is shown %q", list)
	}
	for _, path := range []string{message.Approvals + "/" + asked, message.Approvals + "/" + asked + "?session=" + id} {
		unrelated.want(404, "POST", path, once)
	}
	unrelated.want(404, "GET", message.Calls+"/1?session="+id, nil)
	h.wantWaiting("1")
	if list := root.listed(); !slices.Equal(list, []string{asked}) {
		t.Errorf("root is shown %q, want %q", list, asked)
	}
	root.want(200, "POST", message.Approvals+"/"+asked, once) // it's the only session
	h.wantState("1", message.Running)
	eventually(t, "root's decision is recorded", func() bool {
		for _, e := range inAudit(t, state) {
			if e.Unmapped.Session == id && e.Unmapped.Extra["what"] == "decided" {
				if p := e.Actor.Process; p.User.UID != "0" || p.PID == 0 || e.Unmapped.Extra["decision"] != message.AllowOnce {
					t.Errorf("%+v", e)
				}
				return true
			}
		}
		return false
	})
}

// A process of a nested session reaches the nested session's calls, if it has any, and not those of the outer one.
func TestToolCallsNested(t *testing.T) {
	share(t)
	j := newHost(t, nobodyUID, approving+reach())
	j.Args[len(j.Args)-1] = `curl="curl -s -w %{http_code} --unix-socket $TOOLGUARD_SOCKET http://toolguard/v1"
call() { echo '{"id":"'$1'","tool":"Bash","arguments":{"command":"uname -a"}}'; }
$curl/calls -d "$(call outer)" >outer
for inner in plain approving; do
	HOME=$PWD/$inner ` + built + `/toolguard exec --daemon require --policy $inner.toml --workspace . --report never -- bash -c "$(declare -f call)
$curl/calls/outer >$inner-outer; $curl/approvals >$inner-approvals; $curl/calls -d \"\$(call $inner)\" >$inner-call" 2>&1
done
$curl/approvals >approvals
echo done >can`
	for inner, policy := range map[string]string{"plain": work, "approving": approving} {
		j.write(inner+".toml", policy)
		must(t, os.Mkdir(j.workspace+"/"+inner, 0o700))
		must(t, os.Chown(j.workspace+"/"+inner, nobodyUID, nobodyUID))
	}
	j.start().status()
	j.wrote("can", "done")
	for file, want := range map[string]string{
		"outer": `"state":"waiting".*\n200$`, "approvals": `"approvals":\[{.*}\]}\n200$`,
		"plain-outer": "\\n404$", "plain-approvals": "serves no calls.*\\n404$", "plain-call": "\\n404$",
		"approving-outer": "\\n404$", "approving-approvals": `{"approvals":\[\]}\n200$`, "approving-call": `"state":"waiting".*\n200$`,
	} {
		j.contains(file, want)
	}
}
