package mac

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// open is a policy that grants the workspace.
var open = &attack{}

// TestLife: exit status, signals, descriptors, limits, wall time, orphans and TMPDIR are as documented.
func TestLife(t *testing.T) {
	s := newScene(t)
	policy := s.write(open, "")
	limited := filepath.Join(s.values["out"], "limited.toml")
	must(t, os.WriteFile(limited, []byte(open.policyText("")+"\n[limits]\nopen_files = 64\nfile_size = \"1MiB\"\nwall_time = \"2s\"\n"), 0o644))
	secret := filepath.Join(s.values["out"], "secret")
	must(t, os.WriteFile(secret, []byte("content\n"), 0o644))
	for _, x := range []struct {
		name, policy, script string
		code                 int
		stdout               string
	}{
		{"exit status", policy, "exit 7", 7, ""},
		{"a signal", policy, "kill -TERM $$", 143, ""},
		{"no such command", policy, "no-such-command-of-toolguard", 127, ""},
		{"TMPDIR is private", policy, `case $TMPDIR in */toolguard-*) echo x >"$TMPDIR/x" && cat "$TMPDIR/x" ;; esac`, 0, "x\n"},
		{"descriptors are closed", policy, "read line <&9 && echo got $line; exit 3", 3, ""},
		{"the limit of open files", limited, "ulimit -n", 0, "64\n"},
		{"the size of files", limited, "dd if=/dev/zero of=big bs=65536 count=32 2>/dev/null; test $(wc -c <big) -le 1048576 && echo small", 0, "small\n"},
	} {
		cmd := s.confined(x.policy, x.script, "--report", "never", "--quiet")
		f, err := os.Open(secret)
		must(t, err)
		cmd.ExtraFiles = []*os.File{nil, nil, nil, nil, nil, nil, f} // 9
		got := run(t, cmd)
		must(t, f.Close())
		if got.code != x.code || got.stdout != x.stdout {
			t.Errorf("%s: %+v", x.name, got)
		}
	}
	if got := run(t, s.confined(limited, "sleep 60", "--report", "never")); got.code != 143 || got.took > 30*time.Second {
		t.Errorf("wall time: %+v", got)
	}
	got := run(t, s.confined(policy, "sleep 60 & echo $!", "--report", "never"))
	pid, _ := strconv.Atoi(strings.TrimSpace(got.stdout))
	if got.code != 0 || pid == 0 || syscall.Kill(pid, 0) == nil {
		t.Errorf("an orphan: %+v", got)
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "toolguard-*")); err != nil || len(left) > 0 {
		t.Errorf("remaining: %q, %v", left, err)
	}
}

// A session within a session isn't started, with the reason.
func TestNested(t *testing.T) {
	s := newScene(t)
	policy := s.write(open, "[[access.fs]]\npath = \""+filepath.Dir(binary)+"\"\nread = true\nexecute = true\n")
	got := run(t, s.confined(policy, "'"+binary+"' exec -- /usr/bin/true", "--report", "never"))
	if got.code != 125 || !strings.Contains(got.stderr, "outer sandbox") {
		t.Errorf("%+v", got)
	}
}

