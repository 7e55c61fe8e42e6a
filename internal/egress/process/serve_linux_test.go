//go:build !cgo

package process

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/landlock"
)

func TestMain(m *testing.M) { childtest.Main(m, confined) }

// confined is what a process that has confined itself can't do any more, though everybody may.
func confined(struct{}) (map[string]bool, error) {
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

// What egress's process takes from itself is gone. confine itself sees that Landlock refuses files; TestLoad of package allowlist has the
// system calls one by one.
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
			t.Errorf("it still can %s", what)
		}
	}
	if len(got) != 4 {
		t.Errorf("%v", got)
	}
}
