package kernelaudit

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

func TestShortLivedProcess(t *testing.T) {
	r := reader(t)
	secret := touchFile(t, deniedDir(t)+"/secret")
	var s session
	must(t, s.run(r, self(t), "read-denied", secret))
	d := onlyDenial(t, s, secret)
	exe := self(t)
	comm := filepath.Base(exe)
	comm = comm[:min(len(comm), 15)]
	if d.PID != s.pid || d.PPID != os.Getpid() || d.UID != os.Getuid() || d.Exe != exe || d.Comm != comm || d.Session != s.id {
		t.Errorf("process: %+v\nwant pid %d of %d, %s", d, s.pid, os.Getpid(), exe)
	}
	if d.Errno != syscall.EACCES || !d.Call.Known || d.Call.Number != unix.SYS_OPENAT || d.Nested {
		t.Errorf("call: %+v", d)
	}
	var st unix.Stat_t
	if err := unix.Stat(secret, &st); err != nil || d.Inode != st.Ino {
		t.Errorf("inode %d, want %d (%v)", d.Inode, st.Ino, err)
	}
}

// onlyDenial returns the single denial of a path.
func onlyDenial(t *testing.T, s session, path string) Denial {
	t.Helper()
	var found []Denial
	for _, d := range s.denials {
		if d.Path == path {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d denials of %q, want one; in all: %+v", len(found), path, s.denials)
	}
	if !s.totals.Exact || s.totals.Missing != 0 {
		t.Errorf("totals %+v", s.totals)
	}
	return found[0]
}

// TestAllowedIsNotReported is the control of every other test: an allowed access leaves no record.
func TestAllowedIsNotReported(t *testing.T) {
	r := reader(t)
	allowed := touchFile(t, t.TempDir()+"/open")
	var s session
	must(t, s.run(r, self(t), "read-ok", allowed))
	for _, d := range s.denials {
		if d.Path == allowed {
			t.Errorf("denied: %+v", d)
		}
	}
}

// TestHostileNames gives files and programs names that would forge fields if they were written as they are.
func TestHostileNames(t *testing.T) {
	r := reader(t)
	dir := deniedDir(t)
	for i, name := range []string{
		"a b", "new\nline", `qu"ote`, `" ino=1 dev="x`, "\x1b[31mred", "\xff\xfe", "tab\t", "(null)", "<too_long>",
		"ses=1 pid=1", "=", " ", "2F746D70", "audit(1.1:1): domain=1", strings.Repeat("x", 255),
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			exe := filepath.Join(t.TempDir(), name)
			copyFile(t, self(t), exe)
			secret := touchFile(t, filepath.Join(dir, name))
			var s session
			must(t, s.run(r, exe, "read-denied", secret))
			d := onlyDenial(t, s, secret)
			if d.PID != s.pid || d.Session != s.id || d.Exe != exe || d.Comm != name[:min(len(name), 15)] {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestNameOperationsReportDirectory checks which path the kernel reports for operations on names.
func TestNameOperationsReportDirectory(t *testing.T) {
	r := reader(t)
	dir := deniedDir(t)
	touchFile(t, dir+"/file")
	must(t, os.Mkdir(dir+"/sub", 0o755))
	var s session
	must(t, s.run(r, self(t), "names", dir))
	var got []string
	for _, d := range s.denials {
		if rel, ok := strings.CutPrefix(d.Path, dir); ok {
			got = append(got, strings.Join(d.Blockers, ",")+" "+rel)
		}
	}
	want := []string{
		"fs.make_reg ", "fs.make_dir ", "fs.make_sym ", "fs.make_fifo ", "fs.remove_file ", "fs.remove_dir ",
		"fs.remove_file,fs.make_reg ",
		"fs.remove_file,fs.refer ", "fs.make_reg,fs.refer /sub",
		"fs.refer ", "fs.make_reg,fs.refer /sub",
		"fs.truncate /file", "fs.write_file /file",
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

func TestScopesAndPorts(t *testing.T) {
	r := reader(t)
	l, err := net.Listen("unix", fmt.Sprintf("@toolguard\n\" test %d", os.Getpid()))
	must(t, err)
	defer l.Close()
	other := exec.Command("cat")
	out, err := other.StdoutPipe()
	must(t, err)
	in, err := other.StdinPipe()
	must(t, err)
	must(t, other.Start())
	defer other.Wait()
	defer other.Process.Kill()
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // Start returns before the child has its name; once it answers, it has
		t.Fatal(err)
	}

	find := func(action, arg, blocker string) Denial {
		var s session
		if err := s.run(r, self(t), action, arg); err != nil {
			t.Fatal(action, err)
		}
		for _, d := range s.denials {
			if d.Blockers != nil && d.Blockers[0] == blocker {
				return d
			}
		}
		t.Fatalf("%s: no %s in %+v", action, blocker, s.denials)
		return Denial{}
	}
	if d := find("signal-denied", fmt.Sprint(other.Process.Pid), "scope.signal"); d.PeerPID != other.Process.Pid || d.PeerComm != "cat" ||
		d.Errno != syscall.EPERM {
		t.Errorf("signal: %+v", d)
	}
	if d := find("abstract-denied", l.Addr().String(), "scope.abstract_unix_socket"); d.Path != "\x00"+l.Addr().String()[1:] {
		t.Errorf("abstract socket: %+v", d)
	}
	if d := find("tcp-denied", "", "net.connect_tcp"); d.Remote != "127.0.0.1:9" {
		t.Errorf("connect: %+v", d)
	}
	if d := find("tcp-denied", "", "net.bind_tcp"); !strings.HasSuffix(d.Local, ":9999") {
		t.Errorf("bind: %+v", d)
	}
}

func TestSeccomp(t *testing.T) {
	r := reader(t)
	var s session
	must(t, s.run(r, self(t), "seccomp"))
	var found []Denial
	for _, d := range s.denials {
		if d.Source == Seccomp {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%+v", s.denials)
	}
	d := found[0]
	if d.PID != s.pid || d.Session != s.id || d.Exe != self(t) || d.Call.Number != unix.SYS_GETPRIORITY ||
		d.Action != retErrno || d.Signal != 0 {
		t.Errorf("%+v", d)
	}
}

// TestNested distinguishes denials by the policy, in any process, from those of a domain that a program created for itself.
func TestNested(t *testing.T) {
	r := reader(t)
	file := touchFile(t, t.TempDir()+"/file")
	comm := childtest.ReadFile(t, "/proc/self/comm") // the program's too
	for name, nested := range map[string]bool{"": true, "another": true, strings.TrimSpace(string(comm)): false} {
		s := session{comm: name}
		must(t, s.run(r, self(t), "nested", file))
		if d := onlyDenial(t, s, file); d.Nested != nested {
			t.Errorf("%q: %+v", name, d)
		}
	}
}

// Without an audit session, the domains that count are those of the process that starts the session and of processes with the session's name.
func TestDomainsWithoutSession(t *testing.T) {
	w := Watch{r: &Reader{}, session: Session{Audit: NoSession, PID: 10, Name: "secret"}, domains: map[uint64]*domainCount{}}
	for i, made := range []domain{{pid: 10, comm: "toolguard"}, {pid: 11, comm: "secret"}, {pid: 11, comm: "other"}, {pid: 11}} {
		made.id = uint64(i)
		w.recordDomain(made)
		if got, want := w.matches(&Denial{Source: Landlock, Domain: made.id}), i < 2; got != want {
			t.Errorf("%+v counts: %v", made, got)
		}
	}
	w.session.Name = ""
	if w.recordDomain(domain{id: 9, pid: 11}); w.matches(&Denial{Source: Landlock, Domain: 9}) {
		t.Error("a domain without a name counts for a session without one")
	}
}

// TestTwoSessions runs two sessions at the same time: each gets all of its own denials and no others.
func TestTwoSessions(t *testing.T) {
	r := reader(t)
	const each = 1000
	var wg sync.WaitGroup
	for i := range 2 {
		secret := touchFile(t, deniedDir(t)+fmt.Sprint("/", i))
		wg.Go(func() {
			var s session
			if err := s.run(r, self(t), "flood", secret, fmt.Sprint(each)); err != nil {
				t.Error(err)
			}
			mine, shared := 0, map[uint64]bool{} // shared are the other's domains once a caller's record was lost: both have one starter
			for _, d := range s.denials {
				shared[d.Domain] = shared[d.Domain] || !d.Call.Known
				switch {
				case d.Path == secret:
					mine++
				case strings.HasPrefix(d.Path, "/var/tmp/toolguard-denied-") && !shared[d.Domain]:
					t.Errorf("%d got the other session's: %+v", s.id, d)
					return
				}
			}
			if uint64(mine)+s.totals.Missing < each {
				t.Errorf("%d of %d, %+v", mine, each, s.totals)
			}
		})
	}
	wg.Wait()
}

// TestFlood checks that every denial is delivered if nothing is lost.
func TestFlood(t *testing.T) {
	const n = 3000 // three records each: the kernel has capacity for all, and for those of other tests
	r := reader(t)
	secret := touchFile(t, deniedDir(t)+"/secret")
	var s session
	must(t, s.run(r, self(t), "flood", secret, fmt.Sprint(n)))
	if !s.totals.Exact || countPath(s, secret)+s.totals.Missing != n {
		t.Errorf("%d came of %d: %+v", countPath(s, secret), n, s.totals)
	}
}

// countPath returns the number of denials of a path.
func countPath(s session, path string) (n uint64) {
	for _, d := range s.denials {
		if d.Path == path {
			n++
		}
	}
	return n
}

// TestOverflowIsCounted stops reading until the flood is over, with a socket of little capacity.
func TestOverflowIsCounted(t *testing.T) {
	const n = 3000 // three records each: the kernel has capacity for all, and for those of other tests
	r := reader(t)
	must(t, unix.SetsockoptInt(r.socket, unix.SOL_SOCKET, unix.SO_RCVBUF, 16<<10))
	secret := touchFile(t, deniedDir(t)+"/secret")
	over := make(chan struct{})
	s := session{onFirst: func() { <-over }, onEnd: func() {
		if err := waitSent(n / 10); err != nil {
			t.Error(err)
		}
		if err := unix.SetsockoptInt(r.socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer); err != nil {
			t.Error(err)
		}
		close(over)
		for end := time.Now().Add(patience); hasData(r.socket); time.Sleep(time.Millisecond) { // or the end of the domain would be lost too
			if time.Now().After(end) {
				t.Error("the socket never has capacity again")
				return
			}
		}
	}}
	must(t, s.run(r, self(t), "flood", secret, fmt.Sprint(n)))
	if s.totals.Missing == 0 || s.totals.Why == "" || !s.totals.Exact || s.totals.Delivered+s.totals.Missing != n {
		t.Errorf("%+v of %d", s.totals, n)
	}
}

// hasData reports whether a socket has data. The kernel adds nothing to one that was full until it is empty.
func hasData(socket int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(socket), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil
}

// TestFinishWaitsForRecords handles the denials for longer than the kernel may be silent.
func TestFinishWaitsForRecords(t *testing.T) {
	const n, each = 400, 2 * quietTimeout / 400
	r := reader(t)
	secret := touchFile(t, deniedDir(t)+"/secret")
	over := make(chan struct{})
	s := session{onEnd: func() { close(over) }, onEach: func() { <-over; time.Sleep(each) }}
	began := time.Now()
	must(t, s.run(r, self(t), "flood", secret, fmt.Sprint(n)))
	if took := time.Since(began); took < quietTimeout || countPath(s, secret) != n || !s.totals.Exact {
		t.Errorf("%d of %d came in %v: %+v", countPath(s, secret), n, took, s.totals)
	}
}

// TestFinishEndsWithoutRecords checks that Finish ends before its context if no record arrives any more.
func TestFinishEndsWithoutRecords(t *testing.T) {
	r := reader(t)
	w, err := r.Watch(Session{Audit: 1}, func(Denial) {})
	must(t, err)
	none := unix.SockFprog{Len: 1, Filter: &unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}}
	must(t, unix.SetsockoptSockFprog(r.socket, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &none))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := time.Now()
	totals, err := w.Finish(ctx)
	if err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < quietTimeout || took > patience/2 {
		t.Errorf("it took %v", took)
	}
	if totals.Exact || !strings.Contains(totals.Why, errNoRecords.Error()) {
		t.Errorf("%+v", totals)
	}
}

// Records that arrive before Listen are delivered.
func TestListenLate(t *testing.T) {
	reader(t)
	r, err := Open()
	must(t, err)
	defer r.Close()
	secret := touchFile(t, deniedDir(t)+"/secret")
	s := session{onEnd: r.Listen}
	must(t, s.run(r, self(t), "read-denied", secret))
	onlyDenial(t, s, secret)
	if !s.totals.Exact || !r.Proven() {
		t.Errorf("%+v", s.totals)
	}
}

// Without a known loss, Finish doesn't wait for the kernel's count, which arrives when it has freed the session's domains.
func TestFinishDoesNotWaitWithoutLoss(t *testing.T) {
	r := reader(t)
	least := patience
	for range 5 { // one of them isn't delayed by other processes
		w, err := r.Watch(Session{Audit: NoSession}, func(Denial) {})
		must(t, err)
		w.domains[1] = &domainCount{own: true, delivered: 1} // with a denial, and not freed yet
		began := time.Now()
		got, err := w.Finish(t.Context())
		if err != nil || !got.Exact || got.Why != "" {
			t.Fatalf("%+v, %v", got, err)
		}
		least = min(least, time.Since(began))
	}
	if least >= 200*time.Millisecond {
		t.Errorf("it took %v at least", least)
	}
	w := &Watch{r: r, domains: map[uint64]*domainCount{1: {own: true, delivered: 3}}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := w.waitForCount(ended, countTimeout, "the kernel dropped records"); got.Exact || got.Why == "" {
		t.Errorf("after a loss: %+v", got)
	}
}
