package kernelaudit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
	"unsafe"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// The test binary is its own confined command: with actionVar set it performs one action and exits.
const actionVar = "TOOLGUARD_TEST_ACTION"

func TestMain(m *testing.M) {
	if a := os.Getenv(actionVar); a != "" {
		if err := act(a, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	runtime.LockOSThread() // no session gets the first thread: that one never ends, nor would the session's domain
	os.Exit(m.Run())
}

// act performs an action, and succeeds if the outcome is the one in the action's name.
func act(action string, args []string) error {
	switch action {
	case "read-ok":
		_, err := os.ReadFile(args[0])
		return err
	case "read-denied":
		for _, name := range args {
			if _, err := os.ReadFile(name); !errors.Is(err, unix.EACCES) {
				return want(err, unix.EACCES)
			}
		}
		return nil
	case "flood":
		return flood(args)
	case "names":
		return changeNames(args[0])
	case "signal-denied":
		pid, _ := strconv.Atoi(args[0])
		return want(unix.Kill(pid, unix.SIGCONT), unix.EPERM)
	case "abstract-denied":
		_, err := net.Dial("unix", args[0])
		return want(err, unix.EPERM)
	case "tcp-denied":
		return tcp()
	case "seccomp":
		return useSeccomp()
	case "nested":
		if err := restrict(nil, unix.LANDLOCK_ACCESS_FS_READ_FILE, 0, 0); err != nil {
			return err
		}
		// The restriction holds for one thread, and needs logging for the program that made it: the default.
		_, err := os.ReadFile(args[0])
		return want(err, unix.EACCES)
	case "hold":
		return readUntilKilled()
	}
	return fmt.Errorf("unknown action %q", action)
}

func want(got, errno error) error {
	if !errors.Is(got, errno) {
		return fmt.Errorf("got %v, want %v", got, errno)
	}
	return nil
}

// flood opens a denied path a given number of times, from several threads.
func flood(args []string) error {
	n, _ := strconv.Atoi(args[1])
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for range 4 {
		wg.Go(func() {
			for range n / 4 {
				if _, err := unix.Open(args[0], unix.O_RDONLY, 0); err != unix.EACCES {
					errs <- fmt.Errorf("open: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// changeNames tries everything that changes a directory entry.
func changeNames(dir string) error {
	file, sub := dir+"/file", dir+"/sub"
	for _, try := range []struct {
		name string
		err  error
	}{
		{"create", touch(dir + "/new")},
		{"mkdir", unix.Mkdir(dir+"/newdir", 0o755)},
		{"symlink", unix.Symlink("x", dir+"/link")},
		{"fifo", unix.Mkfifo(dir+"/fifo", 0o600)},
		{"unlink", unix.Unlink(file)},
		{"rmdir", unix.Rmdir(sub)},
		{"rename", unix.Rename(file, dir+"/other")},
		{"rename away", unix.Rename(file, sub+"/other")},
		{"link", unix.Link(file, sub+"/other")},
		{"truncate", unix.Truncate(file, 0)},
		{"write", writeTo(file)},
	} {
		if try.err != unix.EACCES {
			return fmt.Errorf("%s: %v", try.name, try.err)
		}
	}
	return nil
}

func touch(path string) error {
	_, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY, 0o600)
	return err
}

func writeTo(path string) error {
	_, err := unix.Open(path, unix.O_WRONLY, 0)
	return err
}

func tcp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := want(unix.Connect(fd, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}), unix.EACCES); err != nil {
		return err
	}
	fd6, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return want(unix.Bind(fd6, &unix.SockaddrInet6{Port: 9999}), unix.EACCES)
}

// retErrno is SECCOMP_RET_ERRNO.
const retErrno = 0x00050000

// useSeccomp installs a filter that denies and logs getpriority with ENOSYS, and calls it.
func useSeccomp() error {
	runtime.LockOSThread()
	nr := uint32(unix.SYS_GETPRIORITY)
	filter := []unix.SockFilter{
		{Code: 0x20, K: 0},             // load the number
		{Code: 0x15, Jf: 1, K: nr},     // not this one: skip
		{Code: 0x06, K: retErrno | 38}, // ENOSYS
		{Code: 0x06, K: 0x7fff0000},    // allow
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const setModeFilter, flagLog = 1, 2
	if _, _, e := unix.RawSyscall(unix.SYS_SECCOMP, setModeFilter, flagLog, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return e
	}
	_, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	return want(err, unix.ENOSYS)
}

// restrict restricts the calling thread, which the caller has locked or never leaves, with a new Landlock domain.
func restrict(granted []string, fsRights, netRights, scopes uint64) error {
	ruleset, err := landlock.LandlockCreateRuleset(&landlock.RulesetAttr{HandledAccessFS: fsRights, HandledAccessNet: netRights, Scoped: scopes}, 0)
	if err != nil {
		return fmt.Errorf("create ruleset: %w", err)
	}
	defer unix.Close(ruleset)
	for _, p := range granted {
		if err := grant(ruleset, p, fsRights); err != nil {
			return fmt.Errorf("grant %s: %w", p, err)
		}
	}
	runtime.LockOSThread()
	const logNewExec = 1 << 1 // LANDLOCK_RESTRICT_SELF_LOG_NEW_EXEC_ON
	return errors.Join(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), landlock.LandlockRestrictSelf(ruleset, logNewExec))
}

func grant(ruleset int, path string, rights uint64) error {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
			unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return landlock.LandlockAddPathBeneathRule(ruleset, &landlock.PathBeneathAttr{AllowedAccess: rights, ParentFd: at}, 0)
}

const (
	allFS     = 1<<16 - 1 // ABI 5
	allNet    = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	allScopes = 1<<2 - 1
)

// deniedDir creates a folder that sessions may not access.
func deniedDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "toolguard-denied-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// session is one confined run, started as package launch does: a locked thread begins an audit session, restricts itself, and forks.
type session struct {
	id      uint32
	pid     int
	denials []Denial
	totals  Totals
	comm    string // Session.Name

	onFirst func() // called for the first denial, if set
	onEach  func() // called for each denial, if set
	onEnd   func() // called when the command has ended, if set
}

// run starts the test binary with an action, in a session of its own, and collects its denials. All but /var and /run is granted.
func (s *session) run(r *Reader, exe, action string, args ...string) error {
	var w *Watch
	done := make(chan error)
	go func() { // the thread is never unlocked, so it ends with the goroutine and releases the domain
		runtime.LockOSThread()
		var err error
		w, err = s.start(r, exe, action, args)
		done <- err
	}()
	err := <-done
	if w != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		totals, lost := w.Finish(ctx)
		s.totals, err = totals, errors.Join(err, lost)
	}
	return err
}

// start runs the command to its end on the calling thread, which stays restricted.
func (s *session) start(r *Reader, exe, action string, args []string) (w *Watch, err error) {
	if s.id, err = FreshSession(); err != nil {
		return nil, err
	}
	w, err = r.Watch(Session{Audit: s.id, Name: s.comm}, s.append)
	if err != nil {
		return nil, err
	}
	granted, err := grants()
	if err != nil {
		return w, err
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), actionVar+"="+action, childtest.NoExitDelay)
	cmd.Stderr = os.Stderr
	if err := restrict(granted, allFS, allNet, allScopes); err != nil {
		return w, err
	}
	if err := cmd.Start(); err != nil {
		return w, err
	}
	s.pid = cmd.Process.Pid
	err = cmd.Wait()
	if s.onEnd != nil {
		s.onEnd()
	}
	return w, errors.Join(err, waitSent(wantBacklog/2)) // or the kernel may drop the domain's last record, which has the number of denials
}

// waitSent waits until the kernel has sent all queued records but so many.
func waitSent(but uint32) error {
	fd, err := openControl()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s, err := getStatus(fd)
		if err != nil || s.Backlog <= but {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("the kernel doesn't send its queue: %+v", s)
		}
	}
}

func (s *session) append(d Denial) {
	if s.denials = append(s.denials, d); len(s.denials) == 1 && s.onFirst != nil {
		s.onFirst()
	}
	if s.onEach != nil {
		s.onEach()
	}
}

// grants is everything but /var and /run.
func grants() (granted []string, err error) {
	roots, err := filepath.Glob("/*")
	for _, p := range roots {
		if _, err := os.Stat(p); err == nil && p != "/var" && p != "/run" {
			granted = append(granted, p)
		}
	}
	return granted, err
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	return exe
}

// isUnavailable reports whether this process can't expect records.
func isUnavailable(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.ECONNREFUSED)
}

// reader opens a reader, or skips the test. As root on a kernel that has Landlock's records it fails instead.
func reader(t *testing.T) *Reader {
	t.Helper()
	if abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); int(abi) < 7 {
		t.Skipf("needs Landlock's audit records (ABI 7), and this kernel has ABI %d", int(abi))
	}
	r, err := Open()
	if err == nil {
		r.Listen()
		err = r.Prove()
		for end := time.Now().Add(patience / 4); err != nil && !isUnavailable(err) && time.Now().Before(end); { // the machine may be busy
			err = r.Prove()
		}
	}
	if err != nil {
		if os.Geteuid() == 0 && !isUnavailable(err) {
			t.Fatal(err)
		}
		t.Skipf("needs the kernel's audit records: %v", err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil && err != os.ErrClosed {
			t.Error(err)
		}
	})
	return r
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	program := childtest.ReadFile(t, from)
	must(t, os.WriteFile(to, program, 0o755))
}

func touchFile(t *testing.T, path string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte("secret"), 0o644); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	return path
}

// patience bounds waits that are short on an idle machine.
const patience = 2 * time.Minute
