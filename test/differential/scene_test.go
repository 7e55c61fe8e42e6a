//go:build linux && amd64

package differential

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Few names, so that rules overlap: prefixes and suffixes of each other, and two of maximum length.
var components = []string{
	"a", "b", "ab", "aba", "b.a", ".env", "x.env", ".git", "hooks", "eight_by", "sixteen_letters.", "ünï", "日本", "\xff\xfe",
	"é", "e\u0301", "a b", "a\nb", `a"b\'`, strings.Repeat("n", 255), strings.Repeat("n", 254) + "m",
}

// programs is a folder with a program and scripts for it, outside the trees. Hard links and copies of them are in the trees under
// the same names, which is how the expectation knows what executes them.
var programs string

var interpreters = map[string]string{"script": "program"}

// program is an ELF file that ends at once: 64 bytes of header, 56 of the only segment, then exit(0).
var program = []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00\x01\x00\x00\x00\x78\x00\x40\x00\x00\x00\x00\x00" +
	"\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40\x00\x38\x00\x01\x00\x00\x00\x00\x00\x00\x00" +
	"\x01\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00" +
	"\x84\x00\x00\x00\x00\x00\x00\x00\x84\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00" +
	"\xb8\x3c\x00\x00\x00\x31\xff\x0f\x05\x00\x00\x00")

// execveat is the same with another ending: execveat(3, argv[1], argv+1, NULL, AT_EMPTY_PATH), and if that returns, exit(-it).
var execveat = append(program[:0x78:0x78], "\x48\x8b\x74\x24\x10\x48\x8d\x54\x24\x10\x45\x31\xd2\x41\xb8\x00\x10\x00\x00\xbf\x03\x00\x00\x00"+
	"\xb8\x42\x01\x00\x00\x0f\x05\xf7\xd8\x89\xc7\xb8\x3c\x00\x00\x00\x0f\x05"...)

// scene is a tree and the names in it.
type scene struct {
	r       *rand.Rand
	root    string
	names   []string // what is there, or was
	special []rule   // every layer has them
	undo    []func()
	able    map[string]bool // what is nameable, while a policy is written
	hidden  []fspath.FileID // mount points' own folders: a bind mount may make them visible
}

// grow makes a tree: on a disk, in memory, with other file systems mounted in it.
func grow(t *testing.T, r *rand.Rand, on string) *scene {
	t.Helper()
	root, err := os.MkdirTemp(on, "tree-")
	must(t, err)
	s := &scene{r: r, root: root, names: []string{root}}
	t.Cleanup(s.cut)
	for range 25 {
		s.add(s.fresh())
	}
	s.mount(t)
	for range 2 {
		s.bind(t)
	}
	for range 25 {
		s.add(s.fresh())
	}
	for range r.IntN(6) {
		s.link()
	}
	if r.IntN(4) == 0 {
		s.deep()
	}
	return s
}

func (s *scene) cut() {
	for i := len(s.undo) - 1; i >= 0; i-- {
		s.undo[i]()
	}
	_ = os.RemoveAll(s.root)
}

func (s *scene) name() string      { return s.names[s.r.IntN(len(s.names))] }
func (s *scene) component() string { return components[s.r.IntN(len(components))] }
func (s *scene) fresh() string     { return filepath.Join(s.name(), s.component()) }

// add creates a file of any type at a path, if possible.
func (s *scene) add(path string) {
	if len(path) > 3000 {
		return
	}
	var err error
	switch s.r.IntN(13) {
	case 0, 1, 2, 3, 4:
		err = os.Mkdir(path, 0o755)
	case 5:
		to := s.name()
		if s.r.IntN(2) == 0 {
			to, _ = filepath.Rel(filepath.Dir(path), to)
		}
		err = os.Symlink(to, path)
	case 6:
		err = os.Symlink(strings.Repeat("../", s.r.IntN(4))+s.component(), path)
	case 7:
		err = unix.Mkfifo(path, 0o600)
	case 8:
		err = s.listen(path)
	case 9:
		path = filepath.Join(filepath.Dir(path), "program")
		err = write(path, program, 0o755)
	case 10:
		path = filepath.Join(filepath.Dir(path), "script")
		err = write(path, []byte("#!"+programs+"/program\n"), 0o755)
	default:
		err = write(path, make([]byte, 5000), 0o644)
	}
	if err == nil {
		s.names = append(s.names, path)
	}
}

