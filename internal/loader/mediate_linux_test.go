package loader

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// makeTryFiles creates the files that the tries use.
func makeTryFiles(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	for _, d := range []string{
		"all/rmdir", "all/dir1", "all/dir2", "all/dir3", "all/dir7", "all/in/lit", "all/over-in/x/lit", "all/in3/lit", "all/sub/.git/hooks", "all/sub2",
		"all/sub3/.git/hooks", "all/mnt", "all/setgid-dir", "ro/rmdir", "none", "make", "change", "less", "del/dir6", "del2", "swap", "two/sub", "two/dir4",
		"other/dir5", "base/two", "mounted", "mounted2", "bound",
	} {
		must(os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	files := []string{
		"all/unlink", "all/file", "ro/unlink", "ro/file", "change/unlink", "del/unlink", "all/mv1", "all/mv2", "ro/mv3", "all/mv4", "change/over", "all/mv5",
		"make/over", "all/mv6", "del/mv7", "all/mv8", "two/mv9", "del2/self", "all/ex1", "all/ex2", "all/ex3", "ro/ex3", "all/ex4", "swap/ex4", "swap/ex5",
		"all/ex5", "all/ex6", "all/setgid", "all/whiteout-mv", "all/nr", "all/ln1", "all/ln2", "none/ln3", "ro/ln4", "all/ln5", "ro/ln6", "none/file", "change/file",
	}
	for _, m := range metadata {
		for _, d := range []string{"change", "ro"} {
			files = append(files, d+"/meta-"+strings.ReplaceAll(m.name, " ", "-"))
		}
	}
	for _, f := range files {
		must(os.WriteFile(filepath.Join(dir, f), []byte("content"), 0o644))
		if strings.Contains(f, "removexattr") {
			must(unix.Setxattr(filepath.Join(dir, f), "trusted.old", []byte("1"), 0))
		}
		if strings.Contains(f, "remove-an-ACL") {
			must(unix.Setxattr(filepath.Join(dir, f), "system.posix_acl_access", acl, 0))
		}
	}
	must(unix.Chmod(filepath.Join(dir, "all/setgid"), 0o2705))
	must(unix.Chmod(filepath.Join(dir, "all/setgid-dir"), 0o2755))
	must(os.Symlink("../ro", filepath.Join(dir, "all/to-ro")))
	must(os.Symlink("../ro", filepath.Join(dir, "none/to-ro")))
	must(os.Symlink("file", filepath.Join(dir, "ro/to-file")))
	must(os.Symlink("../ro/stream", filepath.Join(dir, "change/to-stream")))
	must(unix.Mount(filepath.Join(dir, "change"), filepath.Join(dir, "bound"), "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(filepath.Join(dir, "bound"), unix.MNT_DETACH) })
	for _, m := range []string{"mounted", "mounted2"} {
		at := filepath.Join(dir, m)
		must(unix.Mount("none", at, "tmpfs", 0, ""))
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
}

func listenUnix(typ int, name string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
		return -1, fmt.Errorf("bind %s: %w", name, err)
	}
	if typ != unix.SOCK_DGRAM {
		err = unix.Listen(fd, 100)
	}
	return fd, err
}

// beTraced asks to be traced by its parent.
func beTraced([]string) (any, error) {
	_, _, e := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0, 0, 0, 0)
	unix.Exit(int(e))
	return nil, nil
}

// bindElsewhere binds sockets in a mount namespace of its own.
func bindElsewhere(args []string) (any, error) {
	dir := args[0]
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return nil, err
	}
	for _, d := range []string{"change", "ro"} {
		if _, err := listenUnix(unix.SOCK_STREAM, filepath.Join(dir, d, "elsewhere")); err != nil {
			return nil, err
		}
		if _, err := listenUnix(unix.SOCK_DGRAM, filepath.Join(dir, d, "elsewhere-dgram")); err != nil {
			return nil, err
		}
	}
	fmt.Println("bound")
	time.Sleep(time.Hour)
	return nil, nil
}

// surround makes the processes and files outside the session, and returns the child's end of the socket for descriptors.
func surround(t *testing.T, p *tryState) *os.File {
	t.Helper()
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	cmd, err := groupSleeper()
	must(err)
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	p.Outside = cmd.Process.Pid
	p.Abstract = fmt.Sprintf("toolguard-%d-%s", os.Getpid(), strings.ReplaceAll(p.Dir, "/", "-"))
	names := map[string]int{
		"@" + p.Abstract: unix.SOCK_STREAM, "@" + p.Abstract + "dgram": unix.SOCK_DGRAM,
		rel(p, "change/stream"): unix.SOCK_STREAM, rel(p, "ro/stream"): unix.SOCK_STREAM,
		rel(p, "change/dgram"): unix.SOCK_DGRAM, rel(p, "ro/dgram"): unix.SOCK_DGRAM, rel(p, "ro/packet"): unix.SOCK_SEQPACKET,
	}
	for name, typ := range names {
		fd, err := listenUnix(typ, name)
		must(err)
		t.Cleanup(func() { unix.Close(fd) })
	}
	elsewhere := childtest.Command(t, 0, []string{"bind in a namespace", p.Dir})
	out, err := elsewhere.StdoutPipe()
	must(err)
	must(elsewhere.Start())
	t.Cleanup(func() { _ = elsewhere.Process.Kill(); _ = elsewhere.Wait() })
	_, err = out.Read(make([]byte, 10))
	must(err)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(err)
	go serve(t, fds[0], p.Dir)
	t.Cleanup(func() { _ = unix.Shutdown(fds[0], unix.SHUT_RDWR) })
	return os.NewFile(uintptr(fds[1]), "fds")
}

func groupSleeper() (*exec.Cmd, error) {
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, cmd.Start()
}

func serve(t *testing.T, sock int, dir string) {
	peek := make([]byte, 100)
	for {
		n, _, err := unix.Recvfrom(sock, peek, unix.MSG_PEEK)
		if err != nil || n == 0 {
			return
		}
		if string(peek[:n]) != "victim" {
			giveOne(sock, dir)
			continue
		}
		_, _ = unix.Read(sock, peek)
		cmd, err := groupSleeper()
		if err != nil {
			panic(err)
		}
		go func() { _ = cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		_, _ = unix.Write(sock, []byte(strconv.Itoa(cmd.Process.Pid)))
	}
}

// Every operation that must be denied is denied with an event, and every granted one succeeds;
// outside of it all of it is done. testdata/denials has the events.
func TestMediates(t *testing.T) {
	k := kernel(t)
	_ = os.WriteFile("/proc/sys/dev/tty/legacy_tiocsti", []byte("1"), 0) // or the kernel denies TIOCSTI to every process
	for _, base := range []string{"/tmp", "/var/tmp", "/mnt/tmpfs", "/mnt/btrfs"} {
		if _, err := os.Stat(base); err != nil {
			continue
		}
		_ = exec.Command("mount", base).Run() // by fstab, where it isn't
		t.Run(base, func(t *testing.T) {
			dir, err := os.MkdirTemp(base, "mediates")
			must(t, err)
			t.Cleanup(func() { _ = exec.Command("sh", "-c", "umount -l "+dir+"/*/all/mnt; rm -rf "+dir).Run() })
			p, run := tryAt(t, dir+"/outside")
			compareAnswers(t, p, run(), func(a try) error { return a.free })
			p, run = tryAt(t, dir+"/inside")
			compareAnswers(t, p, confine(t, k, p, run), func(a try) error { return a.want })
		})
	}
}

// tryAt creates the files and performs all tries.
func tryAt(t *testing.T, dir string) (p *tryState, run func() map[string]string) {
	p = &tryState{Dir: dir, Toolguard: os.Getpid()}
	makeTryFiles(t, dir)
	fds := surround(t, p)
	return p, func() (answers map[string]string) {
		p.Thread = unix.Gettid()
		text, _ := json.Marshal(p)
		cmd := childtest.Command(t, 0, []string{"try", string(text)})
		cmd.ExtraFiles = []*os.File{fds}
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, &answers)
		}
		if err != nil {
			t.Errorf("child wrote %q: %v", out, err)
		}
		return answers
	}
}

// confine runs everything in a session, and checks its events.
func confine(t *testing.T, k *Kernel, p *tryState, run func() map[string]string) (answers map[string]string) {
	self, _ := os.Readlink("/proc/self/exe")
	dir := p.Dir
	s, c := begin(t, k, self+" read+execute", "/usr read+execute", "/bin read+execute", "/lib read+execute", "/lib64 read+execute",
		"/etc read", "/proc read+update", "/dev read+update", "/sys/kernel/mm read",
		dir+"/all read+create+update+delete+execute", dir+"/ro read+execute", dir+"/make read+create", dir+"/change read+update",
		dir+"/less read+create+delete", dir+"/del read+delete", dir+"/del2 read+create+delete+update", dir+"/swap read+delete+update",
		dir+"/all/in/lit read", dir+"/all/over-in/x/lit read", dir+"/all/in3/lit read", dir+"/all/absent-rule/x read",
		dir+"/all/**/.git/hooks read", dir+"/two read+create+update+delete", dir+"/two/**/*.key none",
		dir+"/other read+create+update+delete", dir+"/base read+create+update+delete", dir+"/base/two/**/*.key none",
	)
	var h *collected
	confined(t, s, func() {
		h = listen(s)
		answers = run()
	})
	if _, err := s.End(); err != nil {
		t.Error(err)
	}
	compareEvents(t, p, h, h.lines(c))
	return answers
}

var numbers = regexp.MustCompile(`#[0-9]+|/pts/[0-9]+`)

// compareEvents compares a session's events with those that are wanted.
func compareEvents(t *testing.T, p *tryState, h *collected, lines []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/denials")
	must(t, err)
	missing := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "# ") && !p.differs(line) {
			missing[strings.TrimSpace(line)]++
		}
	}
	for i, line := range lines {
		_, line, _ = strings.Cut(strings.ReplaceAll(line, p.Dir, "DIR"), " ")
		line = numbers.ReplaceAllStringFunc(line, func(n string) string { return strings.TrimRight(n, "0123456789") + "N" })
		if d := h.events[i].Detail; d != 0 && h.events[i].Op != OpCreate {
			line += fmt.Sprintf(" (%d)", d)
		}
		if missing[line]--; missing[line] < 0 && !p.differs(line) {
			t.Errorf("an event that isn't wanted: %s", line)
		}
	}
	for line, n := range missing {
		if n > 0 {
			t.Errorf("%d events are missing: %s", n, line)
		}
	}
}

// differs reports whether the operation or its event depends on the kernel: the overlay beneath /var/tmp makes no whiteouts, on some
// kernels no unnamed files, and on others maps its layer's file.
func (p *tryState) differs(what string) bool {
	return strings.HasPrefix(p.Dir, "/var/tmp/") &&
		(strings.Contains(what, "whiteout") || strings.Contains(what, "unnamed") || strings.Contains(what, "#N") ||
			strings.Contains(what, "map rule"))
}

// judge compares all results with the expected ones.
func compareAnswers(t *testing.T, p *tryState, answers map[string]string, wanted func(try) error) {
	t.Helper()
	for _, a := range allTries() {
		if p.differs(a.name) {
			continue
		}
		if got, w := answers[a.name], want(wanted(a)); got != w {
			t.Errorf("%s: %s: %s, want %s", filepath.Base(p.Dir), a.name, got, w)
		}
	}
}
