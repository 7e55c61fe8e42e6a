//go:build linux

package net

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/nettest"
)

// running is a session that executes each line that it receives.
type running struct {
	*fixture
	cmd    *exec.Cmd
	egress int
	in     io.WriteCloser
	n      int
}

// startRunning starts a session that runs lines. The output of each is in a file after it has ended.
func startRunning(t *testing.T, p *fixture) *running {
	t.Helper()
	cmd := p.confined(`n=0; while read -r line; do n=$((n+1)); sh -c "$line" >out.tmp 2>&1; echo "exit $?" >>out.tmp; mv out.tmp out.$n; done`)
	in, err := cmd.StdinPipe()
	must(t, err)
	cmd.Stderr, err = os.Create(filepath.Join(p.workspace, "stderr"))
	must(t, err)
	must(t, cmd.Start())
	r := &running{fixture: p, cmd: cmd, in: in}
	t.Cleanup(r.end)
	r.do("true")
	if p.user == 0 { // otherwise egress is a child of toolguardd
		r.egress = egressOf(t, cmd.Process.Pid, 0)
	}
	return r
}

// end ends the session if it runs.
func (r *running) end() {
	_ = r.in.Close()
	_ = r.cmd.Wait()
}

// do runs a line to its end.
func (r *running) do(line string) string {
	r.t.Helper()
	return r.doFor(5*time.Minute, line)
}

// doFor is do with another time-out.
func (r *running) doFor(patience time.Duration, line string) string {
	r.t.Helper()
	r.n++
	if _, err := fmt.Fprintln(r.in, line); err != nil {
		r.t.Fatal(err)
	}
	out := filepath.Join(r.workspace, fmt.Sprintf("out.%d", r.n))
	untilFor(r.t, patience, line, func() bool { return exists(out) })
	b, err := os.ReadFile(out)
	must(r.t, err)
	return string(b)
}

func (r *running) expect(line, want string) {
	r.t.Helper()
	if got := r.do(line); !regexp.MustCompile(want).MatchString(got) {
		r.t.Errorf("%s: %q, want %s", line, got, want)
	}
}

const fetch = "curl -sS -m 10 http://allowed.test/"

// Egress has no privileges, files or sockets that could be abused.
func TestConfined(t *testing.T) {
	needs(t, "curl")
	r := startRunning(t, newFixture(t, "", allow("allowed.test")))
	r.expect(fetch, "^hello") // egress is ready
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", r.egress))
	if err != nil || len(tasks) < 2 {
		t.Fatal(tasks, err)
	}
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // a thread that has ended
		}
		must(t, err)
		for _, want := range []string{
			"Uid:\t65534\t65534\t65534\t65534\n", "Gid:\t65534\t65534\t65534\t65534\n", "Groups:\t \n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n",
			"CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "CapInh:\t0000000000000000\n",
		} {
			if !strings.Contains(string(b), want) {
				t.Errorf("%s without %q", task, want)
			}
		}
	}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", r.egress))
	if err != nil || len(fds) == 0 {
		t.Fatal(fds, err)
	}
	known := regexp.MustCompile(`^(/dev/null|socket:.*|anon_inode:(bpf-map|\[eventpoll\]|\[eventfd\])|/sys/fs/cgroup/.*)$`)
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && !known.MatchString(to) {
			t.Errorf("%s is %s", fd, to)
		}
	}
}

// When egress dies, it is restarted, and nothing bypasses it meanwhile. Repeated deaths are reported.
func TestEgressDies(t *testing.T) {
	needs(t, "curl")
	r := startRunning(t, newFixture(t, "", allow("allowed.test")))
	r.expect(fetch, "^hello")
	r.expect("curl -sS -m 10 http://denied.test/", "Could not resolve")
	kill := func() {
		t.Helper()
		must(t, syscall.Kill(r.egress, syscall.SIGKILL))
	}
	kill()
	r.egress = egressOf(t, r.cmd.Process.Pid, r.egress)
	r.expect(fetch, "^hello")
	r.expect("curl -sS -m 10 http://denied.test/", "Could not resolve")
	kill()
	deaths := 2
	stderr := filepath.Join(r.workspace, "stderr")
	until(t, "it's reported", func() bool { // on a slow machine it may have lived too long between deaths
		r.egress = egressOf(t, r.cmd.Process.Pid, r.egress)
		b, _ := os.ReadFile(stderr)
		if strings.Contains(string(b), "egress has died 5 times in a row (it ended): connections by name may fail or wait") {
			return true
		}
		kill()
		deaths++
		return false
	})
	r.expect(fetch, "^hello")
	r.expect("curl -sS -m 10 http://denied.test/", "Could not resolve")
	b, err := os.ReadFile(r.events)
	if err != nil || strings.Count(string(b), "egress died") != deaths {
		t.Errorf("%v: not %d times in the events: %s", err, deaths, b)
	}
}

