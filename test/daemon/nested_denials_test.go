//go:build linux

package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// nesting is a script of a confined process that places one of its threads in a nested session, and skips some of toolguard's steps.
const nesting = `
import _socket, _thread, os, sys, time # others take an emulated machine seconds to import
def call(method, path, body=""):
    s = _socket.socket(_socket.AF_UNIX)
    s.connect("/run/toolguard/toolguard.sock")
    s.sendall(f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body.encode())}\r\n\r\n{body}".encode())
    answer = b""
    while part := s.recv(4096):
        answer += part
    answer = answer.decode()
    print(method, path, answer.split(" ", 1)[1][:300], flush=True)
    return answer
def follow(id): # as long as the process lives
    s = _socket.socket(_socket.AF_UNIX)
    s.connect("/run/toolguard/toolguard.sock")
    s.sendall(f"GET /v1/sessions/{id}/notices HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    print("/notices", s.recv(4096).decode().split(" ", 1)[1][:300], flush=True)
    return s
def event():
    lock = _thread.allocate_lock()
    lock.acquire()
    return lock # acquiring it waits for its release
def nested(adopted, before, after):
    id = call("POST", "/v1/sessions", '{"policy":' + open("policy.json").read() + ',"argv":["x"]}').split('"id":"')[1].split('"')[0]
    tid, begun, expected, did, on, over = [], event(), event(), event(), event(), event()
    def run():
        tid.append(_thread.get_native_id())
        begun.release()
        expected.acquire()
        open("/dev/null").close()
        before()
        did.release()
        on.acquire()
        after()
        over.release()
    _thread.start_new_thread(run, ())
    begun.acquire()
    call("PUT", "/v1/sessions/" + id + "/thread", '{"thread":%d}' % tid[0])
    expected.release()
    did.acquire()
    if adopted:
        stream = follow(id)
    on.release()
    over.acquire()
def tried(what):
    open(what + ".tried", "a").write("x")
def denied(what, do):
    try:
        do()
        print(what, "wasn't denied", flush=True)
    except PermissionError:
        tried(what)
def child(do):
    if os.fork() == 0:
        do()
        os._exit(0)
    os.wait()
def nothing():
    pass
`

// passPolicy passes the policy of its session to the job, which uses it in a request.
func (j *job) passPolicy(state string) {
	j.t.Helper()
	eventually(j.t, "the session is running", func() bool { l := sessions(j.t, nobodyUID); return len(l) == 1 && l[0].State == "running" })
	text, err := os.ReadFile(filepath.Join(state, "sessions", sessions(j.t, nobodyUID)[0].ID, "policy-1.json"))
	must(j.t, err)
	must(j.t, os.WriteFile(j.workspace+"/policy.new", text, 0o644))
	must(j.t, os.Rename(j.workspace+"/policy.new", j.workspace+"/policy.json"))
}

// silent nests in several ways, each in a process of its own, until it has tried to open a file, or to signal its toolguard: toolguardd ends a
// session that its client doesn't confirm within ten seconds, which may happen earlier on a busy machine.
const silent = nesting + `
def attempt(what, file):
    def opens():
        denied(what, lambda: open(file))
    if what == "never": nested(False, nothing, lambda: child(opens))
    if what == "before": nested(True, lambda: child(opens), nothing)
    if what == "itself": nested(True, nothing, opens)
    if what == "program": nested(True, nothing, lambda: os.execv("/bin/bash", ["bash", "-c", f"read x <{file} || echo >>program.tried"]))
    if what == "signals": nested(True, nothing, lambda: denied(what, lambda: os.kill(int(sys.argv[1]), 0)))
    if what == "stays": nested(False, nothing, lambda: (opens(), time.sleep(1000)))
for what in sys.argv[3:]:
    if os.fork() == 0:
        while not os.path.exists(what + ".tried"):
            child(lambda: attempt(what, sys.argv[2] + "-" + what))
        os._exit(0)
for what in sys.argv[3:]:
    os.wait()
`

// The denials of a confined process are reported, even in a nested session for which it skips toolguard's steps.
func TestSilence(t *testing.T) {
	t.Parallel()
	state := share(t).state
	what := []string{"never", "before", "itself", "program", "stays", "signals"}
	j := newJob(t, nobodyUID, work, `until [ -e policy.json ]; do sleep 0.1; done
python3 -S -E silent.py $PPID OUTSIDE `+strings.Join(what, " ")+` >log 2>&1; echo gone >can; sleep 1000`)
	must(t, os.WriteFile(j.workspace+"/silent.py", []byte(silent), 0o644))
	files := map[string]string{"signals": "toolguard"} // the targets in the events
	for _, name := range what[:5] {
		files[name] = j.outside + "-" + name
		must(t, os.WriteFile(files[name], []byte("secret\n"), 0o644))
	}
	t.Cleanup(func() { t.Logf("its output:\n%s", fileText(t, j.workspace+"/log")) })
	j.start()
	j.passPolicy(state)
	j.wrote("can", "gone") // also the process that keeps its thread in an unconfirmed session
	for _, name := range what {
		times := len(fileText(t, j.workspace+"/"+name+".tried"))
		eventually(t, fmt.Sprintf("the denials of %q are reported", name), func() bool { return times > 0 && j.count("denial", files[name]) >= times })
	}
	if n := j.count("gap", ""); n != 0 {
		t.Errorf("%d gaps are reported: %+v", n, j.reported())
	}
}

// toolguardd places no thread in a session without no_new_privs: a program that gains privileges would run under its caller's policy.
func TestGains(t *testing.T) {
	state := share(t).state
	j := newJob(t, nobodyUID, work, `sleep 1000`).start()
	j.passPolicy(state)
	for gains, want := range map[string]string{"": "/thread 403 ", "--no-new-privs": "/thread 200 "} {
		cmd := exec.Command("bash", "-c", `exec setpriv --reuid=nobody --regid=nogroup --clear-groups $0 python3 -S -E -c "$1"`, gains, nesting+"nested(True, nothing, nothing)")
		cmd.Dir = j.workspace
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "/notices 200 ") != (gains != "") {
			t.Errorf("setpriv %s: %v, %s", gains, err, out)
		}
	}
}
