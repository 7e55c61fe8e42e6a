//go:build linux

package siem

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
)

var must = childtest.Must

// timeout is how long a test waits.
const timeout = 5 * time.Minute

// shipper is the program, built once.
var shipper = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "siem")
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "toolguard-ship")
	build := exec.Command("go", "build", "-o", name, "./cmd/toolguard-ship")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return name, nil
})

func TestMain(m *testing.M) {
	if config := os.Getenv(natsConfig); config != "" {
		os.Exit(serveNATS(config))
	}
	code := m.Run()
	if name, err := shipper(); err == nil {
		_ = os.RemoveAll(filepath.Dir(name))
	}
	os.Exit(code)
}

// scene is an audit, and a shipper with its sinks.
type scene struct {
	t      *testing.T
	dir    string
	spool  *audit.Spool
	config string
	log    childtest.Output
	env    []string
	n      int // events so far
}

// newScene creates an audit. In the sinks' settings, DIR is the scene's folder.
func newScene(t *testing.T, sinks string) *scene {
	t.Helper()
	s := &scene{t: t, dir: t.TempDir()}
	for _, name := range []string{"audit", "state"} {
		must(t, os.Mkdir(filepath.Join(s.dir, name), 0o700))
	}
	s.config = filepath.Join(s.dir, "ship.toml")
	text := strings.ReplaceAll("spool = 'DIR/audit'\nstate = 'DIR/state'\n"+sinks, "DIR", s.dir)
	must(t, os.WriteFile(s.config, []byte(text), 0o600))
	spool, err := audit.Open(audit.Config{Folder: filepath.Join(s.dir, "audit"), Version: "test"})
	must(t, err)
	s.spool = spool
	t.Cleanup(func() { _ = spool.Close() })
	return s
}

// record records denials, each of another file.
func (s *scene) record(n int, change ...func(*event.Event)) {
	s.t.Helper()
	list := make([]event.Event, n)
	for i := range list {
		s.n++
		list[i] = event.Event{
			Kind: event.Denial, Session: "s1", Resource: "fs", Capability: "read", Target: "/x/ä/" + strconv.Itoa(s.n), Reason: "no_rule",
			Process: []event.Process{{PID: 7, UID: 1000, Exe: "/usr/bin/cat", Comm: "cat"}},
		}
		for _, c := range change {
			c(&list[i])
		}
	}
	if n, err := s.spool.Append(list); err != nil || n != len(list) {
		s.t.Fatal(n, err)
	}
}

// start runs the shipper until the returned function is called, or the test ends.
func (s *scene) start() (cmd *exec.Cmd, end func(os.Signal)) {
	s.t.Helper()
	bin, err := shipper()
	must(s.t, err)
	cmd = exec.Command(bin, "--config", s.config)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	end = launch(s.t, cmd)
	return cmd, end
}

// launch starts a process that ends with the test at the latest.
func launch(t *testing.T, cmd *exec.Cmd) (end func(os.Signal)) {
	t.Helper()
	must(t, cmd.Start())
	var once sync.Once
	end = func(sig os.Signal) {
		once.Do(func() {
			_ = cmd.Process.Signal(sig)
			hangs := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			hangs.Stop()
		})
	}
	t.Cleanup(func() { end(os.Kill) })
	return end
}

// lines are the audit's.
func (s *scene) lines() (all []string) {
	s.t.Helper()
	r := audit.NewReader(filepath.Join(s.dir, "audit"), audit.Cursor{})
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(s.t, err)
		all = append(all, strings.TrimSuffix(string(line), "\n"))
	}
}

// wait waits for a condition.
func (s *scene) wait(what string, so func() bool) {
	s.t.Helper()
	for end := time.Now().Add(timeout); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%s: not after %s\n%s", what, timeout, s.log.String())
		}
	}
}

// delivered waits until each sink has acknowledged everything.
func (s *scene) delivered() {
	s.t.Helper()
	end, err := audit.End(filepath.Join(s.dir, "audit"))
	must(s.t, err)
	s.wait("all is delivered", func() bool {
		all, _ := audit.ReadCursors(filepath.Join(s.dir, "state", "state.json"))
		for _, c := range all {
			if c.Sequence < end.Sequence {
				return false
			}
		}
		return len(all) > 0
	})
}

// arrived waits until a receiver has everything, and checks the order without duplicates, which must be identical.
// An incomplete line comes from a receiver that was killed.
func (s *scene) arrived(got func() []string) {
	s.t.Helper()
	want := s.lines()
	var in []string
	var wrong error
	s.wait("all has arrived", func() bool {
		in, wrong = once(got())
		return wrong != nil || len(in) >= len(want)
	})
	if wrong != nil {
		s.t.Fatal(wrong)
	}
	for i, line := range in {
		if i >= len(want) || line != want[i] {
			s.t.Fatalf("record %d of %d isn't as it was: %s", i+1, len(want), line)
		}
	}
}

// once removes duplicates.
func once(lines []string) (in []string, wrong error) {
	first := map[string]string{}
	for _, line := range lines {
		var e struct{ Metadata struct{ UID string } }
		if json.Unmarshal([]byte(line), &e) != nil {
			continue
		}
		before, again := first[e.Metadata.UID]
		if again && before != line {
			return nil, fmt.Errorf("%s came as two different records", e.Metadata.UID)
		}
		if !again {
			in = append(in, line)
		}
		first[e.Metadata.UID] = line
	}
	return in, nil
}

// fileLines returns the lines of a file that may not exist yet.
func fileLines(name string) func() []string {
	return func() []string {
		text, _ := os.ReadFile(name)
		return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	}
}

// usedPorts are the ports of the tests.
var usedPorts sync.Map

// freePort returns a TCP port without listener, outside the range of ephemeral ports, so that nothing else gets it while a receiver
// is away.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(20_000) // beneath ip_local_port_range, which begins at 32768
		if _, taken := usedPorts.LoadOrStore(port, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(name, []byte(text), 0o600))
}
