package terminal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/toolguard/toolguard/internal/calls/ask"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// addressVar is where the fake server of approvals listens; the inner process announces it.
const addressVar = "TOOLGUARD_TEST_ADDRESS"

// TestMain is also each of the three processes: "BINARY outer COMMAND..." runs a command under the relay.
func TestMain(m *testing.M) {
	if code, ok := RunMonitor(); ok {
		os.Exit(code)
	}
	if a := Inner(); a != nil {
		if address := os.Getenv(addressVar); address != "" {
			if err := a.Serves(address); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
		path, err := exec.LookPath(os.Args[2])
		if err == nil {
			err = syscall.Exec(path, os.Args[2:], os.Environ())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(127)
	}
	if len(os.Args) > 2 && os.Args[1] == "outer" {
		code, err := Run(Config{Args: os.Args[1:], Source: func(address string) (ask.Source, error) { return remote(address), nil }})
		if err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(125)
		}
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// remote is a source at a fake server: lines of JSON over a unix socket.
type remote string

func (r remote) List(context.Context) ([]message.Approval, error) { return nil, errors.ErrUnsupported }

func (r remote) Watch(ctx context.Context, changed func([]message.Approval)) error {
	c, err := net.Dial("unix", string(r))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { c.Close() })
	fmt.Fprintln(c, `{}`)
	for d := json.NewDecoder(c); ; {
		var l message.List
		if err := d.Decode(&l); err != nil {
			return err
		}
		changed(l.Approvals)
	}
}

func (r remote) Decide(_ context.Context, id string, d message.Decided) (answer message.Decided, err error) {
	c, err := net.Dial("unix", string(r))
	if err != nil {
		return answer, err
	}
	defer c.Close()
	if err := json.NewEncoder(c).Encode(order{id, d}); err != nil {
		return answer, err
	}
	text, err := io.ReadAll(c)
	if err == nil && len(text) > 0 {
		err = ask.ErrGone
	}
	return answer, err
}

type order struct {
	ID      string
	Decided message.Decided
}

// server is the fake server.
type server struct {
	address string
	mu      sync.Mutex
	list    []message.Approval
	changed chan struct{}
	orders  []order
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{address: filepath.Join(t.TempDir(), "s"), changed: make(chan struct{})}
	l, err := net.Listen("unix", s.address)
	childtest.Must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.answer(c)
		}
	}()
	return s
}

func (s *server) answer(c net.Conn) {
	defer c.Close()
	line, err := bufio.NewReader(c).ReadBytes('\n')
	var o order
	if err != nil || json.Unmarshal(line, &o) != nil {
		return
	}
	if o.ID == "" {
		for {
			s.mu.Lock()
			list, changed := slices.Clone(s.list), s.changed
			s.mu.Unlock()
			if json.NewEncoder(c).Encode(message.List{Approvals: list}) != nil {
				return
			}
			<-changed
		}
	}
	found := false
	s.change(func() {
		s.orders = append(s.orders, o)
		for i := range s.list {
			if a := &s.list[i]; a.ID == o.ID && a.Decision == nil {
				a.Decision, found = o.Decided.Decision, true
			}
		}
	})
	if !found {
		fmt.Fprint(c, "gone")
	}
}

func (s *server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// asks adds an approval that is open for ten minutes.
func (s *server) asks(id string, change func(a *message.Approval)) {
	now := time.Now()
	a := message.Approval{
		ID: id, Tool: "Bash", Agent: "coder", Argv: []string{"git", "push", id}, Cwd: "/src", Risk: "high", Reason: "not listed",
		Created: now.UnixMilli(), Expires: now.Add(10 * time.Minute).UnixMilli(), Exe: &message.File{Path: "/usr/bin/git", SHA256: "0123456789abcdef"},
		Offers: []string{message.AllowOnce, message.AllowAlways, message.Deny}, Rule: "[[approved]]\ntool = \"Bash\"\n",
	}
	if change != nil {
		change(&a)
	}
	s.change(func() { s.list = append(s.list, a) })
}

// decided waits for a number of decisions and returns them.
func (s *server) decided(t *testing.T, n int) []string {
	t.Helper()
	var got []string
	eventually(t, fmt.Sprintf("%d decisions", n), func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		got = nil
		for _, o := range s.orders {
			got = append(got, o.ID+" "+*o.Decided.Decision+" "+o.Decided.Via)
		}
		return len(got) >= n
	})
	return got
}

func (s *server) decisions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.orders)
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	if !childtest.Within(30*time.Second, done) {
		t.Fatal("waited in vain for ", what)
	}
}

// window is a terminal with a program in it.
type window struct {
	*os.File
	cmd   *exec.Cmd
	mu    sync.Mutex
	shown strings.Builder
	over  chan struct{} // the output has ended
}

// open runs a command in a terminal of its own. s may be nil.
func open(t *testing.T, s *server, command ...string) *window {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PS1=prompt> ", "TERM=xterm", "HISTFILE=", "BINARY="+binary(t), childtest.NoExitDelay)
	if s != nil {
		cmd.Env = append(cmd.Env, addressVar+"="+s.address)
	}
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	childtest.Must(t, err)
	w := &window{File: master, cmd: cmd, over: make(chan struct{})}
	go w.read()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = cmd.Process.Wait()
		master.Close()
	})
	return w
}

func binary(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	childtest.Must(t, err)
	return path
}

// relayed runs a command under the relay.
func relayed(t *testing.T, s *server, command ...string) *window {
	t.Helper()
	return open(t, s, append([]string{binary(t), "outer"}, command...)...)
}

func (w *window) read() {
	defer close(w.over)
	buf := make([]byte, 64<<10)
	for {
		n, err := w.File.Read(buf)
		w.mu.Lock()
		w.shown.Write(buf[:n])
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (w *window) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shown.String()
}

// shows waits until the terminal has shown something that matches after a position, and returns the position after it.
func (w *window) shows(t *testing.T, after int, want string) int {
	t.Helper()
	re, at := regexp.MustCompile(want), 0
	defer func() {
		if t.Failed() {
			t.Logf("waited for %q, saw %q", want, w.text()[after:])
		}
	}()
	eventually(t, want, func() bool {
		found := re.FindStringIndex(w.text()[after:])
		if found != nil {
			at = after + found[1]
		}
		return found != nil
	})
	return at
}

// types types text, and waits for something that the terminal shows afterwards.
func (w *window) types(t *testing.T, text, want string) int {
	t.Helper()
	before := len(w.text())
	_, err := w.WriteString(text)
	childtest.Must(t, err)
	return w.shows(t, before, want)
}

// deliberate types one key as a person does, who reads first.
func (w *window) deliberate(t *testing.T, key string) {
	t.Helper()
	time.Sleep(quiet + 100*time.Millisecond)
	_, err := w.WriteString(key)
	childtest.Must(t, err)
}

// ends waits for the end and returns the exit status.
func (w *window) ends(t *testing.T) int {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- w.cmd.Wait() }()
	select {
	case err := <-done:
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("it doesn't end; the terminal shows %q", w.text())
	}
	<-w.over
	if ws := w.cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		t.Fatalf("ended by %v", ws.Signal())
	}
	return w.cmd.ProcessState.ExitCode()
}

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("needs ", p)
		}
	}
}
