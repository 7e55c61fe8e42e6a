//go:build unix

package callstate

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/constraint"
)

// begin makes a call of a tool without an id.
func begin(f *File, invocation string, maximum int) (string, error) {
	d, err := f.Begin(&constraint.Call{Invocation: invocation}, &toolset.Settings{Name: "commit", MaxInvocations: maximum})
	switch {
	case err != nil:
		return "", err
	case d != nil:
		return "denied", nil
	}
	return "allowed", nil
}

// started returns how many calls a file has counted.
func started(t *testing.T, file, invocation string) int {
	t.Helper()
	text := childtest.ReadFile(t, file)
	st, err := parse(text)
	childtest.Must(t, err)
	if st.Invocations[invocation] == nil {
		return 0
	}
	return st.Invocations[invocation].Started["commit"]
}

// A call is denied by what other stores on the same file have recorded.
func TestBeginEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls.json")
	settings := &toolset.Settings{Name: "commit", OnlyAfter: []toolset.Predecessor{{Entry: toolset.Entry{Text: "fetch"}, Layer: new(toolset.Layer)}}}
	fetch := &toolset.Settings{Name: "fetch"}
	call := func(id, invocation string, s *toolset.Settings) string {
		d, err := New(file, time.Now).Begin(&constraint.Call{ID: id, Invocation: invocation}, s)
		childtest.Must(t, err)
		if d != nil {
			return d.Text
		}
		return ""
	}
	const denied = "tool commit may only be called after fetch has ended without an error"
	if got := call("1", "i", settings); got != denied {
		t.Error(got)
	}
	if got := call("2", "i", fetch); got != "" {
		t.Error(got)
	}
	childtest.Must(t, New(file, time.Now).End("i", "2", true))
	if got := call("3", "i", settings); got != "" {
		t.Error(got)
	}
	if got := call("1", "another", settings); got != denied {
		t.Error(got)
	}
	rejected := (*constraint.RejectedError)(nil)
	if err := New(file, time.Now).End("i", "2", true); !errors.As(err, &rejected) || err.Error() != rejected.Text {
		t.Errorf("%v", err)
	}
	if _, err := begin(New(file, time.Now), "", 1); !errors.As(err, &rejected) {
		t.Errorf("%v", err)
	}
	checkMode(t, file)
}

// Of many processes at once, exactly as many are allowed as the constraint says.
func TestProcesses(t *testing.T) {
	const processes, maximum = 64, 50
	file := filepath.Join(t.TempDir(), "calls.json")
	counts := countWords(t, processes, func(int) *exec.Cmd { return child(file, "i", maximum, 2) })
	if counts["allowed"] != maximum || counts["denied"] != 2*processes-maximum || started(t, file, "i") != maximum {
		t.Errorf("%v, and the file has %d", counts, started(t, file, "i"))
	}
}

// kills is how often TestKill kills a process.
const kills = 200