// write creates a file. An existing one may be a fifo, which would block.
func write(path string, content []byte, mode uint32) error {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, mode)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, content)
	return errors.Join(err, unix.Close(fd))
}

func (s *scene) listen(path string) error {
	kind := []int{unix.SOCK_STREAM, unix.SOCK_DGRAM}[s.r.IntN(2)]
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.undo = append(s.undo, func() { _ = unix.Close(fd) })
	if len(path) > 107 {
		return errors.New("longer than an address")
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return err
	}
	if kind == unix.SOCK_DGRAM {
		return nil
	}
	return unix.Listen(fd, 4)
}

// link creates a hard link for a policy to name.
func (s *scene) link() {
	old, name := s.present(), s.missing()
	if os.Link(old, name) == nil {
		s.special = append(s.special, rule{[]string{old, name}[s.r.IntN(2)], policy.Caps(s.r.IntN(int(policy.AllCaps)))})
	}
}

// deep creates a chain of folders that is too long for the matcher.
func (s *scene) deep() {
	path := s.name()
	for range fspath.MaxDepth + 5 {
		path = filepath.Join(path, "d")
		if os.Mkdir(path, 0o755) != nil {
			return
		}
	}
	s.names = append(s.names, path, filepath.Dir(path), path[:len(path)-20])
}

// nameable reports whether a policy with this name can be passed to toolguardd, which rejects names that aren't UTF-8.
func nameable(path string) bool {
	for at := path; ; at = filepath.Dir(at) {
		if to, err := filepath.EvalSymlinks(at); err == nil {
			return utf8.ValidString(to + path)
		}
	}
}

// mountpoint creates a folder to mount a file system on.
func (s *scene) mountpoint(path string) bool {
	var st unix.Stat_t
	if os.Mkdir(path, 0o755) != nil || unix.Lstat(path, &st) != nil {
		return false
	}
	s.hidden = append(s.hidden, fspath.FileID{Dev: st.Dev, Inode: st.Ino})
	return true
}

// mount mounts a tmpfs, an overlay, or both.
func (s *scene) mount(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"tmpfs", "overlay"} {
		if s.r.IntN(2) == 0 {
			continue
		}
		at := s.fresh()
		if !nameable(at) || !s.mountpoint(at) {
			continue
		}
		options := ""
		if kind == "overlay" {
			layers := t.TempDir()
			for _, dir := range []string{"lower/a/b", "lower/.git/hooks", "upper", "work"} {
				must(t, os.MkdirAll(filepath.Join(layers, dir), 0o755))
			}
			for _, file := range []string{"lower/a/b/ab", "lower/.env", "lower/.git/config"} {
				must(t, os.WriteFile(filepath.Join(layers, file), []byte("x"), 0o644))
			}
			options = fmt.Sprintf("lowerdir=%s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", layers)
			for _, n := range []string{"a", "a/b", "a/b/ab", ".env", ".git", ".git/config", ".git/hooks"} {
				s.names = append(s.names, filepath.Join(at, n))
			}
		}
		if err := unix.Mount(kind, at, kind, 0, options); err != nil {
			t.Fatalf("mount %s at %s: %v", kind, short(at), err)
		}
		s.undo = append(s.undo, func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		s.names = append(s.names, at)
	}
}

// bind mounts a folder of the tree, with everything beneath, on another one.
func (s *scene) bind(t *testing.T) {
	t.Helper()
	from, at := s.name(), s.fresh()
	if !nameable(from) || !nameable(at) || !folder(from) || !s.mountpoint(at) {
		return
	}
	if err := unix.Mount(from, at, "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("mount %s at %s, too: %v", short(from), short(at), err)
	}
	s.undo = append(s.undo, func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	for _, name := range s.names {
		if rest, ok := strings.CutPrefix(name, from+"/"); ok {
			s.names = append(s.names, filepath.Join(at, rest))
		}
	}
	s.names = append(s.names, at)
}
