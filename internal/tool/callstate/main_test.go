//go:build unix

package callstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

const childEnv = "TOOLGUARD_TEST_CALLSTATE" // "FILE INVOCATION MAXIMUM CALLS": a child that makes calls, and prints each answer

func TestMain(m *testing.M) {
	for name, run := range map[string]func(order string) error{childEnv: runCalls, approvalsEnv: runApprovals} {
		if order := os.Getenv(name); order != "" {
			if err := run(order); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

func runCalls(order string) error {
	var file, invocation string
	var maximum, calls int
	_, err := fmt.Sscan(order, &file, &invocation, &maximum, &calls)
	for i := 0; err == nil && i < calls; i++ {
		var answer string
		if answer, err = begin(New(file, time.Now), invocation, maximum); err == nil {
			fmt.Println(answer)
		}
	}
	return err
}

func child(file, invocation string, maximum, calls int) *exec.Cmd {
	return childWith(fmt.Sprintf("%s=%s %s %d %d", childEnv, file, invocation, maximum, calls))
}

// childWith is this program with an order.
func childWith(order string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	if exe, err := os.Executable(); err == nil {
		cmd.Path = exe
	}
	cmd.Env = append(os.Environ(), order)
	return cmd
}

// checkMode checks that only its user can read a file.
func checkMode(t *testing.T, file string) {
	t.Helper()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
}

// countWords runs processes at the same time, and counts the words of their output.
func countWords(t *testing.T, processes int, process func(i int) *exec.Cmd) map[string]int {
	t.Helper()
	var group sync.WaitGroup
	var mu sync.Mutex
	counts := map[string]int{}
	for i := range processes {
		group.Go(func() {
			out, err := process(i).Output()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			for _, word := range strings.Fields(string(out)) {
				counts[word]++
			}
		})
	}
	group.Wait()
	return counts
}

// editor returns a function that replaces a part of a text, which has it.
func editor(t *testing.T, text []byte) func(old, with string) string {
	return func(old, with string) string {
		t.Helper()
		changed := strings.Replace(string(text), old, with, 1)
		if changed == string(text) {
			t.Fatalf("%s isn't in %s", old, text)
		}
		return changed
	}
}

// checkDamaged checks the errors of damaged files, and of a good one that is truncated at every so many bytes. None of them is changed.
func checkDamaged(t *testing.T, rows map[string]string, good []byte, step int, check func(t *testing.T, name, file, want string)) {
	t.Helper()
	for n := 1; n < len(good)-1; n += step { // without the line break at its end it's whole
		rows[string(good[:n])] = "it's damaged"
	}
	for damaged, want := range rows {
		file := filepath.Join(t.TempDir(), "state.json")
		childtest.Must(t, os.WriteFile(file, []byte(damaged), 0o600))
		check(t, fmt.Sprintf("%.60q", damaged), file, want)
		if after, err := os.ReadFile(file); err != nil || string(after) != damaged {
			t.Errorf("%.60q was changed", damaged)
		}
	}
}

// foreignFile makes something in the place of a file that another process could have made, or could replace.
type foreignFile struct {
	name, want string
	root       bool // only root can make it
	make       func(dir, file string) error
}

var foreignFiles = []foreignFile{
	{"symlink", "is a symlink", false, func(dir, file string) error { return os.Symlink(filepath.Join(dir, "other"), file) }},
	{"fifo", "is no regular file", false, func(_, file string) error { return syscall.Mkfifo(file, 0o600) }},
	{"directory", "is no regular file", false, func(_, file string) error { return os.Mkdir(file, 0o700) }},
	{"readable by others", "has the mode 0644", false, func(_, file string) error { return os.WriteFile(file, nil, 0o644) }},
	{"readable by the group", "has the mode 0640", false, func(_, file string) error { return os.WriteFile(file, nil, 0o640) }},
	{"foreign owner", "is owned by user 65534", true, func(_, file string) error {
		return errors.Join(os.WriteFile(file, nil, 0o600), os.Chown(file, 65534, -1))
	}},
	{"folder that others can write", "other users can replace files", false, func(dir, _ string) error { return os.Chmod(dir, 0o777) }},
	{"folder of another user", "other users can replace files", true, func(dir, _ string) error { return os.Chown(dir, 65534, -1) }},
	{"no folder", "no such file or directory", false, func(dir, _ string) error { return os.Remove(dir) }},
}

func checkForeign(t *testing.T, rows []foreignFile, check func(t *testing.T, name, file, want string)) {
	t.Helper()
	for _, row := range rows {
		if row.root && os.Geteuid() != 0 {
			continue
		}
		dir := filepath.Join(t.TempDir(), "d")
		childtest.Must(t, os.Mkdir(dir, 0o755))
		file := filepath.Join(dir, "calls.json")
		childtest.Must(t, row.make(dir, file))
		check(t, row.name, file, row.want)
		if _, err := os.Lstat(filepath.Join(dir, "other")); err == nil {
			t.Errorf("%s: the target was made", row.name)
		}
	}
}

// writeState writes a file without the checks of a store.
func writeState(t testing.TB, file string, content any) []byte {
	t.Helper()
	text, err := json.Marshal(content)
	childtest.Must(t, err)
	childtest.Must(t, os.WriteFile(file, text, 0o600))
	return text
}