// However a process is killed, each count that it has answered is in the file, and the file can be read.
func TestKill(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls.json")
	answered, r := 0, rand.New(rand.NewPCG(1, 2))
	for i := range kills {
		cmd := child(file, "i", 1000000000, 1000)
		out, err := cmd.StdoutPipe()
		childtest.Must(t, err)
		childtest.Must(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range r.IntN(3) {
			if lines.Scan() {
				answered++
			}
		}
		time.Sleep(time.Duration(r.IntN(8000)) * time.Microsecond)
		childtest.Must(t, cmd.Process.Kill())
		for lines.Scan() {
			answered++
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("it wasn't killed")
		}
		if _, err := os.Stat(file); err != nil && answered == 0 {
			continue
		}
		if n := started(t, file, "i"); n < answered || n > answered+i+1 {
			t.Fatalf("kill %d: %d calls answered, and the file has %d", i, answered, n)
		}
	}
	if answered < kills/2 {
		t.Errorf("only %d answers: the test shows little", answered)
	}
	if got, err := begin(New(file, time.Now), "i", 1); got != "denied" || err != nil {
		t.Errorf("%s %v", got, err)
	}
}

// What isn't a whole file of this user alone is an error, and stays as it is.
func TestDamaged(t *testing.T) {
	good := filepath.Join(t.TempDir(), "calls.json")
	_, err := New(good, time.Now).Begin(&constraint.Call{ID: "1", Invocation: "i"}, &toolset.Settings{Name: "commit"})
	childtest.Must(t, err)
	text := childtest.ReadFile(t, good)
	edit := editor(t, text)
	rows := map[string]string{
		"": "it's damaged", "{}": "no state of calls", "null": "no state of calls", "[]": "it's damaged", "{": "it's damaged", strings.Repeat("\x00", 100): "it's damaged", "\xff": "it's damaged",
		edit(`"version":1`, `"version":2`): "version 2", edit(format, "other"): `format "other"`, edit(`"commit":1`, `"commit":0`): "impossible", edit(`"commit":1`, `"commit":-1`): "impossible",
		edit(`"commit":1`, `"commit":1.5`): "it's damaged", edit(`"commit":1`, `"commit":"1"`): "it's damaged", edit(`"commit":1`, `"commit":99999999999999999999`): "it's damaged",
		edit(`"used_ms":`, `"used_ms":-`): "impossible", edit(`"used_ms"`, `"used"`): "it's damaged", edit(`{"i":{`, `{"i":null,"j":{`): "impossible", edit(`"id":"1"`, `"id":""`): "impossible",
		edit(`{"i":`, `{"":`): "impossible", edit(`"format"`, `"more":1,"format"`): "it's damaged", string(text) + "{}": "more after its end",
		string(text) + strings.Repeat(" ", maxSize): "larger than 4096 KiB", edit(`"invocations":{`, `"x":{`): "it's damaged",
	}
	checkDamaged(t, rows, text, 7, checkError)
	childtest.Must(t, os.WriteFile(good, text[:len(text)-1], 0o600))
	if _, err := begin(New(good, time.Now), "i", 0); err != nil {
		t.Errorf("the positive control: %v", err)
	}
}

func checkError(t *testing.T, name, file, want string) {
	t.Helper()
	rejected := (*constraint.RejectedError)(nil)
	got, err := begin(New(file, time.Now), "i", 0)
	if err == nil || !strings.HasPrefix(err.Error(), "the state of calls: ") || !strings.Contains(err.Error(), want) || errors.As(err, &rejected) {
		t.Errorf("%s: got %s %v, want an error with %q", name, got, err, want)
	}
}

// Files and folders that another process could have made, or could replace, are errors. So is what can't be written.
func TestForeignFiles(t *testing.T) {
	checkForeign(t, foreignFiles, checkError)
	checkForeign(t, []foreignFile{
		{"symlink for the lock", "calls.json.lock is a symlink", false, func(dir, file string) error { return os.Symlink(filepath.Join(dir, "other"), file+".lock") }},
		{"fifo for the lock", "calls.json.lock is no regular file", false, func(_, file string) error { return syscall.Mkfifo(file+".lock", 0o600) }},
		{"directory for the lock", "is a directory", false, func(_, file string) error { return os.Mkdir(file+".lock", 0o700) }},
		{"directory for the temporary file", "calls.json.new", false, func(_, file string) error { return os.Mkdir(file+".new", 0o700) }},
	}, checkError)
	dir := filepath.Join(t.TempDir(), "sticky")
	childtest.Must(t, os.Mkdir(dir, 0o755))
	childtest.Must(t, os.Chmod(dir, 0o777|os.ModeSticky))
	file := filepath.Join(dir, "calls.json")
	childtest.Must(t, os.WriteFile(file+".new", []byte("of a process that was killed"), 0o600))
	if got, err := begin(New(file, time.Now), "i", 0); err != nil || got != "allowed" {
		t.Errorf("the positive control: %s %v", got, err)
	}
}

// Without the permission to write, a call isn't counted, and so it isn't allowed. Root has every permission, except on /proc.
func TestReadOnly(t *testing.T) {
	checkError(t, "a folder that nothing can be written to", "/proc/self/calls.json", "calls.json")
	if os.Geteuid() == 0 {
		return
	}
	dir := t.TempDir()
	childtest.Must(t, os.Chmod(dir, 0o500))
	checkError(t, "a read-only folder", filepath.Join(dir, "calls.json"), "permission denied")
}

// Invocations that weren't used for 30 days are removed, and no others.
func TestPrune(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls.json")
	day := time.Unix(1800000000, 0)
	f := New(file, func() time.Time { return day })
	for _, step := range []struct {
		days       int
		invocation string
		want       string
	}{
		{0, "old", "allowed"}, {0, "used", "allowed"}, {29, "used", "denied"}, {0, "used2", "allowed"}, {2, "new", "allowed"}, {0, "old", "allowed"}, {0, "used2", "denied"}, {-60, "new", "denied"},
	} {
		day = day.Add(time.Duration(step.days) * 24 * time.Hour)
		got, err := begin(f, step.invocation, 1)
		childtest.Must(t, err)
		if got != step.want {
			t.Errorf("%+v: %s", step, got)
		}
	}
}

// A call that hasn't ended can't end any more when its invocation wasn't changed for a day, and counts again.
func TestPruneOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls.json")
	now := time.Unix(1800000000, 0)
	f := New(file, func() time.Time { return now })
	for i, want := range []int{1, 1, 2} {
		now = now.Add(time.Duration(i) * 23 * time.Hour)
		_, err := f.Begin(&constraint.Call{ID: "1", Invocation: "i"}, &toolset.Settings{Name: "commit"})
		childtest.Must(t, err)
		if n := started(t, file, "i"); n != want {
			t.Errorf("%d: %d calls, want %d", i, n, want)
		}
	}
	now = now.Add(25 * time.Hour)
	if err := f.End("i", "1", true); err == nil {
		t.Error("it has ended")
	}
}

