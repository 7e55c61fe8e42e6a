//go:build linux

package bpf

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestStory runs README.md's example session with toolguardd, and compares the output.
func TestStory(t *testing.T) {
	toolguard := guest(t)
	const home, docker = "/home/ann", "/run/docker.sock" // they're in the output
	project := filepath.Join(home, "project")
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	must := func(errs ...error) {
		t.Helper()
		must(t, errors.Join(errs...))
	}
	must(os.MkdirAll(home+"/.ssh", 0o755), os.MkdirAll(project+"/.git/hooks", 0o755), os.WriteFile(home+"/.ssh/id_ed25519", []byte("a key"), 0o600))
	for from, to := range map[string]string{"agent.toml": home + "/agent.toml", "agent/agent.py": project + "/agent.py"} {
		text, err := os.ReadFile("../../examples/" + from)
		must(err, os.WriteFile(to, text, 0o644))
	}
	listener, err := net.Listen("unix", docker)
	must(err)
	defer listener.Close()

	page, err := os.ReadFile("../../README.md")
	must(err)
	_, shown, _ := strings.Cut(string(page), "```console\n$ toolguard exec --policy ")
	shown = "toolguard exec --policy " + shown
	shown, _, _ = strings.Cut(shown, "```")
	line, want, _ := strings.Cut(shown, "\n")
	words := strings.Fields(line)
	in := func(command ...string) string {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = project
		cmd.Env = []string{"PATH=/usr/bin", "HOME=" + home, "PYTHONDONTWRITEBYTECODE=1"}
		out, err := cmd.CombinedOutput()
		must(err)
		return string(out)
	}
	if got := in(append([]string{toolguard}, words[1:]...)...); words[0] != "toolguard" || got != want {
		t.Errorf("%s prints\n%s\nand README.md shows\n%s", line, got, want)
	}
	if _, err := os.Stat(project + "/.git/hooks/pre-commit"); !os.IsNotExist(err) {
		t.Errorf("the hook is there: %v", err)
	}
	if got := in(toolguard, "policy", "lint", "--here", "../agent.toml"); strings.Contains(got, "not-enforced") || !strings.Contains(got, "here, with bpf: a command would start\n") {
		t.Errorf("lint --here prints\n%s", got)
	}
	control := in("python3", "agent.py")
	for _, step := range []string{"task: done", "steal_key: done", "plant_hook: done", "use_docker: done"} { // there is no network
		if !strings.Contains(control, step) {
			t.Errorf("without toolguard it isn't %q:\n%s", step, control)
		}
	}
}
