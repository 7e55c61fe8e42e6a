//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// onlyNested is in the answer to all other requests of a confined process.
const onlyNested = "may only begin a nested session"

// reach grants a session the tested programs.
func reach() string {
	return "\n[[access.fs]]\npath = \"" + built + "\"\nread = true\nexecute = true\n"
}

// A confined process may connect to toolguardd, whatever its policy says. Requests that could end or change its session are rejected.
func TestFromWithin(t *testing.T) {
	share(t)
	j := newJob(t, nobodyUID, work+reach(), `until read id <id; do sleep 0.1; done 2>/dev/null
for what in "sessions list" "sessions show $id" "sessions kill $id" "sessions reload $id --policy preset:readonly" events; do
	`+built+`/toolguard $what 2>&1; echo $?
done >said; echo done >can; sleep 1000`).start()
	eventually(t, "the session is running", func() bool { return len(sessions(t, nobodyUID)) == 1 })
	must(t, os.WriteFile(j.workspace+"/id", []byte(sessions(t, nobodyUID)[0].ID+"\n"), 0o644))
	j.wrote("can", "done")
	said, err := os.ReadFile(j.workspace + "/said")
	must(t, err)
	if strings.Count(string(said), onlyNested+"\n2\n") != 5 {
		t.Errorf("it got %s", said)
	}
	if list := sessions(t, nobodyUID); len(list) != 1 || list[0].State != "running" || list[0].Reloads != 0 {
		t.Errorf("its session is %+v", list)
	}
}

// A session may only connect to toolguardd's socket, even as root, and to no other one.
func TestSocketFromWithin(t *testing.T) {
	share(t)
	const another = "/run/toolguard/other"
	l, err := net.Listen("unix", another)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	must(t, os.Chmod(another, 0o666))
	open := strings.Replace(work, `fs = "deny"`, `fs = "allow"`, 1)
	for _, uid := range []uint32{0, nobodyUID} {
		j := newJob(t, uid, open, `cat >try.py <<'END'
import os, _socket
def connect(path):
    _socket.socket(_socket.AF_UNIX).connect(path)
def send(path):
    _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM).sendto(b"x", path)
it, other = "/run/toolguard/toolguard.sock", "/run/toolguard/other"
for what in (connect, it), (connect, other), (send, it), (os.chmod, it, 0o777), (os.unlink, it), (os.utime, it):
    try:
        what[0](*what[1:])
        print(what[0].__name__, "ok")
    except OSError as e:
        print(what[0].__name__, e.errno)
END
python3 -S -E try.py >said; echo done >can`)
		j.start().status()
		j.wrote("can", "done")
		said, err := os.ReadFile(j.workspace + "/said")
		must(t, err)
		// A datagram to a stream socket fails with EPROTOTYPE before any hook is called.
		if want := "connect ok\nconnect 13\nsend 91\nchmod 13\nunlink 13\nutime 13\n"; string(said) != want {
			t.Errorf("user %d: %s", uid, said)
		}
	}
}

// A nested session is restricted by both policies.
func TestNarrower(t *testing.T) {
	share(t)
	for _, x := range []struct {
		name, outer, inner, in, out string
		denials                     int // that are reported to the outer session
	}{
		{"both allow it", more, more, "yes", "yes", 0},
		{"the inner doesn't", more, work, "no", "yes", 1},
		{"the outer doesn't", work, more, "no", "no", 2},
	} {
		t.Run(x.name, func(t *testing.T) {
			j := newJob(t, nobodyUID, x.outer+reach(), `read x <OUTSIDE && echo yes >out || echo no >out
`+built+`/toolguard exec --daemon require --policy inner.toml --events inner.log --report never -- bash -c 'read x <OUTSIDE && echo yes >in || echo no >in'
echo $? >status; echo done >can`)
			j.write("inner.toml", x.inner)
			j.start().status()
			j.wrote("out", x.out)
			j.wrote("status", "0")
			j.wrote("in", x.in)
			inner := *j
			inner.events = j.workspace + "/inner.log"
			if got, want := inner.count("denial", j.outside), map[string]int{"yes": 0, "no": 1}[x.in]; got != want {
				t.Errorf("%d denials are reported to the inner session, want %d: %+v", got, want, inner.reported())
			}
			if got := j.count("denial", j.outside); got != x.denials {
				t.Errorf("%d denials are reported to the outer session, want %d: %+v", got, x.denials, j.reported())
			}
			for _, session := range []*job{j, &inner} {
				for _, e := range session.reported() { // also denials of variables
					if e.Kind == "denial" && strings.HasPrefix(e.Target, "/") && e.Target != j.outside {
						t.Errorf("an operation of toolguard itself is reported: %+v", e)
					}
				}
			}
		})
	}
}

// toolguardd makes no session nested in one that it doesn't own, such as root's.
func TestWithinAnother(t *testing.T) {
	share(t)
	j := newJob(t, 0, work+reach(), built+`/toolguard exec --daemon require --policy preset:readonly -- true 2>said; echo $? >can`, "--daemon", "none")
	j.start().status()
	j.wrote("can", "125")
	if said, _ := os.ReadFile(j.workspace + "/said"); !strings.Contains(string(said), "the client's session doesn't belong to this toolguardd") {
		t.Errorf("it got %s", said)
	}
}

