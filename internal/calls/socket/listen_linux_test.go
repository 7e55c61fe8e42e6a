package socket

import (
	"bufio"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

// names are the files in a folder.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	childtest.Must(t, err)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// Only the user can connect to a socket. It is gone when it is closed.
func TestListen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run", "toolguard")
	l, err := Listen([]string{dir}, "00000000000000a1")
	childtest.Must(t, err)
	for path, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, filepath.Dir(dir): fs.ModeDir | 0o700, l.Path: fs.ModeSocket | 0o600} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if want := filepath.Join(dir, "00000000000000a1.sock"); l.Path != want {
		t.Errorf("%s, want %s", l.Path, want)
	}
	if _, err := Listen([]string{dir}, "00000000000000a1"); err == nil || !strings.Contains(err.Error(), "another process listens there") {
		t.Errorf("a second one: %v", err)
	}
	conn, err := Connect(t.Context(), l.Path)
	childtest.Must(t, err)
	childtest.Must(t, conn.Close())
	if list, err := List([]string{dir + "/none", dir}); err != nil || !slices.Equal(list, []string{l.Path}) {
		t.Errorf("%q, %v", list, err)
	}
	childtest.Must(t, l.Close())
	if list := names(t, dir); len(list) != 0 {
		t.Errorf("it stays: %q", list)
	}
	for _, session := range []string{"", "../x", ".x", "a/b"} {
		if _, err := Listen([]string{dir}, session); err == nil {
			t.Errorf("a session %q", session)
		}
	}
	if _, err := Listen(nil, "x"); err == nil || !strings.Contains(err.Error(), "no folder") {
		t.Error(err)
	}
}

// The next folder is used if the first can't be made.
func TestNextFolder(t *testing.T) {
	dir := t.TempDir()
	childtest.Must(t, os.WriteFile(dir+"/file", nil, 0o600))
	l, err := Listen([]string{dir + "/file/toolguard", dir + "/state"}, "one")
	childtest.Must(t, err)
	defer l.Close()
	if l.Path != dir+"/state/one.sock" {
		t.Error(l.Path)
	}
}

// The path of a socket may be longer than an address.
func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", 200))
	l, err := Listen([]string{dir}, "one")
	childtest.Must(t, err)
	defer l.Close()
	conn, err := Connect(t.Context(), l.Path)
	childtest.Must(t, err)
	childtest.Must(t, conn.Close())
}

// Sockets of killed processes are removed, and no others.
func TestStale(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	childtest.Must(t, os.Mkdir(dir, 0o700))
	killed := childtest.Command(t, os.Getuid(), order{dir, "killed"})
	killed.Stderr = nil
	out, err := killed.StderrPipe()
	childtest.Must(t, err)
	childtest.Must(t, killed.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	childtest.Must(t, err)
	living, err := Listen([]string{dir}, "living")
	childtest.Must(t, err)
	defer living.Close()
	for name, age := range map[string]time.Duration{"begins.sock.new": 0, "begun.sock.new": 2 * maxBeginning} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dir + "/" + name, Net: "unix"})
		childtest.Must(t, err)
		l.SetUnlinkOnClose(false)
		childtest.Must(t, l.Close())
		childtest.Must(t, os.Chtimes(dir+"/"+name, time.Time{}, time.Now().Add(-age)))
	}
	childtest.Must(t, os.WriteFile(dir+"/file.sock", nil, 0o600))
	before := []string{"begins.sock.new", "begun.sock.new", "file.sock", "killed.sock", "living.sock"}
	if list := names(t, dir); !slices.Equal(list, before) || line != dir+"/killed.sock\n" {
		t.Errorf("%q, %q", list, line)
	}
	if list, err := List([]string{dir}); err != nil || len(list) != 2 {
		t.Errorf("%q, %v", list, err)
	}
	childtest.Must(t, killed.Process.Kill())
	_ = killed.Wait()
	if list, err := List([]string{dir}); err != nil || !slices.Equal(list, []string{dir + "/living.sock"}) {
		t.Errorf("%q, %v", list, err)
	}
	l, err := Listen([]string{dir}, "next")
	childtest.Must(t, err)
	defer l.Close()
	if list := names(t, dir); !slices.Equal(list, []string{"begins.sock.new", "file.sock", "living.sock", "next.sock"}) {
		t.Errorf("afterwards %q", list)
	}
}

// A folder must be the user's alone, on a path that no other user can redirect.
func TestFolders(t *testing.T) {
	base := t.TempDir()
	mkdir := func(path string, mode fs.FileMode) string {
		path = filepath.Join(base, path)
		childtest.Must(t, os.MkdirAll(path, 0o700))
		childtest.Must(t, os.Chmod(path, mode))
		return path
	}
	link := func(target, path string) string {
		path = filepath.Join(base, path)
		childtest.Must(t, os.Symlink(target, path))
		return path
	}
	foreign := func(path string) string {
		if os.Getuid() == 0 {
			childtest.Must(t, os.Lchown(path, 65534, 65534))
		}
		return path
	}
	good := mkdir("good", 0o700)
	for path, want := range map[string]string{
		good:                            "",
		link(good, "link"):              "",
		link("good", "relative"):        "",
		link("./link/../good", "twice"): "",
		mkdir("sticky", 0o777|fs.ModeSticky) + "/a": "no such file",
		mkdir("open", 0o755):                        "is open to other users (mode 0755)",
		mkdir("common", 0o777) + "/a":               "other users can write a folder on its path",
		link("loop", "loop"):                        "too many levels",
		link("common/../good", "through"):           "other users can write a folder on its path",
		base + "/none":                              "no such file",
		"relative":                                  "isn't an absolute path",
	} {
		checkFolder(t, path, want)
	}
	if os.Getuid() != 0 {
		return // the rest needs another user
	}
	for path, want := range map[string]string{
		foreign(mkdir("theirs", 0o700)):          "theirs on its path is owned by user 65534",
		foreign(mkdir("their", 0o755)) + "/a":    "their on its path is owned by user 65534",
		foreign(link(good, "their-link")):        "their-link on its path is owned by user 65534",
		link("their-link", "link-to-their-link"): "their-link on its path is owned by user 65534",
	} {
		checkFolder(t, path, want)
		if _, err := Make(path); err == nil {
			t.Errorf("%s is made", path)
		}
	}
}

func checkFolder(t *testing.T, path, want string) {
	t.Helper()
	f, err := Open(path)
	if err == nil {
		_ = f.Close()
	}
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", path, err, want)
	}
	if errors.Is(err, fs.ErrNotExist) != (want == "no such file") {
		t.Errorf("%s: %v", path, err)
	}
}

func TestFolderNames(t *testing.T) {
	for vars, want := range map[[3]string]string{
		{"/run/user/7", "/state", "/home/ann"}: "/run/user/7/toolguard /state/toolguard/run",
		{"", "", "/home/ann"}:                  "/home/ann/.local/state/toolguard/run",
		{"run", "state", "/home/ann"}:          "/home/ann/.local/state/toolguard/run",
		{"", "", ""}:                           "",
	} {
		got := Folders(vars[2], func(name string) string {
			return map[string]string{"XDG_RUNTIME_DIR": vars[0], "XDG_STATE_HOME": vars[1]}[name]
		})
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", vars, got, want)
		}
	}
}
