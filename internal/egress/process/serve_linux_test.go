//go:build !cgo

package process

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/landlock"
)

func TestMain(m *testing.M) { childtest.Main(m, whileConfined) }

// whileConfined reports which operations fail in a process that has confined itself, although every user may do them.
func whileConfined(struct{}) (map[string]bool, error) {
	if err := confine(); err != nil {
		return nil, err
	}
	_, file := os.ReadFile("/etc/passwd")
	_, folder := os.ReadDir("/usr")
	_, socket := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	return map[string]bool{
		"read a file": os.IsPermission(file), "list a folder": os.IsPermission(folder), "make a unix socket": socket != nil,
		"be root": os.Getuid() != 0 && os.Getgid() != 0,
	}, nil
}

// confine denies what it should. It checks itself that Landlock denies files; TestLoad of package allowlist has the system calls.
func TestConfine(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if _, _, err := landlock.Probe(); err != nil {
		t.Skip("needs Landlock: ", err)
	}
	got := childtest.Run[map[string]bool](t, 0, struct{}{})
	for what, gone := range got {
		if !gone {
			t.Errorf("the process can %s", what)
		}
	}
	if len(got) != 4 {
		t.Errorf("%v", got)
	}
}
