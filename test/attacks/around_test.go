//go:build linux

package attacks

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// victim starts a process of the same user outside the session, and names it and its sockets for the row.
func victim(t *testing.T, s *scene, _ *exec.Cmd) {
	t.Helper()
	s.vars["ABSTRACT"] = fmt.Sprintf("toolguard-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	s.vars["STREAM"], s.vars["DGRAM"] = s.path("peer/stream"), s.path("peer/dgram")
	cmd := exec.Command(s.vars["BIN"]+"/victim", s.vars["ABSTRACT"], s.vars["STREAM"], s.vars["DGRAM"], s.vars["KEY"])
	cmd.Env = append(s.env, "VICTIM=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential()}
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		defer time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() }).Stop() // it may be one that runs only when nothing else would
		if err := cmd.Wait(); err != nil {
			t.Errorf("the process outside the session was harmed: %v", err)
		}
	})
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	words := strings.Fields(line)
	if len(words) != 3 || words[0] != "READY" {
		t.Fatalf("victim wrote %q", line)
	}
	s.vars["PID"], s.vars["ADDRESS"] = words[1], words[2]
}

// visitor looks for a service by the row's abstract name, from outside, when it's there.
func visitor(t *testing.T, s *scene, _ *exec.Cmd) {
	t.Helper()
	s.vars["ABSTRACT"] = fmt.Sprintf("toolguard-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	over, done := make(chan struct{}), make(chan struct{})
	visit := func(name, network string) {
		if !exists(s.path("ws/waiting-"+name)) || exists(s.path("ws/visited-"+name)) {
			return
		}
		if c, err := net.Dial(network, "@"+s.vars["ABSTRACT"]); err == nil {
			_, _ = c.Write([]byte("x"))
			c.Close()
		} else if !errors.Is(err, unix.ECONNREFUSED) {
			t.Error(err)
		}
		if err := os.WriteFile(s.path("ws/visited-"+name), nil, 0o644); err != nil {
			t.Error(err)
		}
	}
	go func() {
		defer close(done)
		for {
			select {
			case <-over:
				return
			case <-time.After(20 * time.Millisecond):
				visit("stream", "unix")
				visit("datagram", "unixgram")
			}
		}
	}()
	t.Cleanup(func() { close(over); <-done })
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// listeners opens a TCP and a UDP port on this machine that the row can try to reach.
func listeners(t *testing.T, s *scene, _ *exec.Cmd) {
	t.Helper()
	tcp, err := net.Listen("tcp", "[::]:0") // both families
	must(t, err)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { tcp.Close(); udp.Close() })
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	s.vars["TCP"] = strconv.Itoa(tcp.Addr().(*net.TCPAddr).Port)
	s.vars["UDP"] = strconv.Itoa(udp.LocalAddr().(*net.UDPAddr).Port)
}

// descriptors leaves a folder open at 7 and a file at 8.
func descriptors(t *testing.T, s *scene, cmd *exec.Cmd) {
	t.Helper()
	folder, err := os.Open(s.vars["OUT"])
	must(t, err)
	file, err := os.Open(s.vars["KEY"])
	must(t, err)
	t.Cleanup(func() { folder.Close(); file.Close() })
	cmd.ExtraFiles = []*os.File{nil, nil, nil, nil, folder, file} // from 3 on
}

// terminal makes a pseudo terminal the run's standard input and controlling terminal.
func terminal(t *testing.T, s *scene, cmd *exec.Cmd) {
	t.Helper()
	master, slave, err := pty.Open()
	must(t, err)
	t.Cleanup(func() { slave.Close(); master.Close() })
	cmd.Stdin = slave
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty, cmd.SysProcAttr.Ctty = true, true, 0
}

// accomplice makes standard input a unix socket, through which a process outside sends an open file, then a network socket.
func accomplice(t *testing.T, s *scene, cmd *exec.Cmd) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	file, err := os.Open(s.vars["KEY"])
	must(t, err)
	defer file.Close()
	network, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(network)
	for _, fd := range []int{int(file.Fd()), network} {
		must(t, unix.Sendmsg(pair[1], []byte("x"), unix.UnixRights(fd), nil, 0))
	}
	inside, outside := os.NewFile(uintptr(pair[0]), "inside"), os.NewFile(uintptr(pair[1]), "outside")
	t.Cleanup(func() { inside.Close(); outside.Close() })
	cmd.Stdin = inside
}

