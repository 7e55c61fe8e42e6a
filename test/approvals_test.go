package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
)

// What differs from one run to another on docs/approvals.md.
var (
	changing = regexp.MustCompile(`\b[0-9a-f]{32}\b|\b[0-9a-f]{16}\b|\b[0-9a-f]{8}\b`)
	times    = regexp.MustCompile(`\b[0-9]+ ?s left\b|\b[0-9]+m[0-9]+s left\b`)
	blanks   = regexp.MustCompile(` {2,}`)
	someUser = regexp.MustCompile(`\buser [0-9]+\b`)
)

// TestApprovalsDocument runs the commands of docs/approvals.md. A command that ends in & runs in another terminal: the next one begins when an
// approval is pending, and the output of both is compared with the page when both have ended.
func TestApprovalsDocument(t *testing.T) {
	uid := ordinaryUser(t)
	home := homeOf(t, uid)
	runShown(t, "docs/approvals.md", uid, home, 9, func(b block) string {
		switch {
		case b.lang == "python":
			return "project/host.py"
		case b.lang == "toml" && strings.Contains(b.text, "[approvals]"):
			return "ask.toml"
		}
		return ""
	})
}

func ordinaryUser(t *testing.T) int {
	t.Helper()
	users := childtest.Users()
	uid := users[len(users)-1]
	if uid == 0 {
		t.Skip("needs an ordinary user")
	}
	return uid
}

// runShown runs the commands of a page that show their output, as an ordinary user, and compares it with the page. file names the file in the
// home that a block is; "" for none. There are at least so many commands.
func runShown(t *testing.T, page string, uid int, home string, least int, file func(block) string) {
	t.Helper()
	bin := toolguard(t)
	must(t, os.Chmod(filepath.Dir(bin), 0o755))
	shown := 0
	for _, b := range blocks(t, page) {
		if name := file(b); name != "" {
			write(t, uid, filepath.Join(home, name), b.text)
		} else if b.lang == "console" {
			s := &shownSession{t: t, home: home, uid: uid, path: filepath.Dir(bin)}
			got, commands := s.run(b.text)
			if want := comparable(b.text); comparable(got) != want {
				t.Errorf("line %d: want\n%s\ngot\n%s", b.line, want, comparable(got))
			}
			shown += commands
		}
	}
	if shown < least {
		t.Errorf("only %d commands", shown)
	}
}

// comparable is a text of the page, or of a run, without what differs.
func comparable(text string) string {
	text = someUser.ReplaceAllString(times.ReplaceAllString(changing.ReplaceAllString(text, "ID"), "TIME"), "user N")
	return strings.TrimSpace(blanks.ReplaceAllString(text, " "))
}

// homeOf makes a home with a project and a note.
func homeOf(t *testing.T, uid int) string {
	t.Helper()
	home := filepath.Join(t.TempDir(), "ann")
	for dir := filepath.Dir(home); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	write(t, uid, filepath.Join(home, "notes/todo.md"), "the list\n")
	write(t, uid, filepath.Join(home, "project/go.mod"), "module x\n")
	return home
}

// write writes a file of a user's, and makes the folders above it.
func write(t *testing.T, uid int, name, text string) {
	t.Helper()
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		defer func() { must(t, os.Chown(dir, uid, uid)) }()
	}
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(text), 0o644))
	must(t, os.Chown(name, uid, uid))
}

// shownSession is what a person types on the page, and sees.
type shownSession struct {
	t          *testing.T
	home, path string
	uid        int
	ids        []string // of pending approvals
	out        childtest.Output
}

func (s *shownSession) command(text string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", text)
	cmd.Dir = filepath.Join(s.home, "project")
	cmd.Env = []string{"HOME=" + s.home, "USER=ann", "PATH=" + s.path + ":/usr/bin:/bin"}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}}
	}
	return cmd
}

// run runs the commands of a block, and returns what a person would see.
func (s *shownSession) run(block string) (seen string, commands int) {
	var waiting *exec.Cmd
	var other childtest.Output // what the other terminal shows
	for part := range strings.SplitSeq(strings.TrimPrefix(block, "$ "), "\n$ ") {
		shown, _, _ := strings.Cut(strings.TrimSuffix(part, "\n"), "\n")
		text, background := strings.CutSuffix(shown, " &")
		_, _ = s.out.Write([]byte("$ " + shown + "\n"))
		if id := changing.FindString(text); id != "" && len(s.ids) > 0 { // the page has another one
			text = strings.ReplaceAll(text, id, s.ids[0][:8])
		}
		cmd := s.command(text)
		cmd.Stdout, cmd.Stderr = &s.out, &s.out
		commands++
		if background {
			cmd.Stdout, cmd.Stderr = &other, &other
			must(s.t, cmd.Start())
			waiting = cmd
			s.await()
			continue
		}
		_ = cmd.Run()
		if waiting != nil && strings.Contains(text, "approvals ") && !strings.Contains(text, " list") {
			_ = waiting.Wait()
			_, _ = s.out.Write([]byte(other.String()))
			waiting = nil
		}
	}
	if waiting != nil {
		_ = waiting.Process.Kill()
	}
	return strings.ReplaceAll(s.out.String(), s.home, "/home/ann"), commands
}

// await waits until an approval is pending.
func (s *shownSession) await() {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		out, err := s.command("toolguard approvals list --json").Output()
		if err != nil {
			continue
		}
		if s.ids = regexp.MustCompile(`\b[0-9a-f]{32}\b`).FindAllString(string(out), -1); len(s.ids) > 0 {
			return
		}
	}
	s.t.Fatalf("no approval is pending; so far:\n%s", s.out.String())
}
