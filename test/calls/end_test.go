//go:build linux

package calls

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// However toolguard ends while calls wait and hooks run, those who wait get an answer or a closed connection, and nothing remains: no socket, no
// hook. What a kill leaves is removed by the next start.
func TestEnds(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP) // toolguard keeps it ignored if it was started so, as by nohup
	defer signal.Stop(caught)
	for name, finish := range map[string]func(*session){
		"command": func(s *session) { s.stop(t) },
		"SIGTERM": func(s *session) { s.kill(t, syscall.SIGTERM) },
		"SIGINT":  func(s *session) { s.kill(t, syscall.SIGINT) },
		"SIGHUP":  func(s *session) { s.kill(t, syscall.SIGHUP) },
		"SIGKILL": func(s *session) { s.kill(t, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newFixture(t, ordinary())
			mark := "7" + fmt.Sprint(time.Now().UnixNano())[8:]
			p.write(t, "policy/slow", "#!/bin/sh\nexec sleep "+mark+"\n")
			s := p.start(t, asking+"[[hooks.before_tool_call]]\ncommand = [\"./slow\"]\ntools = [\"slow\"]\ntimeout = \"60s\"\n")
			id := waits(t, submit(t, s.inside, bash("1", "id")))
			running := []<-chan *reply{
				s.outside.begin(request("POST", message.Calls, bash("2", "id").with("wait_ms", 600000))),
				s.outside.begin(request("GET", message.Calls+"/1?wait_ms=600000", nil)),
				s.outside.begin(request("GET", message.Approvals+"/"+id+message.Decision+"?wait_ms=600000", nil)),
				s.outside.begin(request("POST", message.Calls, call{"id": "3", "tool": "slow", "arguments": call{}})),
			}
			if !eventually(func() bool { return len(approvals(t, s.outside)) == 2 && processes(t, "sleep\x00"+mark) == 1 }) {
				t.Fatalf("the calls don't wait: %s", show(approvals(t, s.outside)))
			}
			finish(s)
			for i, c := range running {
				r := s.outside.wait(t, c)
				if !(r.Status == 0 || r.Status == 503 && r.Err == "the session has ended" || r.Status == 200 && strings.Contains(string(r.Body), `"denied"`)) {
					t.Errorf("%d: %d %s %s", i, r.Status, r.Err, r.Body)
				}
			}
			_, err := os.Lstat(s.socket)
			if killed := name == "SIGKILL"; killed != (err == nil) {
				t.Errorf("the socket: %v", err)
			}
			if name != "SIGKILL" && !eventually(func() bool { return processes(t, "sleep\x00"+mark) == 0 }) {
				t.Error("the hook still runs")
			}
			if name != "SIGKILL" {
				s.event(t, "approval", "what=withdrawn", "approval="+id)
			}
			next := p.again(t)
			files, err := os.ReadDir(filepath.Join(p.run, "toolguard"))
			if err != nil || len(files) != 1 || files[0].Name() != filepath.Base(next.socket) {
				t.Errorf("%v, %v", files, err)
			}
			runs(t, submit(t, next.inside, bash("4", "ls")))
		})
	}
}

// The socket and its folder are the user's alone. Without XDG_RUNTIME_DIR they are in the state folder.
func TestSocketFiles(t *testing.T) {
	eachUser(t, func(t *testing.T, p *fixture) {
		s := p.start(t, asking)
		for file, mode := range map[string]os.FileMode{s.socket: 0o600, filepath.Dir(s.socket): 0o700} {
			info, err := os.Lstat(file)
			must(t, err)
			if st := info.Sys().(*syscall.Stat_t); info.Mode().Perm() != mode || int(st.Uid) != p.user.ID {
				t.Errorf("%s: %s, user %d", file, info.Mode(), st.Uid)
			}
		}
		s.stop(t)
		p.env = []string{"XDG_RUNTIME_DIR="}
		p.run = filepath.Dir(s.state("run"))
		must(t, os.MkdirAll(p.run, 0o700))
		if err := os.Symlink("run", filepath.Join(p.run, "toolguard")); err != nil { // where the tests look for it
			t.Fatal(err)
		}
		must(t, os.Lchown(filepath.Join(p.run, "toolguard"), p.user.ID, p.user.ID))
		s = p.again(t)
		runs(t, submit(t, s.outside, bash("1", "ls")))
	})
}
