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

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// Few names, so that rules meet, which are each other's beginnings and ends, and two as long as names can be.
var components = []string{
	"a", "b", "ab", "aba", "b.a", ".env", "x.env", ".git", "hooks", "eight_by", "sixteen_letters.", "ünï", "日本", "\xff\xfe",
	strings.Repeat("n", 255), strings.Repeat("n", 254) + "m",
}

// programs is a folder with a program and scripts for it, beside the trees. Hard links and copies of them are in the trees under
// the same names, which is how the expectation knows what executes them.
var programs string

var interpreters = map[string]string{"script": "program"}

// program is an ELF file that ends at once: 64 bytes of header, 56 of the only segment, then exit(0).
var program = []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x3e\x00\x01\x00\x00\x00\x78\x00\x40\x00\x00\x00\x00\x00" +
	"\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40\x00\x38\x00\x01\x00\x00\x00\x00\x00\x00\x00" +
	"\x01\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x00\x00" +
	"\x84\x00\x00\x00\x00\x00\x00\x00\x84\x00\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00" +
	"\xb8\x3c\x00\x00\x00\x31\xff\x0f\x05\x00\x00\x00")

// scene is a tree and the names in it.
type scene struct {
	r     *rand.Rand
	root  string
	names []string // what is there, or was
	undo  []func()
}

// grow makes a tree: on a disk, in memory, with other file systems mounted in it.
func grow(t *testing.T, r *rand.Rand, on string) *scene {
	t.Helper()
	root, err := os.MkdirTemp(on, "tree-")
	if err != nil {
		t.Fatal(err)
	}
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

// add makes something of any kind at a path, if it can be made there.
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
		err = os.WriteFile(path, program, 0o755)
	case 10:
		path = filepath.Join(filepath.Dir(path), "script")
		err = os.WriteFile(path, []byte("#!"+programs+"/program\n"), 0o755)
	default:
		err = os.WriteFile(path, make([]byte, 5000), 0o644)
	}
	if err == nil {
		s.names = append(s.names, path)
	}
}

func (s *scene) listen(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
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
	return unix.Listen(fd, 4)
}

// deep makes a chain of folders that the matcher can't follow to its end.
func (s *scene) deep() {
	path := s.name()
	for range policy.MaxDepth + 5 {
		path = filepath.Join(path, "d")
		if os.Mkdir(path, 0o755) != nil {
			return
		}
	}
	s.names = append(s.names, path, filepath.Dir(path), path[:len(path)-20])
}

