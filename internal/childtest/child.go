// Package childtest has tests do in children and threads of their own what can't be undone: Landlock domains and seccomp
// filters are never taken off.
package childtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// orderVar holds what a child is to do.
const orderVar = "TOOLGUARD_TEST_ORDER"

// NoExitDelay is for the environment of children. Under the race detector, every process that doesn't have it sleeps a
// second before it ends.
const NoExitDelay = "GORACE=atexit_sleep_ms=0"

// Main is the TestMain of a package that has children. A child is the test binary again: it does what it was ordered to
// on a locked thread, and prints the answer.
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

// Command is a child with an order, as a user; nothing of the test's environment reaches it. The Go runtime interrupts none of its calls.
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

// Run is a child's answer to an order.
func Run[Answer any](t testing.TB, uid int, order any) (answer Answer) {
	t.Helper()
	text, err := Command(t, uid, order).Output()
	if err != nil {
		t.Fatalf("child: %v", err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("child said %q: %v", text, err)
	}
	return answer
}

// Users are those that a test can run children as: oneself, and nobody where one may become that.
func Users() []int {
	if os.Getuid() == 0 {
		return []int{0, 65534}
	}
	return []int{os.Getuid()}
}

// TwoProcessors skips a test in which one processor must work while another one waits. Guests have one; what is skipped for this reason
// runs afterwards in a guest that has two (scripts/vm/test).
func TwoProcessors(t testing.TB) {
	t.Helper()
	if runtime.NumCPU() < 2 {
		t.Skip("needs two processors")
	}
}
