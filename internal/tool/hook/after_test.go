package hook

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

func exists(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && strings.HasSuffix(string(text), "\n")
}

// ended waits for the end of the process whose pid a file has.
func ended(t *testing.T, file string) {
	t.Helper()
	for range 1000 {
		text := childtest.ReadFile(t, file)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		childtest.Must(t, err)
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%s still runs", file)
}

// kill ends a process of a test.
func kill(file string) {
	text, err := os.ReadFile(file)
	if pid, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil && pid > 1 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// failures collects what after-hooks report.
type failures struct {
	sync.Mutex
	all []string
}

func (f *failures) add(x *Failure) {
	f.Lock()
	defer f.Unlock()
	f.all = append(f.all, x.Hook+" "+x.Call+" "+x.Tool+": "+x.Err.Error())
}

func (f *failures) list() []string {
	f.Lock()
	defer f.Unlock()
	return append([]string(nil), f.all...)
}

// TestAfter checks what after-hooks get, and that only their status matters.
func TestAfter(t *testing.T) {
	good := script(t, `cat > got; echo anything`)
	bad := script(t, `echo broken >&2; exit 1`)
	other := script(t, `echo > ran`)
	other.Tools = []toolset.Entry{{Text: "Read"}}
	var f failures
	r := &Runner{Env: environment, Failed: f.add}
	r.After([]*toolset.Hook{good, bad, other}, After{Before: call, Result: json.RawMessage(`{"ok":[1, 2]}`), Duration: 12}, "")
	r.Close(time.Minute)
	text := childtest.ReadFile(t, filepath.Join(good.Dir, "got"))
	want := `{"event":"after_tool_call","id":"c1","tool":"Bash","arguments":{"command":"ls <x>","n":1},"cwd":"/w","agent":"a","session":"s","invocation":"i","risk":"high","result":{"ok":[1,2]},"duration_ms":12}` + "\n"
	if string(text) != want {
		t.Errorf("it got %s", text)
	}
	if got := f.list(); len(got) != 1 || got[0] != "check-call c1 Bash: it ended with exit status 1, with the message: broken" {
		t.Errorf("%q", got)
	}
	if _, err := os.Stat(filepath.Join(other.Dir, "ran")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the hook for another tool ran: %v", err)
	}
	r.After([]*toolset.Hook{good}, After{Before: call}, "")
	if got := f.list(); len(got) != 2 || !strings.Contains(got[1], "the session ends") {
		t.Errorf("after Close: %q", got)
	}
}

// TestAfterInBackground checks that nothing waits for after-hooks, that their number is limited, and that Close ends them.
func TestAfterInBackground(t *testing.T) {
	h := script(t, `echo $$ > pid.$$; sleep 1000`)
	var f failures
	r := &Runner{Env: environment, Failed: f.add}
	h.Timeout = time.Minute
	for range maxRunning + 3 {
		r.After([]*toolset.Hook{h}, After{Before: call, Error: json.RawMessage(`"x"`)}, "")
	}
	if got := f.list(); len(got) != 3 || !strings.Contains(got[0], "16 hooks run at a time") {
		t.Errorf("%q", got)
	}
	var pids []string
	if !childtest.Eventually(func() bool {
		pids, _ = filepath.Glob(filepath.Join(h.Dir, "pid.*"))
		pids = slices.DeleteFunc(pids, func(file string) bool { return !exists(file) })
		return len(pids) == maxRunning
	}) {
		t.Fatalf("%d of %d hooks run", len(pids), maxRunning)
	}
	r.Close(time.Millisecond)
	for _, p := range pids {
		ended(t, p)
	}
	if got := f.list(); len(got) != maxRunning+3 {
		t.Errorf("%d failures: %q", len(got), got)
	}
}

// TestCloseWaits checks that Close waits for what runs.
func TestCloseWaits(t *testing.T) {
	h := script(t, `while [ ! -e go ]; do sleep 0.01; done; echo > done`)
	var f failures
	r := &Runner{Env: environment, Failed: f.add}
	r.After([]*toolset.Hook{h}, After{Before: call, Result: json.RawMessage(`1`)}, "")
	time.AfterFunc(200*time.Millisecond, func() { _ = os.WriteFile(filepath.Join(h.Dir, "go"), nil, 0o600) })
	r.Close(time.Minute)
	if got := f.list(); !exists(filepath.Join(h.Dir, "done")) || len(got) > 0 {
		t.Errorf("Close didn't wait: %q", got)
	}
	(&Runner{}).Close(0)
}
