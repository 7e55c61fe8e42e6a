package ownprogram

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// A program may run as root, so it must belong to root or to toolguard's owner.
func TestOpen(t *testing.T) {
	owner := uint32(os.Getuid())
	for _, x := range []struct {
		name  string
		make  func(file string) error
		owner uint32
		want  string // of the error; "": there's none
	}{
		{"nothing", func(string) error { return nil }, owner, "isn't in toolguard's folder"},
		{"a program", func(f string) error { return os.WriteFile(f, nil, 0o755) }, owner, ""},
		{"a link to one", func(f string) error {
			return errors.Join(os.WriteFile(f+".1", nil, 0o755), os.Symlink(f+".1", f))
		}, owner, ""},
		{"writable by the group", func(f string) error { return errors.Join(os.WriteFile(f, nil, 0o755), os.Chmod(f, 0o775)) }, owner, "no other user may be able to write it"},
		{"writable by all", func(f string) error { return errors.Join(os.WriteFile(f, nil, 0o755), os.Chmod(f, 0o757)) }, owner, "no other user may be able to write it"},
		{"a folder", func(f string) error { return os.Mkdir(f, 0o755) }, owner, "no other user may be able to write it"},
		{"a fifo", func(f string) error { return unix.Mkfifo(f, 0o755) }, owner, "no other user may be able to write it"},
		{"another user's", func(f string) error { return errors.Join(os.WriteFile(f, nil, 0o755), chownIfRoot(f)) }, owner + 1, "no other user may be able to write it"},
	} {
		dir := t.TempDir()
		childtest.Must(t, x.make(filepath.Join(dir, "toolguardd")))
		fd, err := open("toolguardd", "decides about names", []string{filepath.Join(dir, "none"), dir}, x.owner)
		if err == nil {
			_ = unix.Close(fd)
		}
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v", x.name, err)
		}
	}
}

// chownIfRoot gives a file away, where that can be done.
func chownIfRoot(file string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return os.Chown(file, 4711, 4711)
}
