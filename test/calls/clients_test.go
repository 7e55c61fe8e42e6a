//go:build linux

package calls

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// curl outside: a person lists what waits, and decides.
func TestCurl(t *testing.T) {
	curl := needs(t, "curl")
	eachUser(t, func(t *testing.T, p *fixture) {
		s := p.start(t, asking)
		send := func(args ...string) string {
			out, err := p.command(append([]string{curl, "-sS", "--max-time", "60", "--unix-socket", s.socket}, args...)...).CombinedOutput()
			if err != nil {
				t.Fatalf("curl %q: %v: %s", args, err, out)
			}
			return string(out)
		}
		id := waits(t, submit(t, s.inside, bash("1", "id")))
		var list message.List
		must(t, json.Unmarshal([]byte(send("http://toolguard"+message.Approvals)), &list))
		if len(list.Approvals) != 1 || list.Approvals[0].ID != id {
			t.Fatalf("%s", show(list))
		}
		if out := send("-w", "%{http_code}", "--json", `{"decision":"allow-once"}`, "http://toolguard"+message.Approvals+"/"+id); !strings.HasSuffix(out, "200") {
			t.Errorf("%s", out)
		}
		if e := s.event(t, "approval", "what=decided", "via=api"); e.Actor.Process.File.Path != curl {
			t.Errorf("%s", e.text)
		}
		runs(t, after(t, s.inside, "1", time.Minute))
		out := send("-w", "%{http_code}", "--json", `{"id":"2","tool":"Bash","arguments":{"command":"ls"}}`, "http://toolguard"+message.Calls)
		if !strings.Contains(out, `"state":"running"`) || !strings.HasSuffix(out, "200") {
			t.Errorf("%s", out)
		}
	})
}

// pythonHost is a host in Python, without toolguard's code: it connects over the inherited descriptor, submits a call and reports its result.
const pythonHost = `
import array, http.client, json, os, socket
address = os.environ["TOOLGUARD_SOCKET"]
class Connection(http.client.HTTPConnection):
    def connect(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with socket.socket(fileno=os.dup(int(address.removeprefix("fd:")))) as s:
            s.sendmsg([b"\0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))])
        theirs.close()
        self.sock = ours
c = Connection("toolguard")
def ask(method, path, body=None):
    c.request(method, path, None if body is None else json.dumps(body))
    r = c.getresponse()
    return r.status, json.loads(r.read())
for command in ["ls", "cat ../x"]:
    status, state = ask("POST", "/v1/calls", {"id": command, "tool": "Bash", "arguments": {"command": command}})
    print(status, state["state"], state["answer"]["reason"])
    if state["state"] == "running":
        print(ask("POST", "/v1/calls/ls/result", {"result": os.popen(state["arguments"]["command"]).read(), "duration_ms": 1}))
`

// A host in Python in the session.
func TestPython(t *testing.T) {
	python := needs(t, "python3")
	eachUser(t, func(t *testing.T, p *fixture) {
		p.policy(t, asking)
		p.write(t, "host.py", pythonHost)
		events := p.in + "/events-python.jsonl"
		cmd := p.exec(events)
		at := len(cmd.Args) - 2
		cmd.Args = append(cmd.Args[:at:at], python, "host.py")
		out, err := cmd.Output()
		if want := "200 running rule_allows\n(200, {})\n200 denied workspace_escape\n"; err != nil || string(out) != want {
			t.Errorf("%v: %s, want %s", err, out, want)
		}
		s := &session{fixture: p, events: events}
		s.event(t, "tool_call", "call=ls", "end=ok")
		s.event(t, "tool_denied", "call=cat ../x", "reason=workspace_escape")
		if n := len(s.kinds(t)); n < 4 {
			t.Errorf("%s", fmt.Sprint(s.kinds(t)))
		}
	})
}