// TestSignals: a signal to toolguard reaches the command.
func TestSignals(t *testing.T) {
	s := newScene(t)
	cmd := s.confined(s.write(open, ""), `trap 'exit 5' USR1; : >ready; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; done`, "--report", "never")
	must(t, cmd.Start())
	for range 200 {
		if _, err := os.Stat(s.values["ws"] + "/ready"); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	must(t, cmd.Process.Signal(syscall.SIGUSR1))
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 5 {
		t.Errorf("exit status %d", code)
	}
}

// TestLongProfile: a profile that is too long for an argument is enforced, too.
func TestLongProfile(t *testing.T) {
	s := newScene(t)
	policy := s.write(open, manyRules())
	must(t, os.Mkdir(s.values["ws"]+"/folder-2999", 0o755))
	if got := run(t, s.confined(policy, "echo x >allowed && cat allowed; echo x >folder-2999/x", "--report", "never")); got.code == 0 || got.stdout != "x\n" {
		t.Errorf("%+v", got)
	}
}

// TestDenialEvents: a denial is reported with its rule. The log is best effort, so three attempts are made.
func TestDenialEvents(t *testing.T) {
	s := newScene(t)
	a := &attack{}
	policy := s.write(a, key)
	must(t, os.WriteFile(s.values["ws"]+"/key.txt", []byte("content\n"), 0o644))
	for range 3 {
		events := filepath.Join(s.values["out"], "events")
		got := run(t, s.confined(policy, "cat key.txt; sleep 1", "--events", events))
		text, _ := os.ReadFile(events)
		if strings.Contains(string(text), "key.txt") && strings.Contains(string(text), "fs.2") && strings.Contains(got.stderr, "key.txt") {
			return
		}
		t.Logf("%+v\n%s", got, text)
	}
	t.Error("no event names the rule")
}

// everyday are commands that work under a policy with the workspace and the presets that are detected, and print what they print without toolguard.
var everyday = []struct{ name, needs, before, script string }{
	{"shell", "sh", "", "for i in 1 2 3; do echo $i; done | sort -r | head -2"},
	{"files", "ls", "", "mkdir d && echo x >d/f && cp d/f g && mv g h && ls && rm -r d && find . -name h"},
	{"text", "sed", "", "printf 'b\\na\\n' >f; sort f | sed s/a/c/ | awk '{print NR, $1}' | grep c"},
	{"archives", "tar", "", "echo x >f; tar czf a.tgz f && rm f && tar xzf a.tgz && cat f; zip -q z.zip f && unzip -l z.zip | tail -1"},
	{"dates and users", "id", "", "id -un; date -u -r 0 +%Y; sw_vers -productName; uname -s"},
	{"git", "git", "git init -q . && git config user.email a@b && git config user.name n", "echo x >f && git add f && git commit -qm m && git log --format=%s"},
	{"git status", "git", "git init -q .", "echo x >f; git status --short"},
	{"make", "make", "", "printf 'all:\\n\\t@echo made\\n' >Makefile; make"},
	{"C", "cc", "", "printf 'int puts(const char*);int main(void){return puts(\"c\")<0;}' >m.c && cc -o m m.c && ./m"},
	{"Swift", "swiftc", "", "echo 'print(\"swift\")' >m.swift && swiftc -o m m.swift && ./m"},
	{"Go", "go", "", "printf 'module x\\n' >go.mod; printf 'package main\\nfunc main(){println(\"go\")}\\n' >m.go; GOFLAGS=-mod=mod go run . 2>&1"},
	{"Python", "python3", "", "python3 -c 'import json,os,subprocess; print(json.dumps(os.listdir())); subprocess.run([\"echo\",\"sub\"])'"},
	{"Ruby", "ruby", "", "ruby -e 'puts [3,1,2].sort.inspect'"},
	{"Perl", "perl", "", "perl -e 'print join(\",\", sort (3,1,2)), \"\\n\"'"},
	{"Node", "node", "", "node -e 'console.log([3,1,2].sort(), process.platform)'"},
	{"npm", "npm", "", "npm --version"},
	{"Homebrew", "brew", "", "brew --prefix"},
	{"curl", "curl", "", "curl --version | head -1 | cut -d' ' -f1"},
	{"ssh", "ssh", "", "ssh -V 2>&1 | cut -c1-7"},
	{"plist", "plutil", "", "printf '{\"a\":1}' >a.json; plutil -convert xml1 -o - a.json | tail -1"},
	{"temporary files", "mktemp", "", "f=$(mktemp) && echo x >$f && cat $f"},
	{"vim", "vim", "", "vim -es -u NONE -c 'normal ihello' -c 'wq! v.txt' </dev/null; cat v.txt"},
}

func TestEveryday(t *testing.T) {
	for _, x := range everyday {
		t.Run(x.name, func(t *testing.T) {
			if _, err := exec.LookPath(x.needs); err != nil {
				t.Skipf("needs %s", x.needs)
			}
			bare, confined := newScene(t), newScene(t)
			for _, s := range []*scene{bare, confined} {
				s.prepare(&attack{before: x.before})
			}
			want := run(t, bare.shell(x.script))
			cmd := confined.shell(x.script)
			cmd.Path, cmd.Args = binary, []string{binary, "exec", "--report", "never", "--quiet", "--", "/bin/sh", "-c", x.script}
			got := run(t, cmd)
			if got.code != want.code || got.stdout != want.stdout || got.code != 0 || got.stdout == "" {
				t.Errorf("bare:     %+v\nconfined: %+v", want, got)
			}
		})
	}
}