// When egress hangs, nothing bypasses it, and it is replaced.
func TestEgressHangs(t *testing.T) {
	needs(t, "curl")
	t.Parallel() // slow
	r := startRunning(t, newFixture(t, "", allow("allowed.test")))
	r.expect(fetch, "^hello")
	must(t, syscall.Kill(r.egress, syscall.SIGSTOP))
	r.expect("curl -sS -m 1 http://"+deniedIP+"/; curl -sS -m 1 http://"+allowedIP+"/", `^curl: \(28\).*\ncurl: \(28\).*\nexit 28\n$`)
	r.egress = egressOf(t, r.cmd.Process.Pid, r.egress)
	r.expect(fetch, "^hello")
	r.expect("curl -sS http://"+deniedIP+"/", "denied by toolguard")
	if b, err := os.ReadFile(r.events); err != nil || !strings.Contains(string(b), "egress died (it sent nothing for 30s) and is restarted") {
		t.Errorf("%v: no report: %s", err, b)
	}
}

// The session's certificate authority is that of its first egress.
func TestAuthorityStays(t *testing.T) {
	needs(t, "curl")
	r := startRunning(t, newFixture(t, "tls_intercept = true", allow("api.test", `scheme = "https"`, `path_prefix = "/v1"`)))
	bundle, line := r.do(`cat "$SSL_CERT_FILE"`), "curl -sS -m 10 https://api.test/v1/a"
	r.expect(line, "^hello")
	must(t, syscall.Kill(r.egress, syscall.SIGKILL))
	r.egress = egressOf(t, r.cmd.Process.Pid, r.egress)
	r.expect(line, "^hello")
	if again := r.do(`cat "$SSL_CERT_FILE"`); again != bundle || !strings.Contains(bundle, "BEGIN CERTIFICATE") || strings.Contains(bundle, "PRIVATE") {
		t.Errorf("the bundle is %q, and was %q", again, bundle)
	}
}

// Servers are verified by the certificate authorities that the session's user trusts, which are in its bundle.
func TestTrustedAuthorities(t *testing.T) {
	needs(t, "curl")
	p := newFixture(t, "tls_intercept = true", allow("api.test", `scheme = "https"`, `path_prefix = "/v1"`))
	other, err := nettest.NewAuthority()
	must(t, err)
	known, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	must(t, err)
	for _, x := range []struct {
		bundle []byte
		want   string
	}{{known, "^hello"}, {other.PEM, "alert"}} {
		file := filepath.Join(t.TempDir(), "bundle.pem")
		must(t, os.WriteFile(file, x.bundle, 0o600))
		cmd := p.confined(`curl -sS -m 10 https://api.test/v1/a; grep -c "` + strings.Split(string(x.bundle), "\n")[1] + `" "$SSL_CERT_FILE"`)
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+file, "SSL_CERT_DIR=/nonexistent")
		if got := outcomeOf(t, cmd); !regexp.MustCompile(x.want).MatchString(got.output) || !strings.HasSuffix(got.output, "1\n") {
			t.Errorf("%q, not %s", got.output, x.want)
		}
	}
	want := "connect https://api.test:443 host_mismatch"
	if all := p.denials(); !has(all, want) {
		t.Errorf("no event %q among %q", want, all)
	}
}

