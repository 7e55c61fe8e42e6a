//go:build linux

package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// nesting is a guarded process that has one of its threads put into a session within its own, and leaves out of what toolguard
// does there what it likes.
const nesting = `
import http.client, json, os, socket, sys, threading, time
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect("/run/toolguard/toolguard.sock")
def call(method, path, body=None):
    c = Connection("x")
    c.request(method, path, body)
    r = c.getresponse()
    text = r.read()
    print(method, path, r.status, text[:200], flush=True)
    return json.loads(text) if text else {}
def nested(adopted, before, after):
    s = call("POST", "/v1/sessions", '{"policy":' + open("policy.json").read() + ',"argv":["x"]}')
    tid, expected, did, on = [], threading.Event(), threading.Event(), threading.Event()
    def run():
        tid.append(threading.get_native_id())
        did.set()
        expected.wait()
        open("/dev/null").close()
        before()
        did.set()
        on.wait()
        after()
    t = threading.Thread(target=run)
    t.start()
    did.wait()
    did.clear()
    call("PUT", "/v1/sessions/" + s["id"] + "/thread", json.dumps({"thread": tid[0]}))
    expected.set()
    did.wait()
    if adopted:
        call("POST", "/v1/sessions/" + s["id"] + "/adopted")
    on.set()
    t.join()
def tries(name):
    try:
        open(name).close()
        print("opened", name, flush=True)
    except PermissionError:
        pass
def signals(pid):
    try:
        os.kill(pid, 0)
        print("signalled", pid, flush=True)
    except PermissionError:
        pass
def child(name):
    if os.fork() == 0:
        tries(name)
        os._exit(0)
    os.wait()
def nothing():
    pass
`

// given has the job send the policy that its own session has.
func (j *job) given(state string) {
	j.t.Helper()
	eventually(j.t, "it runs", func() bool { l := sessions(j.t, nobody); return len(l) == 1 && l[0].State == "running" })
	text, err := os.ReadFile(filepath.Join(state, "sessions", sessions(j.t, nobody)[0].ID, "policy-1.json"))
	must(j.t, err)
	must(j.t, os.WriteFile(j.workspace+"/policy.new", text, 0o644))
	must(j.t, os.Rename(j.workspace+"/policy.new", j.workspace+"/policy.json"))
}

// What a guarded process is refused is told, also in a session within its own about which it doesn't do what toolguard does.
func TestSilence(t *testing.T) {
	state := t.TempDir()
	serve(t, state)
	j := newJob(t, nobody, work, `until [ -e policy.json ]; do sleep 0.1; done
for what in never before itself program stays signals; do python3 nested.py $what $PPID >$what.log 2>&1 & done
wait; echo gone >can; sleep 1000`)
	dir := filepath.Dir(j.workspace)
	must(t, os.WriteFile(j.workspace+"/nested.py", []byte(nesting+strings.ReplaceAll(`
what = sys.argv[1]
name = "DIR/" + what
if what == "never": nested(False, nothing, lambda: child(name))
if what == "before": nested(True, lambda: child(name), nothing)
if what == "itself": nested(True, nothing, lambda: tries(name))
if what == "program": nested(True, nothing, lambda: os.execv("/bin/bash", ["bash", "-c", "read x <" + name]))
if what == "signals": nested(True, nothing, lambda: signals(int(sys.argv[2])))
if what == "stays": nested(False, nothing, lambda: (tries(name), time.sleep(1000)))
`, "DIR", dir)), 0o644))
	what := []string{"never", "before", "itself", "program", "stays"}
	for _, name := range what {
		must(t, os.WriteFile(dir+"/"+name, []byte("secret\n"), 0o644))
	}
	t.Cleanup(func() {
		for _, name := range what {
			said, _ := os.ReadFile(j.workspace + "/" + name + ".log")
			t.Logf("%s: %s", name, said)
		}
	})
	j.start()
	j.given(state)
	j.wrote("can", "gone") // also who keeps its thread in a session that it never went on with
	for _, name := range what {
		eventually(t, fmt.Sprintf("what is refused to %q is told", name), func() bool { return j.count("denial", dir+"/"+name) == 1 })
	}
	eventually(t, "that a signal to toolguard is refused is told", func() bool { return j.count("denial", "toolguard") == 1 })
}

// toolguardd takes no thread into a session that a program could give other rights: a policy of its caller's would be in force for those.
func TestGains(t *testing.T) {
	state := t.TempDir()
	serve(t, state)
	j := newJob(t, nobody, work, `sleep 1000`).start()
	j.given(state)
	for what, want := range map[string]string{"may": "/thread 403 ", "gave": "/thread 200 "} {
		cmd := exec.Command("python3", "-c", nesting+`
import ctypes
if sys.argv[1] == "gave": ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) # PR_SET_NO_NEW_PRIVS
nested(True, nothing, nothing)`, what)
		cmd.Dir, cmd.SysProcAttr = j.workspace, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "/adopted 200 ") != (what == "gave") {
			t.Errorf("%s: %v, %s", what, err, out)
		}
	}
}
