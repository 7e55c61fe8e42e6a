// Package childtest runs irreversible operations of tests in child processes and threads: Landlock domains and seccomp filters
// can't be removed.
package childtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// orderVar is the environment variable with a child's order.
const orderVar = "TOOLGUARD_TEST_ORDER"

// NoExitDelay is an environment variable for children. Under the race detector, processes without it sleep for a second before they
// exit.
const NoExitDelay = "GORACE=atexit_sleep_ms=0"

// Main is the TestMain of a package with children. A child is the test binary, which runs its order on a locked thread and prints
// the answer.
func Main[Order, Answer any](m *testing.M, do func(Order) (Answer, error)) {
	text, ok := os.LookupEnv(orderVar)
	if !ok {
		os.Exit(m.Run())
	}
	runtime.LockOSThread()
	if err := runOrder(text, do); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runOrder[Order, Answer any](text string, do func(Order) (Answer, error)) error {
	var order Order
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		return err
	}
	answer, err := do(order)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

// Command returns a child with an order, as a user. It has nothing of the test's environment, and the Go runtime interrupts none of
// its calls.
func Command(t testing.TB, uid int, order any) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = []string{orderVar + "=" + string(text), NoExitDelay, "GODEBUG=asyncpreemptoff=1"}
	cmd.Stderr = os.Stderr
	if uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	return cmd
}

// Run returns a child's answer to an order.
func Run[Answer any](t testing.TB, uid int, order any) (answer Answer) {
	t.Helper()
	text, err := Command(t, uid, order).Output()
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("child printed %q: %v", text, err)
	}
	return answer
}

// User is a user that a test can run children as.
type User struct {
	Name string
	ID   int
}

// NamedUsers returns the users that a test can run children as: the current one, and nobody if the test is root.
func NamedUsers() []User {
	if os.Getuid() == 0 {
		return []User{{"root", 0}, {"nobody", 65534}}
	}
	return []User{{"user", os.Getuid()}}
}

// Users returns the IDs of NamedUsers.
func Users() (ids []int) {
	for _, u := range NamedUsers() {
		ids = append(ids, u.ID)
	}
	return ids
}

// Account returns an ordinary user with an account and a home, as which programs such as firejail run; ok is false if there is none.
func Account() (uid int, ok bool) {
	if os.Getuid() != 0 {
		return os.Getuid(), true
	}
	text, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(text)) {
		f := strings.Split(line, ":")
		if len(f) < 7 {
			continue
		}
		home, err := os.Stat(f[5])
		if id, _ := strconv.Atoi(f[2]); id >= 1000 && id < 60000 && err == nil && home.IsDir() {
			return id, true
		}
	}
	return 0, false
}

// TwoProcessors skips a test in which one processor must work while another one waits. Guests have one processor. Tests that are
// skipped for this reason run afterwards in a guest with two (scripts/vm/test).
func TwoProcessors(t testing.TB) {
	t.Helper()
	if runtime.NumCPU() < 2 {
		t.Skip("needs two processors")
	}
}
