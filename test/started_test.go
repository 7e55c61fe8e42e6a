package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestGettingStarted runs the commands of docs/getting-started.md and README.md, as an ordinary user with a new home, and compares
// their output with the pages. test/bpf has the commands of README.md that need toolguardd.
func TestGettingStarted(t *testing.T) {
	for page, commands := range map[string]int{"docs/getting-started.md": 9, "README.md": 5} {
		t.Run(page, func(t *testing.T) { doShown(t, page, commands) })
	}
}

func doShown(t *testing.T, page string, commands int) {
	t.Helper()
	bin := toolguard(t)
	uid := ordinaryUser(t)
	home := filepath.Join(t.TempDir(), "ann")
	for name, text := range map[string]string{".ssh/id_ed25519": "a key\n", "notes/todo.md": "the list\n", "project/go.mod": "module x\n"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o644))
	}
	must(t, filepath.Walk(home, func(path string, _ os.FileInfo, err error) error {
		if err == nil {
			err = os.Chown(path, uid, uid)
		}
		return err
	}))
	for dir := filepath.Dir(home); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	must(t, os.Chmod(filepath.Dir(bin), 0o755))
	shown := 0
	for _, b := range blocks(t, page) {
		if b.lang != "console" || !strings.HasPrefix(b.text, "$ ") || strings.Contains(b.text, "agent.py") {
			continue
		}
		for part := range strings.SplitSeq(strings.TrimPrefix(b.text, "$ "), "\n$ ") {
			command, want, _ := strings.Cut(strings.TrimSuffix(part, "\n"), "\n")
			cmd := exec.Command("sh", "-c", command)
			cmd.Dir = filepath.Join(home, "project")
			cmd.Env = []string{"HOME=" + home, "USER=ann", "PATH=" + filepath.Dir(bin) + ":/usr/bin:/bin"}
			if os.Getuid() == 0 {
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
			}
			out, _ := cmd.CombinedOutput()
			got := strings.TrimSuffix(strings.ReplaceAll(string(out), home, "/home/ann"), "\n")
			if got != want {
				t.Errorf("line %d: %s\nwant\n%s\ngot\n%s", b.line, command, want, got)
			}
			shown++
		}
	}
	if shown < commands {
		t.Errorf("only %d commands", shown)
	}
}