// A store that has become too large denies, and names the way out.
func TestSize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calls.json")
	pad := strings.Repeat("z", maxSize-200)
	st := &state{Format: format, Version: 1, Invocations: map[string]*entry{"i": {Used: time.Now().UnixMilli(), History: constraint.History{Started: map[string]int{pad: 1, "commit": 1}}}}}
	writeState(t, file, st)
	if got, err := begin(New(file, time.Now), "i", 2); got != "allowed" || err != nil {
		t.Errorf("the positive control: %s %v", got, err)
	}
	_, err := begin(New(file, time.Now), strings.Repeat("y", 100), 1)
	if err == nil || !strings.Contains(err.Error(), "would be larger than 4096 KiB: use another file, or remove it to begin at zero") {
		t.Errorf("%v", err)
	}
}

// A process waits for the lock, and not for ever. A lock file that was removed in the meantime is no lock.
func TestLock(t *testing.T) {
	path := t.TempDir()
	dir, err := openFolder(path)
	childtest.Must(t, err)
	defer dir.Close()
	first, err := lockFile(dir, "x.lock")
	childtest.Must(t, err)
	done := make(chan *os.File)
	go func() {
		lock, err := lockFile(dir, "x.lock")
		if err != nil {
			t.Error(err)
		}
		done <- lock
	}()
	select {
	case <-done:
		t.Fatal("two have the lock")
	case <-time.After(50 * time.Millisecond):
	}
	childtest.Must(t, os.Remove(filepath.Join(path, "x.lock")))
	childtest.Must(t, first.Close())
	second := <-done
	defer second.Close()
	ours, err := second.Stat()
	childtest.Must(t, err)
	named, err := os.Stat(filepath.Join(path, "x.lock"))
	childtest.Must(t, err)
	if !os.SameFile(ours, named) {
		t.Error("the lock is on a file that was removed")
	}
}

// BenchmarkBegin is one decision with state, in a file with as many invocations, each with ten open calls, where fsync costs nothing.
func BenchmarkBegin(b *testing.B) {
	for _, invocations := range []int{10, 100} {
		b.Run(fmt.Sprint(invocations), func(b *testing.B) {
			dir, err := os.MkdirTemp("/dev/shm", "callstate")
			if err != nil {
				dir = b.TempDir()
			}
			defer os.RemoveAll(dir)
			st := &state{Format: format, Version: 1, Invocations: map[string]*entry{}}
			for i := range invocations {
				e := &entry{Used: time.Now().UnixMilli()}
				for n := range 10 {
					_, _, err := e.Begin(&constraint.Call{ID: fmt.Sprint("call-", n), Arguments: strings.Repeat("a", 32)}, &toolset.Settings{Name: fmt.Sprint("tool_", n)})
					childtest.Must(b, err)
				}
				st.Invocations[fmt.Sprint("invocation-", i)] = e
			}
			f := New(filepath.Join(dir, "calls.json"), time.Now)
			text := writeState(b, f.path, st)
			for b.Loop() {
				_, err := begin(f, "invocation-1", 0)
				childtest.Must(b, err)
			}
			b.ReportMetric(float64(len(text)), "bytes")
		})
	}
}