// Without a trustworthy toolguardd no command starts.
func TestNoToolguardd(t *testing.T) {
	p := newFixture(t, "", allow("allowed.test"))
	for _, dir := range []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"} {
		if exists(filepath.Join(dir, "toolguardd")) {
			t.Skip("needs a machine where toolguardd isn't installed")
		}
	}
	alone := filepath.Join(t.TempDir(), "toolguard")
	text, err := os.ReadFile(binary)
	if err == nil {
		err = os.WriteFile(alone, text, 0o755)
	}
	must(t, err)
	fails := func(want string) {
		t.Helper()
		cmd := p.confined("touch started")
		cmd.Path = alone
		out, _ := cmd.CombinedOutput()
		message := strings.Join(strings.Fields(string(out)), " ") // the message has line breaks
		if cmd.ProcessState.ExitCode() != 125 || !strings.Contains(message, want) || exists(filepath.Join(p.workspace, "started")) {
			t.Errorf("exit status %d: %s", cmd.ProcessState.ExitCode(), out)
		}
	}
	fails("isn't in toolguard's folder")
	program := filepath.Join(filepath.Dir(alone), "toolguardd")
	must(t, os.WriteFile(program, []byte("\x7fELF"), 0o755))
	fails("start egress: exec format error")
	must(t, os.Chmod(program, 0o777))
	fails("no other user may be able to write it")
}

// A toolguard that is killed takes egress with it; the session's remaining processes stay confined by the kernel, and can't reach a process that binds
// egress's port.
func TestToolguardKilled(t *testing.T) {
	needs(t, "curl")
	p := newFixture(t, "", allow("allowed.test"))
	r := startRunning(t, p)
	r.expect(fetch, "^hello")
	group := r.cgroup()
	if !exists(group) {
		t.Errorf("%s isn't the session's control group", group)
	}
	r.do(`setsid sh -c 'until [ -e dead ]; do sleep 0.05; done; ` + fetch + ` >after 2>&1; curl -sS -m 10 http://` + deniedIP + `/ >>after 2>&1; echo over >>after' >/dev/null 2>&1 &`)
	port := tcpPort(t, r.egress)
	must(t, r.cmd.Process.Kill())
	_ = r.cmd.Wait()
	until(t, "egress ends", func() bool { return !exists(fmt.Sprintf("/proc/%d", r.egress)) || zombie(r.egress) })
	var thief net.Listener
	until(t, "its port is free", func() (free bool) {
		var err error
		thief, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		return err == nil
	})
	defer thief.Close()
	spoken := make(chan bool, 1)
	go func() {
		c, err := thief.Accept()
		if err == nil {
			_ = c.Close()
		}
		spoken <- err == nil
	}()
	must(t, os.WriteFile(filepath.Join(p.workspace, "dead"), nil, 0o600))
	after := filepath.Join(p.workspace, "after")
	until(t, "the remaining process ends", func() bool {
		b, _ := os.ReadFile(after)
		return strings.Contains(string(b), "over\n")
	})
	b, err := os.ReadFile(after)
	if err != nil || strings.Contains(string(b), "hello") {
		t.Errorf("%v, %q", err, b)
	}
	if _ = thief.Close(); <-spoken {
		t.Error("the process that bound egress's port was reached")
	}
	until(t, "its cgroup goes with the next start", func() bool {
		outcomeOf(t, p.confined("true"))
		return !exists(group)
	})
}

// cgroup returns the cgroup of the last session, from its first event.
func (p *fixture) cgroup() string {
	p.t.Helper()
	var m [][]byte
	until(p.t, "the session's first event is written", func() bool {
		b, _ := os.ReadFile(p.events)
		m = regexp.MustCompile(`"session":"([0-9a-f]{16})"`).FindSubmatch(b)
		return m != nil
	})
	dirs, _ := filepath.Glob("/sys/fs/cgroup/*/toolguard/" + string(m[1]))
	return append(dirs, "/sys/fs/cgroup/toolguard/"+string(m[1]))[0]
}

func zombie(pid int) bool {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return strings.Contains(string(b), ") Z ")
}

