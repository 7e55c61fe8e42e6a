package hostfs

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

// Opening a fifo would block, a device never ends, and a file that the kernel makes up may do either.
func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	fifo, empty := filepath.Join(dir, "fifo"), filepath.Join(dir, "empty")
	childtest.Must(t, errors.Join(syscall.Mkfifo(fifo, 0o600), os.WriteFile(empty, nil, 0o600)))
	rows := map[string]string{fifo: "not a regular file", "/dev/zero": "not a regular file", dir: "not a regular file", empty: "it's empty, or not a file on a disk"}
	if _, err := os.Stat("/proc/self/status"); err == nil {
		rows["/proc/self/status"] = rows[empty]
	}
	if os.Geteuid() == 0 {
		rows["/proc/kmsg"] = rows[empty]
	}
	for path, want := range rows {
		done := make(chan error, 1)
		go func() {
			_, err := Machine{}.Read(path, 1<<20)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", path, err, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: still reading", path)
		}
	}
}

// Opening a file can have an effect: it starts a watchdog, rewinds a tape, unblocks a fifo's writer.
func TestOnlyFilesAreOpened(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	childtest.Must(t, syscall.Mkfifo(fifo, 0o600))
	written := make(chan error, 1)
	go func() {
		f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
		written <- errors.Join(err, f.Close())
	}()
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); {
		if _, err := (Machine{}).Read(fifo, 1<<20); err == nil {
			t.Fatal("a fifo was read")
		}
		if len(written) > 0 {
			t.Fatal("the fifo was opened")
		}
	}
	r, err := os.Open(fifo)
	if err != nil || <-written != nil || r.Close() != nil {
		t.Errorf("control: %v", err)
	}
}

func TestGrowing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.toml")
	childtest.Must(t, os.WriteFile(file, []byte("123456"), 0o600))
	for _, x := range []struct {
		size  int64
		limit int
		want  string
	}{
		{6, 100, "123456"},
		{7, 100, "123456"}, // it shrank: what is there is whole
		{5, 100, "it grew while it was read: try again"},
		{6, 4, "1234"}, // too large, as its reader sees by the length
		{6, 6, "123456"},
	} {
		f, err := os.Open(file)
		childtest.Must(t, err)
		b, err := contents(int(f.Fd()), x.size, x.limit)
		if got := string(b); err == nil && got != x.want || err != nil && err.Error() != x.want {
			t.Errorf("size %d, limit %d: %q, %v", x.size, x.limit, got, err)
		}
		childtest.Must(t, f.Close())
	}
}

func TestLeasedFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.toml")
	childtest.Must(t, os.WriteFile(file, []byte("version = 1\n"), 0o600))
	f, err := os.Open(file)
	childtest.Must(t, err)
	defer f.Close()
	signal.Ignore(syscall.SIGIO) // it notifies the holder of a lease
	defer signal.Reset(syscall.SIGIO)
	if _, _, e := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), 1024, syscall.F_WRLCK); e != 0 { // F_SETLEASE of Linux
		t.Skip(e)
	}
	if _, err := (Machine{}).Read(file, 1<<20); err == nil || !strings.Contains(err.Error(), "holds a lease on it: try again in a minute") {
		t.Errorf("%v", err)
	}
}

func TestTrusted(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files that are trusted")
	}
	// Not in the test's own folder: a folder above it is writable for every user.
	dir, err := os.MkdirTemp("/root", "toolguard-test-")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "p.toml")
	link, sub := filepath.Join(dir, "link.toml"), filepath.Join(dir, "sub")
	childtest.Must(t, os.Mkdir(sub, 0o755))
	childtest.Must(t, os.WriteFile(file, []byte("version = 1\n"), 0o644))
	childtest.Must(t, os.Symlink(file, link))
	rejected := func(what, want string) {
		t.Helper()
		if _, err := (Machine{}).ReadTrusted(file, 1<<20); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if b, err := (Machine{}).ReadTrusted(file, 1<<20); err != nil || len(b) == 0 {
		t.Errorf("trusted: %v", err)
	}
	if names, err := (Machine{}).List(dir); err != nil || len(names) != 3 {
		t.Errorf("list: %v %v", names, err)
	}
	if _, err := (Machine{}).ReadTrusted(link, 1<<20); err == nil || !strings.Contains(err.Error(), "a symlink") {
		t.Errorf("symlink: %v", err)
	}
	childtest.Must(t, os.Chmod(file, 0o664))
	rejected("writable by the group", "writable by users other than root (mode 0664)")
	childtest.Must(t, os.Chmod(file, 0o644))
	childtest.Must(t, os.Chown(file, 65534, 0))
	rejected("owned by another", "owned by user 65534, not by root")
	childtest.Must(t, os.Chown(file, 0, 0))
	childtest.Must(t, os.Chmod(dir, 0o777))
	rejected("in a folder writable for all", "writable by users other than root (mode 0777)")
	if _, err := (Machine{}).List(dir); err == nil {
		t.Error("list: a folder of everybody")
	}
	if _, err := (Machine{}).List(sub); err == nil {
		t.Error("list: beneath a folder of everybody")
	}
}