// orphan checks whether the process whose pid the attack wrote has ended, and kills it if it was to survive.
func orphan(t *testing.T, s *scene, confined bool) {
	t.Helper()
	f, err := os.Open(s.path("ws/pid"))
	must(t, err)
	defer f.Close()
	text, err := io.ReadAll(f)
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	err = unix.Kill(pid, 0)
	switch {
	case confined && err == nil:
		t.Errorf("process %d outlived the session", pid)
	case !confined && err != nil:
		t.Errorf("process %d is gone without toolguard: %v", pid, err)
	}
	if err == nil {
		must(t, unix.Kill(pid, unix.SIGKILL))
	}
}

// eventsFile makes the file that toolguard makes for the events, for the run without toolguard.
func eventsFile(t *testing.T, s *scene, _ *exec.Cmd) {
	t.Helper()
	f, err := os.OpenFile(s.vars["EVENTS"], os.O_CREATE|os.O_WRONLY, 0o644)
	must(t, err)
	must(t, f.Close())
	if os.Getuid() == 0 {
		must(t, os.Chown(s.vars["EVENTS"], s.user.ID, s.user.ID))
	}
}

// looseToolguard copies toolguard to a folder from which a confined program may execute it, with a policy that lets it read everything.
func looseToolguard(t *testing.T, s *scene, _ *exec.Cmd) {
	t.Helper()
	s.vars["TOOLGUARD"] = s.path("run/toolguard")
	copyFile(t, toolguard(t), s.vars["TOOLGUARD"])
	s.write(t, "ws/loose.toml", "version = 1\n[access]\nruntime = false\nsecrets = false\ndefault = { fs = \"deny\", net = \"allow\", env = \"allow\" }\n[[access.fs]]\npath = \"/\"\nread = true\nexecute = true\n")
}

// freely grants the run all of /proc, so that only the tested mechanism denies.
func freely(t *testing.T, s *scene, _ *exec.Cmd) {
	t.Helper()
	s.vars["POLICY"] = s.path("free.toml")
	s.write(t, "free.toml", `version = 1
[access]
default = { fs = "deny", net = "allow", env = "allow" }
runtime = false
protect = false
secrets = false
[[access.fs]]
path = "/"
read = true
execute = true
[[access.fs]]
path = "/proc"
read = true
update = true
execute = true
`)
}

// ownGroup keeps the run's signals to its group from the tests.
func ownGroup(_ *testing.T, _ *scene, cmd *exec.Cmd) { cmd.SysProcAttr.Setpgid = true }