// mount mounts a tmpfs, an overlay, or both.
func (s *scene) mount(t *testing.T) {
	t.Helper()
	for _, kind := range []string{"tmpfs", "overlay"} {
		if s.r.IntN(2) == 0 {
			continue
		}
		at := s.fresh()
		if os.Mkdir(at, 0o755) != nil {
			continue
		}
		options := ""
		if kind == "overlay" {
			layers := t.TempDir()
			for _, dir := range []string{"lower/a/b", "lower/.git/hooks", "upper", "work"} {
				if err := os.MkdirAll(filepath.Join(layers, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for _, file := range []string{"lower/a/b/ab", "lower/.env", "lower/.git/config"} {
				if err := os.WriteFile(filepath.Join(layers, file), []byte("x"), 0o644); err != nil {
					t.Fatal(err)
				}
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

// bind gives a folder of the tree, with what is beneath it, another name.
func (s *scene) bind(t *testing.T) {
	t.Helper()
	from, at := s.name(), s.fresh()
	if !folder(from) || os.Mkdir(at, 0o755) != nil {
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

// operations of the table, with the flags that they may have and how paths may be handed to them.
var operations = []struct {
	do    string
	flags []int
	by    []string
}{
	{"open", []int{
		unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, 3, unix.O_RDONLY | unix.O_TRUNC, unix.O_RDWR | unix.O_TRUNC, unix.O_RDONLY | unix.O_NOFOLLOW,
		unix.O_DIRECTORY, unix.O_PATH, unix.O_CREAT, unix.O_CREAT | unix.O_WRONLY, unix.O_CREAT | unix.O_RDWR, unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC,
		unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY, unix.O_TMPFILE | unix.O_WRONLY, unix.O_TMPFILE | unix.O_RDWR, unix.O_APPEND | unix.O_WRONLY,
	}, []string{"", "at", "chdir", "proc", "old"}},
	{"open2", []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_CREAT | unix.O_RDWR}, []string{"", "at"}},
	{"truncate", nil, []string{"", "proc"}},
	{"mkdir", nil, []string{"", "at", "chdir", "proc", "old"}},
	{"symlink", nil, []string{"", "at", "chdir", "proc", "old"}},
	{"mknod", []int{unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR}, []string{"", "at", "old"}},
	{"bind", nil, []string{"", "at", "proc"}},
	{"unlink", nil, []string{"", "at", "chdir", "proc", "old"}},
	{"rmdir", nil, []string{"", "at", "chdir", "proc", "old"}},
	{"rename", []int{0, 0, 0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE, unix.RENAME_WHITEOUT}, []string{"", "at", "proc", "old"}},
	{"rename", []int{0, 0, 0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE}, []string{"", "at", "proc", "old"}},
	{"rename", []int{0, unix.RENAME_EXCHANGE}, []string{""}},
	{"link", []int{0, unix.AT_SYMLINK_FOLLOW}, []string{"", "at", "proc", "old"}},
	{"link_fd", nil, []string{""}},
	{"chmod", nil, []string{"", "at", "old"}},
	{"fchmod", nil, []string{""}},
	{"chown", []int{0, unix.AT_SYMLINK_NOFOLLOW}, []string{"", "at", "old"}},
	{"utimes", []int{0, unix.AT_SYMLINK_NOFOLLOW}, []string{"", "at", "old"}},
	{"futimes", nil, []string{""}},
	{"setxattr", nil, []string{"", "proc"}},
	{"lsetxattr", nil, []string{""}},
	{"removexattr", nil, []string{""}},
	{"setacl", nil, []string{""}},
	{"setflags", nil, []string{""}},
	{"connect", nil, []string{"", "at"}},
	{"execve", nil, []string{"", "proc"}},
	{"map", nil, []string{"", "at"}},
}

// next is another operation. Now and then somebody else makes something new.
func (s *scene) next() operation {
	if s.r.IntN(4) == 0 {
		s.add(s.fresh())
	}
	kind := operations[s.r.IntN(len(operations))]
	o := operation{Do: kind.do, By: kind.by[s.r.IntN(len(kind.by))]}
	if len(kind.flags) > 0 {
		o.Flags = kind.flags[s.r.IntN(len(kind.flags))]
	}
	switch o.Do {
	case "mkdir", "symlink", "mknod", "bind":
		o.Path = s.perhaps(s.missing)
	case "open", "open2":
		o.Path = s.perhaps(s.present)
		if o.Flags&unix.O_CREAT != 0 {
			o.Path = s.perhaps(s.missing)
		}
	case "rename":
		o.Path, o.Path2 = s.perhaps(s.present), s.perhaps(s.missing)
		if o.Flags == unix.RENAME_EXCHANGE {
			o.Path2 = s.perhaps(s.present)
		}
	case "link", "link_fd":
		o.Path, o.Path2 = s.perhaps(s.present), s.perhaps(s.missing)
	default:
		o.Path = s.perhaps(s.present)
	}
	return o
}

// perhaps is what one of the two finds, that one in most cases.
func (s *scene) perhaps(find func() string) string {
	if s.r.IntN(8) > 0 {
		return find()
	}
	return s.fresh()
}

// present is something that is there, but not the whole tree.
func (s *scene) present() string {
	for range 50 {
		if path := s.name(); path != s.root && there(path) {
			return path
		}
	}
	return s.fresh()
}

// missing is a name that isn't there, in a folder that is. It's known from then on.
func (s *scene) missing() string {
	for range 50 {
		if path := s.fresh(); len(path) < 3000 && folder(filepath.Dir(path)) && !there(path) {
			s.names = append(s.names, path)
			return path
		}
	}
	return s.fresh()
}
