package seccomp

import (
	"os"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

func init() {
	operationTests["x32"] = operationTest{do: call(0x40000000 | unix.SYS_GETPID), bare: unix.ENOSYS}
	operationTests["int 0x80"] = operationTest{do: int80}
}

// int80 asks for the pid through the 32-bit entry: mov eax, 20 (getpid); int 0x80; ret.
func int80() (syscall.Errno, uintptr) {
	code, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return unix.ENOMEM, 0
	}
	copy(code, []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3})
	entry := &code[0]
	closure := &entry // what a func value points to begins with the code's address
	pid := (*(*func() uintptr)(unsafe.Pointer(&closure)))()
	return 0, pid
}

// TestForeignABIKilled checks that calls of another ABI kill the process.
func TestForeignABIKilled(t *testing.T) {
	for _, what := range []string{"x32", "int 0x80"} {
		bare := runChild(t, what, true, os.Getuid())
		if bare.Errno != operationTests[what].bare {
			t.Errorf("%s bare: %v: no control", what, bare.Errno)
		}
		if what == "int 0x80" && bare.Value == 0 {
			t.Errorf("the 32-bit entry gave no pid: no control")
		}
		cmd := childtest.Command(t, os.Getuid(), order{Operation: what})
		err := cmd.Run()
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !ws.Signaled() || ws.Signal() != unix.SIGSYS {
			t.Errorf("%s under filters: %v, want SIGSYS", what, err)
		}
	}
}
