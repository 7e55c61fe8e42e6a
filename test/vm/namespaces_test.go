//go:build linux

package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// dev is the guest's ordinary user.
const dev = 1000

// exception is a policy that landlock can't enforce.
const exception = `version = 1
[[access.fs]]
path = "."
read = true
write = true
execute = true
[[access.fs]]
path = "secret"
`

// TestUserNamespacesOff checks that an ordinary user without toolguardd gets bubblewrap for a policy that landlock can't enforce, and where the machine
// restricts user namespaces firejail, with the way to change that.
func TestUserNamespacesOff(t *testing.T) {
	g := inGuest(t)
	const clone = "/proc/sys/kernel/unprivileged_userns_clone" // Debian's
	home, err := os.MkdirTemp("/home/dev", "namespaces-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(home) })
	workspace := filepath.Join(home, "workspace")
	must(t, os.MkdirAll(filepath.Join(workspace, "secret"), 0o755))
	for name, text := range map[string]string{"workspace/secret/key": "SECRET\n", "workspace/open": "open\n", "policy.toml": exception} {
		must(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o644))
	}
	must(t, filepath.WalkDir(home, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(p, dev, dev)
	}))
	run := func(args ...string) string {
		cmd := exec.Command(g.toolguard, append([]string{"exec", "--daemon", "none", "--policy", "../policy.toml"}, args...)...)
		cmd.Dir, cmd.Env = workspace, []string{"HOME=/home/dev", "PATH=/usr/bin:/bin"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: dev, Gid: dev}}
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	for _, x := range []struct{ value, backend, why string }{
		{"1", "bwrap", "landlock can't enforce fs.2"},
		{"0", "firejail", "sysctl -w kernel.unprivileged_userns_clone=1"},
	} {
		must(t, os.WriteFile(clone, []byte(x.value), 0))
		t.Cleanup(func() { _ = os.WriteFile(clone, []byte("1"), 0) })
		report := strings.Join(strings.Fields(run("--dry-run")), " ")
		if !strings.Contains(report, "backend "+x.backend) || !strings.Contains(report, x.why) {
			t.Errorf("%s: the report lacks backend %s, or %q:\n%s", x.value, x.backend, x.why, report)
		}
		out := run("--quiet", "--", "sh", "-c", "cat open; cat secret/key; echo x > secret/new; mv secret moved; echo ended")
		if !strings.HasPrefix(out, "open\n") || !strings.Contains(out, "ended\n") || strings.Contains(out, "SECRET") {
			t.Errorf("%s: %s", x.value, out)
		}
		if entries, err := os.ReadDir(filepath.Join(workspace, "secret")); err != nil || len(entries) != 1 {
			t.Errorf("%s: the folder has changed: %v, %v", x.value, entries, err)
		}
	}
}
