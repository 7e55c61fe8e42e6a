package seccomp

import (
	"fmt"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

func TestMain(m *testing.M) { childtest.Main(m, runOrder) }

// order is a child's order: one operation, bare as the control or under the filters of its policy.
type order struct {
	Operation string
	Bare      bool
}

// outcome is the result of a child's call.
type outcome struct {
	Errno syscall.Errno
	Value uintptr
}

func runOrder(o order) (out outcome, err error) {
	d, ok := operationTests[o.Operation]
	if !ok {
		return out, fmt.Errorf("unknown operation: %s", o.Operation)
	}
	d.before()
	if !o.Bare {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return out, err
		}
		if err := restrict(d); err != nil {
			return out, err
		}
	}
	out.Errno, out.Value = d.do()
	return out, nil
}

// restrict loads the filters of an operation's policy for the thread, which has no_new_privs.
func restrict(d operationTest) error {
	src := &policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{d.layer()}}
	c, err := policy.Compile(src, folders)
	if err != nil {
		return err
	}
	abi := 7
	if d.abi != 0 {
		abi = d.abi
	}
	filters, err := Filters(c, Backend{ABI: abi})
	if err != nil {
		return err
	}
	return load(filters)
}

// load loads filters for the thread.
func load(filters []Filter) error {
	for _, f := range filters {
		operation, flags, prog := f.Args()
		if _, _, e := unix.Syscall(unix.SYS_SECCOMP, operation, flags, uintptr(unsafe.Pointer(prog))); e != 0 {
			return e
		}
	}
	return nil
}

// runChild runs one operation in a child, bare or under filters, as a user.
func runChild(t *testing.T, operation string, bare bool, uid int) outcome {
	t.Helper()
	return childtest.Run[outcome](t, uid, order{operation, bare})
}

func syscalls(l policy.SourceLayer, s policy.Syscalls) policy.SourceLayer {
	l.Syscalls = s
	return l
}
