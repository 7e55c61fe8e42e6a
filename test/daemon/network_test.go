//go:build linux

package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/nettest"
)

// zone has the names of the name server. All addresses are the machine's.
var zone = nettest.Names{"allowed.test": {"93.184.215.1"}, "denied.test": {deniedIP}}

const deniedIP = "93.184.215.2"

// internet is a network namespace other than toolguardd's, with servers and additional addresses. The test enters and leaves it.
type internet struct {
	t         *testing.T
	own, away netns.NsHandle
}

func newInternet(t *testing.T, more ...string) *internet {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	own, err := netns.Get()
	must(t, err)
	i := &internet{t: t, own: own}
	ca, err := nettest.NewAuthority()
	must(t, err)
	replace(t, "/etc/resolv.conf", "nameserver 127.0.0.53\n")
	replace(t, "/etc/ssl/certs/ca-certificates.crt", string(ca.PEM))
	i.away, err = netns.New()
	must(t, err)
	defer i.leave()
	must(t, nettest.LocalAddresses(append(more, "93.184.215.1", deniedIP)...))
	names, err := net.ListenPacket("udp", "127.0.0.53:53")
	must(t, err)
	t.Cleanup(func() { _ = names.Close() })
	go zone.ServeUDP(names)
	for port, ca := range map[string]*nettest.Authority{":80": nil, ":443": ca, ":5432": nil} {
		web, err := net.Listen("tcp", port)
		must(t, err)
		t.Cleanup(func() { _ = web.Close() })
		go nettest.ServeWeb(web, ca)
	}
	return i
}

// replace replaces a file of the machine until the test ends.
func replace(t *testing.T, file, text string) {
	t.Helper()
	former, err := os.ReadFile(file)
	t.Cleanup(func() {
		if err == nil {
			_ = os.WriteFile(file, former, 0o644)
		}
	})
	must(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)))
}

func (i *internet) enter() { must(i.t, netns.Set(i.away)) }

func (i *internet) leave() { must(i.t, netns.Set(i.own)) }

// netPolicy is work with network rules.
func netPolicy(rules ...string) string {
	text := work
	for _, r := range rules {
		text += "\n[[access.net]]\nallow = true\n" + r + "\n"
	}
	return text
}

const (
	allowed   = `host = "allowed.test"`
	curl      = "curl -sSN -m 10 " // prints the result of each address, in order
	fetch     = curl + "http://allowed.test/"
	fetchBoth = fetch + " http://denied.test/"
	fetchAll  = fetchBoth + " http://" + deniedIP + ":5432/"
)

// serveAt is a script with a server of the session at a port, and a client.
const serveAt = `exec /usr/bin/python3 -c 'import socket, sys; s = socket.socket(); s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(); ` +
	`c = socket.create_connection(s.getsockname(), 5); a, _ = s.accept(); c.sendall(b"own"); print(a.recv(3).decode())' `

// The output if the server is reached, if the name can't be resolved, and if the server can't be reached.
const yes, unnamed, no = "hello GET .*\n", ".*Could not resolve.*\n", ".*(?:ailed to connect|ermission denied).*\n"

// worker is a session of another user than egress's, in another network namespace than toolguardd's. It executes the lines that it gets.
type worker struct {
	*job
	in io.Writer
	n  int
}

func (i *internet) worker(policy string, flags ...string) *worker {
	i.t.Helper()
	w := &worker{job: newJob(i.t, other, policy, `n=0
while read -r line; do n=$((n+1)); bash -c "$line" >out.tmp 2>&1; mv out.tmp out.$n; done`, flags...)}
	in, err := w.StdinPipe()
	must(i.t, err)
	i.t.Cleanup(func() { _ = in.Close() })
	i.enter()
	defer i.leave()
	w.in = in
	w.start()
	return w
}

// do returns the output of a line.
func (w *worker) do(line string) string {
	w.t.Helper()
	w.n++
	_, err := fmt.Fprintln(w.in, line)
	must(w.t, err)
	var said []byte
	eventually(w.t, "it has done "+line, func() bool {
		said, err = os.ReadFile(filepath.Join(w.workspace, fmt.Sprintf("out.%d", w.n)))
		return err == nil
	})
	return string(said)
}

