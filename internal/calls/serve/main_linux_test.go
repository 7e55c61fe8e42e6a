package serve

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/calls/client"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/seccomp"
)

func TestMain(m *testing.M) { childtest.Main(m, runOrder) }

// order is a child's order: to become what Become lists, one after the other, and then to ask at an address.
type order struct {
	Address string
	Become  []string
}

// seen is what a child was answered.
type seen struct {
	Peer       Peer
	PID        int    // the child's
	Error      string // why there is no answer
	UnixDenied bool   // it can create no unix socket
}

func runOrder(o order) (s seen, err error) {
	if len(o.Become) > 0 {
		return s, become(o)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if s.UnixDenied = errors.Is(err, unix.EACCES); err == nil {
		_ = unix.Close(fd)
	}
	s.PID = os.Getpid()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, o.Address)
	if err == nil {
		err = c.Do(ctx, "GET", "/peer", nil, &s.Peer)
	}
	if err != nil {
		s.Error = err.Error()
	}
	return s, nil
}

// become does the first of what an order lists, and executes this program again for the rest: all of its threads have it then.
func become(o order) error {
	what := o.Become[0]
	o.Become = o.Become[1:]
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	env := []string{"TOOLGUARD_TEST_ORDER=" + string(text), childtest.NoExitDelay}
	runtime.LockOSThread()
	switch what {
	case "no_new_privs":
		err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	case "filtered":
		err = denyUnixSockets()
	case "detached":
		cmd := exec.Command("/proc/self/exe")
		cmd.Env, cmd.Stderr, cmd.Stdout = env, os.Stderr, os.Stdout
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return err
		}
		os.Exit(0) // the child has lost its parent then
	}
	if err != nil {
		return err
	}
	return syscall.Exec("/proc/self/exe", []string{"test"}, env)
}

// denyUnixSockets loads the filters of a session with restricted files on a kernel that can't decide on the paths of unix sockets.
func denyUnixSockets() error {
	l := policy.SourceLayer{Authority: policy.Session}
	l.Defaults[policy.FS], l.Defaults[policy.Net] = policy.Deny, policy.Deny
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/usr", Home: "/usr", Layers: []policy.SourceLayer{l}}, hostfs.Machine{})
	if err != nil {
		return err
	}
	filters, err := seccomp.Filters(c, seccomp.Backend{ABI: 7})
	if err != nil {
		return err
	}
	for _, f := range filters {
		operation, flags, program := f.Args()
		if _, _, e := unix.Syscall(unix.SYS_SECCOMP, operation, flags, uintptr(unsafe.Pointer(program))); e != 0 {
			return e
		}
	}
	return nil
}

// fake is a handler. It answers /peer with the peer and /echo with the body, waits on /wait, and panics on /panic.
type fake struct {
	waiting, canceled chan Peer
}

func newFake() *fake { return &fake{make(chan Peer, 1000), make(chan Peer, 1000)} }

func (f *fake) Serve(ctx context.Context, r *Request) (int, any) {
	switch r.Path {
	case "/peer":
		return 200, r.Peer
	case "/echo":
		return 200, map[string]any{"method": r.Method, "query": r.Query, "body": string(r.Body)}
	case "/size":
		return 200, len(r.Body)
	case "/large":
		n, _ := strconv.Atoi(r.Query["n"])
		return 200, slices.Repeat([]string{"0123456"}, n/10)
	case "/wait":
		f.waiting <- r.Peer
		<-ctx.Done()
		f.canceled <- r.Peer
		return 499, nil
	case "/panic":
		panic("at the disco")
	case "/strange":
		return 200, func() {}
	}
	return 404, map[string]string{"error": "there is nothing at " + r.Path}
}

// outside returns a server of the session "one" and the path of its socket.
func outside(t *testing.T, h Handler) (*Server, string) {
	t.Helper()
	s := New("one", h, func(text string) { t.Log(text) })
	path, err := s.Outside([]string{filepath.Join(t.TempDir(), "toolguard")})
	childtest.Must(t, err)
	t.Cleanup(func() { childtest.Must(t, s.Close()) })
	return s, path
}

func dial(t *testing.T, address string) *client.Client {
	t.Helper()
	c, err := client.Dial(t.Context(), address)
	childtest.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
