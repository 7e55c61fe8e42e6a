package mounts_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/mounts"
)

// verify calls Verify for one mount, with the inode that is at a path, after a way through JSON.
func verify(t *testing.T, m mounts.Mount, inodeOf string) error {
	t.Helper()
	if inodeOf != "" {
		inode, _, err := mounts.Host{}.Inode(inodeOf)
		childtest.Must(t, err)
		m.Inode = inode
	}
	text, err := json.Marshal(m)
	childtest.Must(t, err)
	m = mounts.Mount{}
	childtest.Must(t, json.Unmarshal(text, &m))
	return mounts.Verify([]mounts.Mount{m})
}

const changed = "it was changed while the session started"

// TestVerify fails for each kind of mount that isn't there.
func TestVerify(t *testing.T) {
	dir := t.TempDir()
	childtest.Must(t, os.WriteFile(dir+"/file", []byte("text"), 0o600))
	childtest.Must(t, os.Symlink("file", dir+"/link"))
	for _, c := range []struct {
		mount  mounts.Mount
		inode  string
		wanted []string
	}{
		{mounts.Mount{Path: dir, Mode: mounts.ReadOnly, Dir: true}, dir, []string{"nothing is mounted there", changed}},
		{mounts.Mount{Path: dir, Mode: mounts.ReadWrite, Dir: true}, dir, []string{"nothing is mounted there", changed}},
		{mounts.Mount{Path: dir + "/file", Mode: mounts.Hidden}, "", []string{"nothing is mounted there", changed}},
		{mounts.Mount{Path: dir + "/link", Mode: mounts.ReadWrite}, dir + "/file", []string{"too many levels of symbolic links", changed, dir + "/link"}},
		{mounts.Mount{Path: dir + "/none", Mode: mounts.Hidden}, "", []string{"no such file", changed}},
		{mounts.Mount{Path: "/", Mode: mounts.ReadOnly, Dir: true}, "/", []string{"it can be written"}},
		{mounts.Mount{Path: "/dev", Mode: mounts.ReadOnly, Dir: true}, "/dev", []string{"it can be written"}},
		{mounts.Mount{Path: "/", Mode: mounts.ReadWrite, Dir: true}, "/", nil},
		{mounts.Mount{Path: "/dev", Mode: mounts.ReadWrite, Dir: true}, "/dev", nil},
		{mounts.Mount{Path: "/dev", Mode: mounts.ReadWrite, Dir: true}, "/", []string{changed, "another file or folder"}},
		{mounts.Mount{Path: "/", Mode: mounts.ReadWrite, Dir: true}, "", []string{changed, "another file or folder"}},
	} {
		err := verify(t, c.mount, c.inode)
		if (err == nil) != (c.wanted == nil) {
			t.Errorf("%+v: %v", c.mount, err)
		}
		for _, want := range c.wanted {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %s", c.mount, err, want)
			}
		}
	}
}

// TestVerifyOther mounts other files and folders than the planned ones at planned paths.
func TestVerifyOther(t *testing.T) {
	childtest.NeedsRoot(t, "mounts")
	dir := mountsDir(t)
	for _, sub := range []string{"planned", "other", "at"} {
		childtest.Must(t, os.Mkdir(dir+"/"+sub, 0o755))
	}
	for _, name := range []string{"plannedfile", "otherfile", "fileat", "other/id"} {
		childtest.Must(t, os.WriteFile(dir+"/"+name, nil, 0o644))
	}
	fresh := func(data string) func(string) error {
		return func(at string) error {
			if err := unix.Mount("tmpfs", at, "tmpfs", 0, data); err != nil {
				return err
			}
			return unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		}
	}
	bind := func(source string, flags uintptr) func(string) error {
		return func(at string) error {
			if err := unix.Mount(source, at, "", unix.MS_BIND, ""); err != nil {
				return err
			}
			return unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|flags, "")
		}
	}
	for _, c := range []struct {
		at, inode string
		mode      mounts.Mode
		open      bool
		mount     func(at string) error
		want      string
	}{
		{"/at", "/planned", mounts.ReadWrite, false, bind(dir+"/planned", 0), ""},
		{"/at", "/planned", mounts.ReadOnly, false, bind(dir+"/planned", unix.MS_RDONLY), ""},
		{"/fileat", "/plannedfile", mounts.ReadOnly, false, bind(dir+"/plannedfile", unix.MS_RDONLY), ""},
		{"/at", "/planned", mounts.ReadWrite, false, bind(dir+"/other", 0), changed},
		{"/at", "/planned", mounts.ReadOnly, false, bind(dir+"/other", unix.MS_RDONLY), changed},
		{"/fileat", "/plannedfile", mounts.ReadOnly, false, bind(dir+"/otherfile", unix.MS_RDONLY), changed},
		{"/at", "/planned", mounts.ReadOnly, false, bind(dir+"/planned", 0), "it can be written"},
		{"/at", "", mounts.Hidden, false, fresh("mode=0"), ""},
		{"/at", "", mounts.Hidden, true, fresh("mode=0111"), ""},
		{"/at", "", mounts.Hidden, false, fresh("mode=0111"), changed},
		{"/at", "", mounts.Hidden, false, fresh("mode=0755"), changed},
		{"/at", "", mounts.Hidden, false, bind(dir+"/other", unix.MS_RDONLY), changed},
		{"/fileat", "", mounts.Hidden, false, bind("/dev/null", unix.MS_RDONLY|unix.MS_NODEV), ""},
		{"/fileat", "", mounts.Hidden, false, bind("/dev/null", unix.MS_RDONLY), changed},
		{"/fileat", "", mounts.Hidden, false, bind("/dev/zero", unix.MS_RDONLY|unix.MS_NODEV), changed},
		{"/fileat", "", mounts.Hidden, false, bind(dir+"/otherfile", unix.MS_RDONLY|unix.MS_NODEV), changed}, // empty
	} {
		childtest.Must(t, c.mount(dir+c.at))
		planned := ""
		if c.inode != "" {
			planned = dir + c.inode
		}
		err := verify(t, mounts.Mount{Path: dir + c.at, Mode: c.mode, Dir: c.at == "/at", Open: c.open}, planned)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		childtest.Must(t, unix.Unmount(dir+c.at, unix.MNT_DETACH))
	}
}

// mountsDir returns a folder on a new file system, whose mounts other processes don't get.
func mountsDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	childtest.Must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	childtest.Must(t, unix.Mount("", dir, "", unix.MS_PRIVATE, ""))
	return dir
}