// No other process reaches a session's egress, neither directly nor from a session that may reach loopback.
func TestOthersEgress(t *testing.T) {
	needs(t, "curl", "python3")
	t.Parallel() // slow
	first := startRunning(t, newFixture(t, "", allow("allowed.test")))
	port := strconv.Itoa(tcpPort(t, first.egress))
	line := python + `'import socket,sys
c = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
c.sendall(b"GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n"); print("got", c.recv(9))' ` + port
	for _, x := range []struct{ rules, want, denial string }{
		{allow("api.test"), "PermissionError", "connect tcp://127.0.0.1:" + port + " host_not_listed"},
		{allow("127.0.0.1", "port = "+port), "ConnectionResetError|got b''", ""},
	} {
		p := newFixture(t, "", x.rules)
		if got := outcomeOf(t, p.confined(line)); !regexp.MustCompile(x.want).MatchString(got.output) {
			t.Errorf("%s: %q", x.rules, got.output)
		}
		if all := p.denials(); x.denial != "" && !has(all, x.denial) {
			t.Errorf("no event %q among %q", x.denial, all)
		}
	}
	datagrams := strconv.Itoa(udpPort(t, first.egress))
	question := python + `'import socket,sys
q = b"\0\1\1\0\0\1\0\0\0\0\0\0" + b"".join(bytes([len(l)]) + l.encode() for l in ["framed", "test"]) + b"\0\0\1\0\1"
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); c.settimeout(2); c.sendto(q, ("127.0.0.1", int(sys.argv[1]))); print("got", c.recv(99))' ` + datagrams
	free := first.command(question)
	for _, cmd := range []*exec.Cmd{free, newFixture(t, "", allow("127.0.0.1", `protocol = "udp"`, "port = "+datagrams)).confined(question)} {
		if got := outcomeOf(t, cmd); !strings.Contains(got.output, "timed out") {
			t.Errorf("another's datagram: %q", got.output)
		}
	}
	own := python + `'import socket,sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)' ` + port
	first.expect(own, "PermissionError")
	first.expect(fetch, "^hello")
	first.expect("curl -sS -m 10 http://denied.test/", "Could not resolve") // which is reported, and no query of other sessions
	until(t, "it's reported", func() bool { return has(first.denials(), "resolve dns://denied.test dns_denied") })
	if all := first.denials(); slices.ContainsFunc(all, func(e reported) bool { return strings.Contains(e.Unmapped.Target, "framed") }) {
		t.Errorf("other sessions' denials in the session's events: %q", all)
	}
}

// tcpPort returns a port on 127.0.0.1 on which a process listens.
func tcpPort(t *testing.T, pid int) int { return listeningPort(t, pid, "tcp", "0A") }

// udpPort returns a port on 127.0.0.1 on which a process receives datagrams.
func udpPort(t *testing.T, pid int) int { return listeningPort(t, pid, "udp", "07") }

func listeningPort(t *testing.T, pid int, protocol, state string) int {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(t, err)
	var own []string
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil {
			own = append(own, to)
		}
	}
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, protocol))
	must(t, err)
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) > 9 && f[3] == state && strings.HasPrefix(f[1], "0100007F:") && slices.Contains(own, "socket:["+f[9]+"]") {
			port, err := strconv.ParseUint(f[1][len("0100007F:"):], 16, 16)
			must(t, err)
			return int(port)
		}
	}
	t.Fatal("the process listens on no port")
	return 0
}

// A process outside reaches the port that the session may listen on, and no other.
func TestAccept(t *testing.T) {
	needs(t, "python3")
	p := newFixture(t, "", allow("127.0.0.1", "port = 8090", "listen = true"))
	line := python + `'import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", 8090)); s.listen()
u = socket.socket(); u.bind(("127.0.0.1", 0)); u.listen()
open("port", "w").write("%d\n" % u.getsockname()[1]); s.settimeout(120)
c, _ = s.accept(); print(c.recv(9)); u.settimeout(1)
try: u.accept(); print("reached")
except TimeoutError: print("not reached")'`
	output := make(chan outcome)
	go func() { output <- outcomeOf(t, p.confined(line)) }()
	var port string
	until(t, "it waits", func() bool {
		b, _ := os.ReadFile(filepath.Join(p.workspace, "port"))
		port = strings.TrimSpace(string(b))
		return strings.HasSuffix(string(b), "\n")
	})
	if c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second); err == nil { // the process outside tries first
		_ = c.Close()
	}
	c, err := net.Dial("tcp", "127.0.0.1:8090")
	must(t, err)
	defer c.Close()
	fmt.Fprint(c, "hi")
	if got := <-output; got.output != "b'hi'\nnot reached\n" {
		t.Errorf("%q", got.output)
	}
	if all, want := p.denials(), "listen tcp://127.0.0.1:"+port+" host_not_listed"; !has(all, want) {
		t.Errorf("no event %q among %q", want, all)
	}
}

