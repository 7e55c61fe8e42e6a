package loader

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/loader/loadertest"
	"github.com/toolguard/toolguard/internal/policy"
)

var must = childtest.Must

// Policies, and the files that they are about.
var (
	compile      = loadertest.Compile
	tryCompile   = loadertest.TryCompile
	tryCompileOn = loadertest.TryCompileOn
	scene        = loadertest.Scene
)

type tree = loadertest.Tree

// A thread that is added to a session must end, but the process's first thread ends with the process: it's reserved for the main goroutine.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	childtest.Main(m, func(order []string) (any, error) {
		return childCommands[order[0]](order[1:])
	})
}

// childCommands are the actions of child processes.
var childCommands = map[string]func(args []string) (any, error){
	"own a session":  ownSession,
	"start sessions": startSessions,
}

// kernel opens this machine's programs, or skips the test.
func kernel(t testing.TB) *Kernel {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if lsms, err := os.ReadFile("/sys/kernel/security/lsm"); err != nil || !strings.Contains(","+string(lsms)+",", ",bpf,") {
		t.Skip("needs bpf among the LSMs")
	}
	k, err := Open(func(note string) { t.Log(note) })
	if err != nil {
		if os.Getenv("TOOLGUARD_VM") != "" {
			t.Fatalf("%+v", err)
		}
		t.Skipf("needs a kernel that loads LSM programs: %v", err)
	}
	t.Cleanup(k.Close)
	return k
}

// begin begins a session with the given fs rules, "PATH CAPS" or "**/LAST CAPS" each, that denies all else.
func begin(t testing.TB, k *Kernel, rules ...string) (*Session, *policy.Compiled) {
	t.Helper()
	return beginWith(t, k, 0, rules...)
}

// beginWith is begin with flags.
func beginWith(t testing.TB, k *Kernel, flags Flags, rules ...string) (*Session, *policy.Compiled) {
	t.Helper()
	c := compile(t, rules...)
	img, err := image.New(c, 1)
	must(t, err)
	s, err := k.Begin(newID(), img, FlagsOf(c)|flags)
	must(t, err)
	return s, c
}

func newID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return binary.NativeEndian.Uint64(b[:]) | 1
}

// confined runs f on a thread in the session.
func confined(t testing.TB, s *Session, f func()) {
	t.Helper()
	must(t, runInside(s, f))
}

func runInside(s *Session, f func()) error {
	return childtest.Thread(func() error {
		err := s.Adopt()
		if err == nil {
			f()
		}
		return err
	})
}

// collected has a session's events.
type collected struct {
	mu     sync.Mutex
	events []Event
}

func listen(s *Session) *collected {
	h := &collected{}
	s.Listen(func(e Event) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.events = append(h.events, e)
	})
	return h
}

func (h *collected) lines(c *policy.Compiled) (lines []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		rule := "no rule"
		if e.Rule >= 0 {
			rule = c.Rules[e.Rule].ID
		}
		line := fmt.Sprintf("%d %s %s", e.Sequence, e.Op, e.Why)
		for _, p := range e.Paths {
			line += fmt.Sprintf(" %s needs %s has %s", p.Path, p.Need, p.Have)
		}
		lines = append(lines, line+": "+rule)
	}
	return lines
}
