//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that keeps the lock on the shared audit state prevents reporting of denials, not the start. The lock is in a mount namespace
// of its own, so that no other process waits for it.
func TestLockedAuditState(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: other users share no lock")
	}
	needs(t, "flock", "mount")
	p := newFixture(t, users()[0])
	secret := p.secret(t)
	confined := p.confined(append([]string{"--backend", "landlock", "--events", filepath.Join(p.home, "events.jsonl")}, policy...), "sh", "-c", "echo started; cat "+secret)
	const notice = "denials are enforced but can't be shown: the kernel's audit records can't be read: another process has had a lock in /run/toolguard/audit for 5s"
	locked := p.command(append([]string{"sh", "-c", `set -e; mkdir -p /run/toolguard
		mount -t tmpfs -o mode=755 none /run/toolguard; mkdir -m 700 /run/toolguard/audit
		exec flock /run/toolguard/audit/lock "$@"`, "sh"}, confined.Args...)...)
	locked.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	if out := run(t, locked); out.stdout != "started\n" || out.code != 1 || !strings.Contains(out.stderr, notice) {
		t.Errorf("locked: %+v", out)
	}
	if out := run(t, confined); out.stdout != "started\n" || out.code != 1 || strings.Contains(out.stderr, notice) {
		t.Errorf("control: %+v", out)
	}
}

// If the kernel's records don't arrive, that's reported before the command runs if it's known then, else during the run, and at the end
// of one that doesn't run that long.
func TestMissingRecords(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: other users get no records anywhere")
	}
	needs(t, "unshare", "mount")
	p := newFixture(t, users()[0])
	const notice = "denials are enforced but can't be shown: the kernel's audit records can't be read: "
	flags := append([]string{"--backend", "landlock", "--report", "always", "--events", filepath.Join(p.home, "events.jsonl")}, policy...)
	for _, x := range []struct{ why, before, script string }{
		{"they're sent only in the first network namespace", "", "grep -q 'first network' said && exit 3"},
		{"records don't arrive", "mount -t tmpfs none /proc/2", "exit 3"}, // where the kernel's own threads can't be seen
		{"records don't arrive", "mount -t tmpfs none /proc/2", "until grep -q \"don't arrive\" said; do sleep 0.1; done; exit 3"},
	} {
		confined := p.confined(flags, "sh", "-c", x.script)
		out := run(t, p.command(append([]string{"unshare", "--net", "--mount", "sh", "-c", x.before + "\nexec \"$@\" 2>said", "sh"}, confined.Args...)...))
		said, err := os.ReadFile(filepath.Join(p.workspace, "said"))
		if err != nil || out.code != 3 || strings.Count(string(said), notice+x.why) != 1 {
			t.Errorf("%s: %+v, %v; the output is %s", x.script, out, err, said)
		}
		if !strings.Contains(string(said), "toolguard doctor") {
			t.Errorf("%s: the final report doesn't have it: %s", x.script, said)
		}
	}
}

// A fifo without a reader or writer doesn't block toolguard, whichever file it replaces.
func TestFifos(t *testing.T) {
	fifo := func(p fixture, name string) string {
		file := filepath.Join(p.workspace, name)
		must(t, unix.Mkfifo(file, 0o777))
		p.own(t)
		return file
	}
	rows := []struct {
		name    string
		command func(p fixture) []string // the flags and the command
		stderr  string
	}{
		{"events", func(p fixture) []string {
			return []string{"--policy", "preset:git", "--events", fifo(p, "events"), "--", "true"}
		}, "it isn't a regular file"},
		{"interpreter", func(p fixture) []string {
			p.write(t, "tool", "#!"+fifo(p, "interpreter")+"\n")
			p.write(t, "../policy.toml", "version = 1\nextends = [\"preset:git\"]\n[access]\ndefault = { fs = \"deny\" }\n"+
				"[access.commands.\""+filepath.Join(p.workspace, "tool")+"\"]\n")
			return []string{"--backend", "landlock", "--policy", "../policy.toml", "--", "./tool"} // bpf opens none
		}, "interpreter isn't a regular file"},
		{"policy", func(p fixture) []string {
			return []string{"--policy", fifo(p, "policy.toml"), "--", "true"}
		}, "not a regular file"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			p := newFixture(t, users()[0])
			out := run(t, p.command(append([]string{binary, "exec", "--quiet"}, r.command(p)...)...))
			if out.code != 125 || !strings.Contains(out.stderr, r.stderr) {
				t.Errorf("%+v", out)
			}
		})
	}
}
