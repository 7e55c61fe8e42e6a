package kernelaudit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/nettest"
)

func TestShortLivedProcess(t *testing.T) {
	r := reader(t)
	secret := touchFile(t, deniedDir(t)+"/secret")
	var s session
	must(t, s.run(r, self(t), "read-denied", secret))
	d := only(t, s, secret)
	exe := self(t)
	comm := filepath.Base(exe)
	comm = comm[:min(len(comm), 15)]
	if d.PID != s.pid || d.PPID != os.Getpid() || d.UID != os.Getuid() || d.Exe != exe || d.Comm != comm || d.Session != s.id {
		t.Errorf("who: %+v\nwant pid %d of %d, %s", d, s.pid, os.Getpid(), exe)
	}
	if d.Errno != syscall.EACCES || !d.Call.Known || d.Call.Number != unix.SYS_OPENAT || d.Nested {
		t.Errorf("what: %+v", d)
	}
	var st unix.Stat_t
	if err := unix.Stat(secret, &st); err != nil || d.Inode != st.Ino {
		t.Errorf("inode %d, want %d (%v)", d.Inode, st.Ino, err)
	}
}

// only returns the one refusal that concerns a path.
func only(t *testing.T, s session, path string) Denial {
	t.Helper()
	var found []Denial
	for _, d := range s.denials {
		if d.Path == path {
			found = append(found, d)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d refusals of %q, want one; in all: %+v", len(found), path, s.denials)
	}
	if !s.totals.Exact || s.totals.Missing != 0 {
		t.Errorf("totals %+v", s.totals)
	}
	return found[0]
}

// TestNothingRefused is the control of every other test: what is allowed leaves no trace.
func TestNothingRefused(t *testing.T) {
	r := reader(t)
	allowed := touchFile(t, t.TempDir()+"/open")
	var s session
	must(t, s.run(r, self(t), "read-ok", allowed))
	for _, d := range s.denials {
		if d.Path == allowed {
			t.Errorf("refused: %+v", d)
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
			d := only(t, s, secret)
			if d.PID != s.pid || d.Session != s.id || d.Exe != exe || d.Comm != name[:min(len(name), 15)] {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestNamesAreDirectories pins down what the kernel tells of operations on names.
func TestNamesAreDirectories(t *testing.T) {
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
	said, err := other.StdoutPipe()
	must(t, err)
	in, err := other.StdinPipe()
	must(t, err)
	must(t, other.Start())
	defer other.Wait()
	defer other.Process.Kill()
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := said.Read(make([]byte, 1)); err != nil { // Start returns before it has its name: it does once it answers
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

// TestNested tells the policy's refusals, by whatever process, from those that a program asked for itself.
func TestNested(t *testing.T) {
	r := reader(t)
	file := touchFile(t, t.TempDir()+"/file")
	comm, err := os.ReadFile("/proc/self/comm") // the program's too
	must(t, err)
	for name, nested := range map[string]bool{"": true, "another": true, strings.TrimSpace(string(comm)): false} {
		s := session{name: name}
		must(t, s.run(r, self(t), "nested", file))
		if d := only(t, s, file); d.Nested != nested {
			t.Errorf("%q: %+v", name, d)
		}
	}
}

// Without an audit session, the domains that count are those of the process that starts the session, and of whoever is called
// as it says.
func TestDomainsWithoutSession(t *testing.T) {
	w := Watch{r: &Reader{}, session: Session{Audit: NoSession, PID: 10, Name: "secret"}, domains: map[uint64]*tally{}}
	for i, made := range []domain{{pid: 10, comm: "toolguard"}, {pid: 11, comm: "secret"}, {pid: 11, comm: "other"}, {pid: 11}} {
		made.id = uint64(i)
		w.takeDomain(made)
		if got, want := w.concerns(&Denial{Source: Landlock, Domain: made.id}), i < 2; got != want {
			t.Errorf("%+v counts: %v", made, got)
		}
	}
	w.session.Name = ""
	if w.takeDomain(domain{id: 9, pid: 11}); w.concerns(&Denial{Source: Landlock, Domain: 9}) {
		t.Error("a domain of nobody counts where nobody has a name")
	}
}

// TestTwoSessions runs two at the same time: each gets its own, all of it, and nothing else.
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
					t.Errorf("%d is told the other session's: %+v", s.id, d)
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

// TestFlood: everything is delivered when nobody stands in the way.
func TestFlood(t *testing.T) {
	const n = 3000 // three records each: the kernel has room for all, and for those of other tests
	r := reader(t)
	secret := touchFile(t, deniedDir(t)+"/secret")
	var s session
	must(t, s.run(r, self(t), "flood", secret, fmt.Sprint(n)))
	if !s.totals.Exact || counted(s, secret)+s.totals.Missing != n {
		t.Errorf("%d came of %d: %+v", counted(s, secret), n, s.totals)
	}
}

// counted is how many refusals of a path came.
func counted(s session, path string) (n uint64) {
	for _, d := range s.denials {
		if d.Path == path {
			n++
		}
	}
	return n
}

// TestOverflowIsCounted stops reading until the flood is over, with a socket that holds next to nothing.
func TestOverflowIsCounted(t *testing.T) {
	const n = 3000 // three records each: the kernel has room for all, and for those of other tests
	r := reader(t)
	must(t, unix.SetsockoptInt(r.socket, unix.SOL_SOCKET, unix.SO_RCVBUF, 16<<10))
	secret := touchFile(t, deniedDir(t)+"/secret")
	over := make(chan struct{})
	s := session{first: func() { <-over }, ended: func() {
		if err := sent(n / 10); err != nil {
			t.Error(err)
		}
		if err := unix.SetsockoptInt(r.socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer); err != nil {
			t.Error(err)
		}
		close(over)
		for end := time.Now().Add(patience); waits(r.socket); time.Sleep(time.Millisecond) { // or the end of the domain would be lost too
			if time.Now().After(end) {
				t.Error("there's no room again")
				return
			}
		}
	}}
	must(t, s.run(r, self(t), "flood", secret, fmt.Sprint(n)))
	if s.totals.Missing == 0 || s.totals.Why == "" || !s.totals.Exact || s.totals.Delivered+s.totals.Missing != n {
		t.Errorf("%+v of %d", s.totals, n)
	}
}

// waits tells whether something waits in a socket: the kernel puts nothing more into one that was full until it's empty.
func waits(socket int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(socket), Events: unix.POLLIN}}, 0)
	return n > 0 || err != nil
}

// TestFinishWaitsForWhatComes takes longer over the refusals than the kernel may be silent.
func TestFinishWaitsForWhatComes(t *testing.T) {
	const n, each = 400, 2 * quietTime / 400
	r := reader(t)
	secret := touchFile(t, deniedDir(t)+"/secret")
	over := make(chan struct{})
	s := session{ended: func() { close(over) }, took: func() { <-over; time.Sleep(each) }}
	began := time.Now()
	must(t, s.run(r, self(t), "flood", secret, fmt.Sprint(n)))
	if took := time.Since(began); took < quietTime || counted(s, secret) != n || !s.totals.Exact {
		t.Errorf("%d of %d came in %v: %+v", counted(s, secret), n, took, s.totals)
	}
}

// TestFinishEndsWhenNothingComes: a reader that hears nothing any more isn't waited for as long as the context lasts.
func TestFinishEndsWhenNothingComes(t *testing.T) {
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
	if took := time.Since(began); took < quietTime || took > patience/2 {
		t.Errorf("it took %v", took)
	}
	if totals.Exact || !strings.Contains(totals.Why, errQuiet.Error()) {
		t.Errorf("%+v", totals)
	}
}

// Whom Permitted refuses, Open refuses too.
func TestPermitted(t *testing.T) {
	reader(t) // or there's nothing to be permitted
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var all [2]unix.CapUserData
	must(t, unix.Capget(&header, &all[0]))
	if err := Permitted(); err != nil {
		t.Errorf("with all capabilities: %v", err)
	}
	less := all
	less[unix.CAP_AUDIT_READ/32].Effective &^= 1 << (unix.CAP_AUDIT_READ % 32)
	must(t, unix.Capset(&header, &less[0]))
	before := Permitted()
	r, err := Open()
	must(t, unix.Capset(&header, &all[0]))
	if err == nil {
		r.Close()
	}
	for _, err := range []error{before, err} {
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "CAP_AUDIT_READ is missing") {
			t.Errorf("without CAP_AUDIT_READ: %v", err)
		}
	}
}

// TestElsewhere: in another network namespace than the first nothing is heard, which is told, and soon.
func TestElsewhere(t *testing.T) {
	reader(t) // or there's nothing to be heard anywhere
	var r *Reader
	must(t, Permitted())
	if err := nettest.InNamespace(func() (err error) {
		if beforehand := Permitted(); !errors.Is(beforehand, ErrUnavailable) || !strings.Contains(beforehand.Error(), "network namespace") {
			t.Errorf("beforehand: %v", beforehand)
		}
		r, err = Open()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	w, err := r.Watch(Session{Audit: 1}, func(Denial) {})
	must(t, err)
	r.Listen()
	began := time.Now()
	_, atEnd := w.Finish(context.Background())
	for _, err := range []error{atEnd, r.Prove()} {
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "network namespace") {
			t.Error(err)
		}
	}
	if took := time.Since(began); r.Proven() || took > 20*quietTime {
		t.Errorf("proven: %v, after %v", r.Proven(), took)
	}
}

// What came before it was listened to is delivered.
func TestListenLate(t *testing.T) {
	reader(t)
	r, err := Open()
	must(t, err)
	defer r.Close()
	secret := touchFile(t, deniedDir(t)+"/secret")
	s := session{ended: r.Listen}
	must(t, s.run(r, self(t), "read-denied", secret))
	only(t, s, secret)
	if !s.totals.Exact || !r.Proven() {
		t.Errorf("%+v", s.totals)
	}
}

// Where nothing is known to be lost nobody waits for the kernel's count, which comes when it has freed the session's domains.
func TestNothingLostIsNotWaitedFor(t *testing.T) {
	r := reader(t)
	least := patience
	for range 5 { // of which one isn't held up by whatever else the machine does
		w, err := r.Watch(Session{Audit: NoSession}, func(Denial) {})
		must(t, err)
		w.domains[1] = &tally{own: true, came: 1} // that was refused something, and is there still
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
	w := &Watch{r: r, domains: map[uint64]*tally{1: {own: true, came: 3}}}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := w.counted(ended, countTime, "the kernel dropped records"); got.Exact || got.Why == "" {
		t.Errorf("of what was lost it's said: %+v", got)
	}
}