// mover moves the process whose number the attack writes down to a control group of the tests'.
func mover(t *testing.T, s *scene, _ *exec.Cmd) {
	t.Helper()
	group := fmt.Sprintf("/sys/fs/cgroup/toolguard-test-%d", os.Getpid())
	must(t, os.Mkdir(group, 0o755))
	over := make(chan struct{})
	moved := make(chan error, 1)
	go func() {
		for {
			select {
			case <-over:
				moved <- nil
				return
			case <-time.After(20 * time.Millisecond):
			}
			if pid, _ := os.ReadFile(s.path("ws/pid")); strings.HasSuffix(string(pid), "\n") {
				pid = outside(t, "cgroup_move", strings.TrimSpace(string(pid)))
				moved <- errors.Join(os.WriteFile(group+"/cgroup.procs", pid, 0), os.WriteFile(s.path("ws/moved"), nil, 0o644))
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(over)
		if err := errors.Join(<-moved, removeGroup(group)); err != nil {
			t.Error(err)
		}
	})
}

// outside returns the number of a program's process that has another one in its own PID namespace, which is the last one in NSpid.
func outside(t *testing.T, comm, inside string) []byte {
	t.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range all {
		status, _ := os.ReadFile(file) // it may have ended
		_, rest, _ := strings.Cut(string(status), "\nNSpid:")
		numbers, _, _ := strings.Cut(rest, "\n")
		if strings.HasPrefix(string(status), "Name:\t"+comm+"\n") && strings.HasSuffix(numbers, "\t"+inside) {
			return []byte(filepath.Base(filepath.Dir(file)))
		}
	}
	t.Errorf("there is no process %s of %s", inside, comm)
	return nil
}

// removeGroup removes a control group, whose ended processes count for a moment.
func removeGroup(group string) error {
	var err error
	childtest.Within(time.Minute, func() bool {
		err = os.Remove(group)
		return !errors.Is(err, unix.EBUSY)
	})
	return err
}

// mounts puts a tmpfs and an overlay beneath $DIR/mnt.
func mounts(t *testing.T, s *scene, _ *exec.Cmd) {
	t.Helper()
	for _, dir := range []string{"mnt/none/", "mnt/overlay/", "upper/"} {
		s.write(t, dir, "")
	}
	mount := func(kind, at, data string) {
		must(t, unix.Mount(kind, s.path(at), kind, 0, data))
		t.Cleanup(func() { must(t, unix.Unmount(s.path(at), 0)) })
	}
	mount("tmpfs", "mnt/none", "")
	mount("tmpfs", "upper", "")
	s.write(t, "mnt/none/file", "SECRET")
	s.write(t, "upper/changes/", "")
	s.write(t, "upper/work/", "")
	mount("overlay", "mnt/overlay", fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s",
		s.path("secretary"), s.path("upper/changes"), s.path("upper/work")))
}

// listed makes a script of a listed interpreter, and a program that no rule lists.
func listed(t *testing.T, s *scene, _ *exec.Cmd) {
	t.Helper()
	s.write(t, "run/script", "#!"+s.vars["BIN"]+"/noop interpreter\n")
	must(t, os.Chmod(s.path("run/script"), 0o755))
	copyFile(t, s.vars["NOOP"], s.path("run/unlisted"))
	must(t, os.Symlink(s.vars["BIN"]+"/noop", s.path("run/second")))
	for script, interpreter := range map[string]string{"linked": "noop-push", "named": "noop"} {
		must(t, os.Symlink(s.vars["BIN"]+"/noop", s.path("run/"+interpreter)))
		s.write(t, "run/"+script, "#!"+s.path("run/"+interpreter)+" "+script+"\n")
		must(t, os.Chmod(s.path("run/"+script), 0o755))
	}
}

const binfmtDir = "/proc/sys/fs/binfmt_misc"

// interpreters registers the scene's denied program with binfmt_misc, as the interpreter of two files, by their first bytes.
func interpreters(t *testing.T, s *scene, _ *exec.Cmd) {
	t.Helper()
	for name, flags := range map[string]string{"registered": "", "registered-open": "F"} {
		magic := fmt.Sprintf("%s-%d-%d", name, os.Getpid(), time.Now().UnixNano())
		s.write(t, "run/"+name, magic)
		must(t, os.Chmod(s.path("run/"+name), 0o755))
		line := fmt.Sprintf(":%s:M::%s::%s:%s", magic, magic, s.vars["NOOP"], flags)
		must(t, os.WriteFile(binfmtDir+"/register", []byte(line), 0))
		t.Cleanup(func() { must(t, os.WriteFile(binfmtDir+"/"+magic, []byte("-1"), 0)) })
	}
}
