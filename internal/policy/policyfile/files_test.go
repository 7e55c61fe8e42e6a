package policyfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestReadIsBounded(t *testing.T) {
	dir := t.TempDir()
	big := filepath.Join(dir, "big.toml")
	if err := os.WriteFile(big, bytes.Repeat([]byte("nonsense "), 10<<20/9), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := OS.Read(big, maxFile+1)
	if err != nil || len(b) != maxFile+1 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	req := request(big)
	if _, _, err := Load(req, OS); err == nil || !strings.HasSuffix(err.Error(), "big.toml:1:1: the file is larger than 1024 KiB (is it really a policy?)") {
		t.Errorf("got %.200v", err)
	}
	small := filepath.Join(dir, "small.toml")
	if err := os.WriteFile(small, []byte(policyText("")), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := OS.Read(small, maxFile+1); err != nil || string(b) != policyText("") {
		t.Errorf("%q, %v", b, err)
	}
	if b, err := OS.Read("/proc/self/status", maxFile+1); err != nil || len(b) == 0 {
		t.Errorf("a file whose size isn't known: %d bytes, %v", len(b), err)
	}
}

// A fifo would block whoever opens it, and a device never ends.
func TestOnlyRegularFiles(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, "/dev/zero", t.TempDir()} {
		done := make(chan error, 1)
		go func() {
			_, err := OS.Read(path, maxFile+1)
			done <- err
		}()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("%s: %v", path, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: still reading", path)
		}
	}
}

func TestTrusted(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make files that are trusted")
	}
	// Not in the test's own folder: everybody may write to what that is in.
	dir, err := os.MkdirTemp("/root", "toolguard-test-")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "p.toml")
	link := filepath.Join(dir, "link.toml")
	if err := os.WriteFile(file, []byte(policyText("")), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	refused := func(what, want string) {
		t.Helper()
		if _, err := OS.ReadTrusted(file, maxFile); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if b, err := OS.ReadTrusted(file, maxFile); err != nil || len(b) == 0 {
		t.Errorf("trusted: %v", err)
	}
	if names, err := OS.List(dir); err != nil || len(names) != 2 {
		t.Errorf("list: %v %v", names, err)
	}
	if _, err := OS.ReadTrusted(link, maxFile); err == nil || !strings.Contains(err.Error(), "a symlink") {
		t.Errorf("symlink: %v", err)
	}
	if err := os.Chmod(file, 0o664); err != nil {
		t.Fatal(err)
	}
	refused("writable by the group", "writable by others than root (mode 0664)")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, 65534, 0); err != nil {
		t.Fatal(err)
	}
	refused("owned by another", "owned by user 65534, not by root")
	if err := os.Chown(file, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	refused("in a folder of everybody", "writable by others than root (mode 0777)")
	if _, err := OS.List(dir); err == nil {
		t.Error("list: a folder of everybody")
	}
}

// A file may hold more than it said when it was opened, as those of /proc do.
func TestReadGrowing(t *testing.T) {
	const path = "/proc/self/status"
	want, err := os.ReadFile(path)
	if err != nil {
		t.Skip("no /proc here")
	}
	got, err := OS.Read(path, 1<<20)
	if err != nil || !bytes.HasPrefix(got, want[:20]) || bytes.Count(got, []byte("\n")) != bytes.Count(want, []byte("\n")) {
		t.Errorf("%v\n%s", err, got)
	}
	if got, err := OS.Read(path, 70); err != nil || len(got) != 70 {
		t.Errorf("%d bytes: %v", len(got), err)
	}
}