func (w *worker) expect(line, want string) {
	w.t.Helper()
	if got := w.do(line); !regexp.MustCompile(want).MatchString(got) {
		w.t.Errorf("%s: it prints %q, want %s", line, got, want)
	}
}

// end ends the session regularly.
func (w *worker) end() {
	w.t.Helper()
	_ = w.in.(io.Closer).Close()
	if got := w.status(); got != 0 {
		w.t.Errorf("exit status %d", got)
	}
}

func (w *worker) wantEvent(kind, target, reason string) {
	w.t.Helper()
	if !slices.ContainsFunc(w.reported(), func(e seenEvent) bool { return e.Kind == kind && e.Target == target && e.Reason == reason }) {
		w.t.Errorf("no event of %s %s %s among %+v", kind, target, reason, w.reported())
	}
}

// egressOf returns the only egress process of a toolguardd, except a former one.
func egressOf(t *testing.T, toolguardd, before int) (pid int) {
	t.Helper()
	eventually(t, "there is an egress process", func() bool {
		for _, pid = range egressesOf(t, toolguardd) {
			if pid != before {
				return true
			}
		}
		return false
	})
	return pid
}

func egressesOf(t *testing.T, toolguardd int) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	for _, file := range all {
		stat, _ := os.ReadFile(file)
		args, _ := os.ReadFile(filepath.Dir(file) + "/cmdline")
		_, rest, _ := strings.Cut(string(stat), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[0] != "Z" && f[1] == strconv.Itoa(toolguardd) && bytes.HasPrefix(args, []byte("toolguardd\x00egress\x00")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			must(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// For ordinary users egress decides about hosts, in a process of another unprivileged user, in the network namespace of their commands.
func TestNetwork(t *testing.T) {
	s := share(t)
	i := newInternet(t)
	i.enter()
	if out, err := exec.Command("bash", "-c", fetchAll).CombinedOutput(); strings.Count(string(out), "hello") != 3 { // all servers can be reached
		t.Errorf("without toolguard: %v, %s", err, out)
	}
	i.leave()
	w := i.worker(netPolicy(allowed, "host = \"localhost\"\nlisten = true"))
	w.expect(fetchAll, "^"+yes+unnamed+no+"$")
	w.expect(serveAt+"5433", "^own\n$")
	w.expect(serveAt+"5432", "Address already in use")
	w.expect(curl+"-H 'Host: allowed.test' http://"+deniedIP+"/", "denied by toolguard")
	pid := egressOf(t, s.Process.Pid, 0)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for _, want := range []string{"Uid:\t65534\t65534\t65534\t65534\n", "Groups:\t \n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapPrm:\t0000000000000000\n"} {
		if !strings.Contains(string(status), want) {
			t.Errorf("egress's status is without %q", want)
		}
	}
	if n := childtest.Filters(t, pid); n != 4 {
		t.Errorf("egress has %d system call filters, not toolguardd's two and its own two", n)
	}
	its, err := netns.GetFromPid(pid)
	must(t, err)
	if !its.Equal(i.away) {
		t.Error("egress is in another network namespace than the session")
	}
	cgroup := sessions(t, other)[0].Cgroup
	w.end()
	eventually(t, "the session and egress have ended", func() bool {
		_, err := os.Stat(cgroup)
		return os.IsNotExist(err) && len(egressesOf(t, s.Process.Pid)) == 0 && len(sessions(t, 0)) == 0
	})
	w.wantEvent("denial", "dns://denied.test", "dns_denied")
	w.wantEvent("denial", "tcp://"+deniedIP+":5432", "host_not_listed")
	w.wantEvent("denial", "tcp://127.0.0.1:5432", "host_not_listed")
	w.wantEvent("denial", "http://allowed.test:80/", "host_mismatch")

	j := newJob(t, other, netPolicy(allowed)+"[[access.env]]\nname = \"http_proxy\"\nread = true\n", fetch)
	j.Env = append(j.Env, "http_proxy=http://user:canary@127.0.0.1:5432")
	i.enter()
	j.start()
	i.leave()
	if code := j.status(); code == 0 {
		t.Error("a proxy that isn't granted is reached")
	}
	grant := regexp.MustCompile(`host = "127.0.0.1",?\s+scheme = "http",?\s+port = 5432`)
	if out, _ := ask(t, other, "report", j.reported()[0].Session); !grant.MatchString(out) || strings.Contains(out, "canary") {
		t.Errorf("toolguardd's record of a proxy: %s", out)
	}
}

// When egress is killed, it is restarted. Meanwhile nothing is allowed.
func TestNetworkEgressDies(t *testing.T) {
	s := share(t)
	w := newInternet(t).worker(netPolicy(allowed))
	w.expect(fetchBoth, "^"+yes+unnamed+"$")
	pid := 0
	for range 2 {
		pid = egressOf(t, s.Process.Pid, pid)
		must(t, syscall.Kill(pid, syscall.SIGKILL))
		w.expect(fetchBoth, "^"+yes+unnamed+"$")
	}
	w.end()
	if n := w.count("gap", ""); n < 2 {
		t.Errorf("%d gaps are reported: %+v", n, w.reported())
	}
}

// When toolguardd is killed, egress ends, too: everything that egress decides about is denied, even if another process uses its ports. The
// decisions of the kernel stay. The next toolguardd starts egress again.
func TestNetworkTakeOver(t *testing.T) {
	state := t.TempDir()
	s := serve(t, state)
	i := newInternet(t)
	w := i.worker(netPolicy(allowed, `host = "`+deniedIP+`"`+"\nport = 5432"))
	w.expect(fetchAll, "^"+yes+unnamed+yes+"$")
	pid := egressOf(t, s.Process.Pid, 0)
	s.stop(syscall.SIGKILL)
	eventually(t, "egress has ended", func() bool { return syscall.Kill(pid, 0) != nil })
	w.expect(fetchAll+" http://"+deniedIP+"/", "^(?:.*(?:Could not resolve|refused|denied).*\n){2}"+yes+no+"$")

	s = serve(t, state)
	egressOf(t, s.Process.Pid, 0)
	w.expect(fetchAll, "^"+yes+unnamed+yes+"$")
	if list := sessions(t, other); len(list) != 1 || list[0].State != "running" {
		t.Errorf("%+v", list)
	}
	w.end()
	w.wantEvent("denial", "dns://denied.test", "dns_denied")
	if w.count("gap", "") == 0 {
		t.Errorf("no gap is reported: %+v", w.reported())
	}
	eventually(t, "the session and egress have ended", func() bool {
		left, _ := filepath.Glob(state + "/sessions/*")
		return len(left) == 0 && len(sessions(t, 0)) == 0
	})
}

// A reload changes the network rules of a running session at once: those about names, and those about addresses.
func TestNetworkReload(t *testing.T) {
	share(t)
	w := newInternet(t).worker(netPolicy(allowed))
	w.expect(fetchAll, "^"+yes+unnamed+no+"$")
	id := sessions(t, other)[0].ID
	number := `host = "` + deniedIP + `"` + "\nport = 5432"
	for _, x := range []struct {
		rules []string
		want  string
	}{
		{[]string{`host = "denied.test"`, number}, unnamed + yes + yes},
		{[]string{allowed, `host = "denied.test"`}, yes + yes + no},
		{nil, unnamed + unnamed + no},
		{[]string{allowed}, yes + unnamed + no},
	} {
		file := w.write("../next.toml", netPolicy(x.rules...))
		if out, code := ask(t, other, "sessions", "reload", id, "--policy", file); code != 0 {
			t.Fatalf("reload: %d, %s", code, out)
		}
		w.expect(fetchAll, "^"+x.want+"$")
	}
	file := w.write("../next.toml", intercepting("/open"))
	if out, code := ask(t, other, "sessions", "reload", id, "--policy", file); code == 0 || !strings.Contains(out, "tls_intercept can't be turned on for session "+id) {
		t.Errorf("tls_intercept: %d, %s", code, out)
	}
	w.expect(fetch, "^hello")
	w.end()
	for _, e := range w.reported() {
		if e.Reason == "engine_error" {
			t.Errorf("an event is described by another policy than the one that decided: %+v", e)
		}
	}
	w.wantEvent("denial", "dns://denied.test", "dns_denied")
	w.wantEvent("denial", "dns://allowed.test", "dns_denied")
}