// toolguardd doesn't confuse the client of a connection with a process that has reused its PID.
func TestPeerIsGone(t *testing.T) {
	s := share(t)
	j := newJob(t, nobodyUID, work, `cat >connect.py <<'END'
import os, _socket, time
s = _socket.socket(_socket.AF_UNIX)
s.connect("/run/toolguard/toolguard.sock")
if pid := os.fork():
    with open("pid", "w") as f:
        f.write(str(os.getpid()))
    os._exit(0)
while not os.path.exists("go"):
    time.sleep(0.1)
try: # the connection may be rejected already
    s.sendall(b"GET /v1/sessions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
except BrokenPipeError:
    pass
with open("said", "wb") as f:
    try:
        while got := s.recv(4096):
            f.write(got)
    except ConnectionResetError:
        pass
os.rename("said", "answer")
END
echo up >can; until [ -e begin ]; do sleep 0.1; done; python3 -S -E connect.py; echo gone >can; until [ -e answer ]; do sleep 0.1; done`).start()
	j.wrote("can", "up")
	must(t, s.Process.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = s.Process.Signal(syscall.SIGCONT) })
	must(t, os.WriteFile(j.workspace+"/begin", nil, 0o644))
	j.wrote("can", "gone")
	pid, err := os.ReadFile(j.workspace + "/pid")
	must(t, err)
	twin(t, string(pid))
	must(t, s.Process.Signal(syscall.SIGCONT))
	must(t, os.WriteFile(j.workspace+"/go", nil, 0o644))
	var answer []byte
	eventually(t, "it's answered", func() bool {
		answer, err = os.ReadFile(j.workspace + "/answer")
		return err == nil
	})
	if !strings.Contains(string(answer), onlyNested) && !strings.Contains(string(answer), "the client can't be identified") {
		t.Errorf("it got %s", answer)
	}
}

// twin starts an unconfined process of the same user with a PID.
func twin(t *testing.T, pid string) {
	t.Helper()
	for range 100 {
		var before int
		_, err := fmt.Sscan(pid, &before)
		must(t, err)
		must(t, os.WriteFile("/proc/sys/kernel/ns_last_pid", fmt.Append(nil, before-1), 0))
		cmd := exec.Command("sleep", "1000")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyUID, Gid: nobodyUID}}
		must(t, cmd.Start())
		t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
		if cmd.Process.Pid == before {
			return
		}
	}
	t.Fatalf("no process gets the PID %s", pid)
}

// forBridges makes an ioctl about bridges, which any user may do on any socket: if the module isn't loaded, the kernel requests it, once.
const forBridges = `import fcntl, _socket
try:
    fcntl.ioctl(_socket.socketpair()[0], 0x8940, bytes(24)) # SIOCGIFBR
except OSError: # there's still none
    pass
`

// A nested session can't make the kernel load a module if the outer one may not, whatever the nested policy allows.
func TestWithinKernel(t *testing.T) {
	share(t)
	const setting = "/proc/sys/kernel/modprobe"
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	before, err := os.ReadFile(setting)
	must(t, err)
	t.Cleanup(func() { _ = os.WriteFile(setting, before, 0) })
	loads, asked := dir+"/modprobe", dir+"/asked"
	must(t, errors.Join(
		os.WriteFile(loads, []byte("#!/bin/sh\necho \"$@\" >>"+asked+"\n"), 0o755),
		os.WriteFile(setting, []byte(loads), 0),
	))
	must(t, exec.Command("python3", "-S", "-E", "-c", forBridges).Run())
	if text, err := os.ReadFile(asked); err != nil || string(text) != "-q -- bridge\n" {
		t.Fatalf("unconfined, no module was requested: %q, %v", text, err)
	}
	must(t, os.Remove(asked))
	j := newJob(t, nobodyUID, work+reach(), "python3 -S -E ask.py && "+
		built+"/toolguard exec --daemon require --policy inner.toml --events inner.log --report never -- bash -c 'python3 -S -E ask.py && echo ran >ran'")
	must(t, os.WriteFile(j.workspace+"/ask.py", []byte(forBridges), 0o644))
	j.write("inner.toml", work+"\n[access.syscalls]\nallow = [\"init_module\", \"finit_module\", \"kexec_load\", \"kexec_file_load\"]\n")
	j.start().status()
	if text, err := os.ReadFile(asked); err == nil {
		t.Errorf("a module was requested: %s", text)
	}
	if _, err := os.Stat(j.workspace + "/ran"); err != nil {
		t.Errorf("the nested session didn't run: %v", err)
	}
	for file, want := range map[string]int{j.events: 2, j.workspace + "/inner.log": 1} {
		n := 0
		for _, e := range readEvents(t, file) {
			if e.of("denial") && e.Unmapped.Target == "loading a module" {
				n += max(1, int(e.Count))
			}
		}
		if n != want {
			t.Errorf("%s: %d denials", file, n)
		}
	}
}