// A session leaves no processes and no cgroup, however it ends.
func TestCleanup(t *testing.T) {
	processes := func() []int { return slices.Sorted(maps.Keys(children(os.Getpid()))) }
	servers := processes()
	for _, line := range []string{"true", "setsid sleep 60 & exit 3", "kill -9 $$"} {
		p := newFixture(t, "tls_intercept = true", allow("api.test", `scheme = "https"`, `path_prefix = "/v1"`))
		cmd := p.confined(line)
		if got := outcomeOf(t, cmd); strings.Contains(got.output, "cgroup") {
			t.Errorf("%s: %q", line, got.output)
		}
		if left := processes(); !slices.Equal(left, servers) {
			t.Errorf("%s leaves the processes %v besides %v", line, children(os.Getpid()), servers)
		}
		if group := p.cgroup(); exists(group) {
			t.Errorf("%s leaves the control group %s", line, group)
		}
	}
}

// A policy without network grants starts no egress and allows no internet socket.
func TestNothingGranted(t *testing.T) {
	needs(t, "python3")
	for _, x := range []struct {
		rules  string
		output string
	}{{`default = { net = "deny" }`, "13"}, {"", "13"}, {`default = { net = "allow" }`, "made"}} {
		p := newFixture(t, x.rules, "")
		cmd := p.confined(python + `'import socket,time
try: socket.socket(); output = "made"
except OSError as e: output = e.errno
open("output", "w").write("%s\n" % output); time.sleep(60)'`)
		must(t, cmd.Start())
		file := filepath.Join(p.workspace, "output")
		until(t, "there is output", func() bool { b, _ := os.ReadFile(file); return strings.HasSuffix(string(b), "\n") })
		if b, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(b)) != x.output {
			t.Errorf("%v: %q, want %q", err, b, x.output)
		}
		for _, args := range children(cmd.Process.Pid) {
			if strings.HasPrefix(args, "toolguardd egress") {
				t.Errorf("%q starts egress", x.rules)
			}
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
}

// Without toolguardd, rules about hosts can't be enforced for an ordinary user: the command isn't started, and the message names the rules
// and the remedy.
func TestOrdinaryUser(t *testing.T) {
	needs(t, "curl")
	p := newFixture(t, "", allow("allowed.test")+allow("database.test", "port = 5432"))
	const line = "curl -sS http://allowed.test/a"
	if got := outcomeOf(t, p.confined(line)); !strings.HasPrefix(got.output, "hello GET http://allowed.test/a") {
		t.Errorf("as root: %q", got.output)
	}
	p.chown(nobodyUID)
	as := func(daemon, want string) {
		t.Helper()
		cmd := exec.Command(binary, "exec", "--policy", p.policy, "--report", "never", "--daemon", daemon, "--", "/bin/sh", "-c", "touch started; "+line)
		cmd.Dir, cmd.SysProcAttr = p.workspace, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyUID, Gid: nobodyUID}}
		output, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 125 || exists(filepath.Join(p.workspace, "started")) {
			t.Errorf("--daemon %s: %v", daemon, err)
		}
		for _, want := range []string{"nothing was started", p.policy + ":8:1: net.1 ", p.policy + ":11:1: net.2 ", "could be reached", want} { // before Landlock ABI 4 on any port
			if !strings.Contains(string(output), want) {
				t.Errorf("--daemon %s: it prints %s, without %q", daemon, output, want)
			}
		}
	}
	as("none", "leave out --daemon none, so that toolguardd decides, or run it as root; or ")
	if _, err := os.Stat("/run/toolguard/toolguard.sock"); err == nil {
		t.Skip("needs a machine without toolguardd for the rest")
	}
	as("auto", "have toolguardd decide, which isn't set up here (docs/daemon.md), or run it as root")
}
