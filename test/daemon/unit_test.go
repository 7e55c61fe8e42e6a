//go:build linux

package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/daemontest"
)

const units = "/etc/systemd/system/"

// unit is the packaged service, which systemd starts at the first connection to its socket.
type unit struct{ *testing.T }

// newUnit installs the units and starts the socket.
func newUnit(t *testing.T) *unit {
	t.Helper()
	daemontest.Needs(t)
	endShared()
	u := &unit{t}
	remove, err := daemontest.Install(built, "../../packaging/systemd")
	t.Cleanup(func() {
		u.sh("systemctl stop toolguardd.socket toolguardd.service")
		u.Logf("its journal:\n%s", u.sh("journalctl -q -o cat -u toolguardd.service -u toolguardd.socket"))
		remove()
	})
	must(t, err)
	return u
}

// sh runs a command as root.
func (u *unit) sh(command string) string {
	u.Helper()
	out, err := exec.Command("bash", "-c", command).CombinedOutput()
	if err != nil {
		u.Fatalf("%s: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

// is returns a property of the service, as systemctl shows it.
func (u *unit) is(property string) string {
	u.Helper()
	return u.sh("systemctl show --value -p " + property + " toolguardd.service")
}

func (u *unit) pid() int {
	u.Helper()
	pid, err := strconv.Atoi(u.is("MainPID"))
	must(u.T, err)
	return pid
}

// job is a command of a user who is in the group toolguard.
func (u *unit) job(uid uint32, policy, script string, flags ...string) *job {
	u.Helper()
	j := newJob(u.T, uid, policy, script, flags...)
	j.SysProcAttr.Credential.Groups = daemontest.Group()
	return j
}

// The packaged units, with systemd: the first user's command starts toolguardd, and sessions stay enforced whatever systemd does to it.
func TestUnit(t *testing.T) {
	u := newUnit(t)
	if out := u.sh("systemd-analyze verify --man=no " + units + "toolguardd.service " + units + "toolguardd.socket"); out != "" {
		t.Errorf("systemd reports about the units: %s", out)
	}
	if got := u.is("ActiveState"); got != "inactive" {
		t.Fatalf("before the first connection it's %s", got)
	}
	if j := newJob(t, other, work, "true"); j.start().status() != 125 || !strings.Contains(j.out.String(), "members of the group toolguard") {
		t.Errorf("a user outside the group gets a session, or no reason")
	}
	j := u.job(nobodyUID, work, `read x <OUTSIDE && exit 5; exit 7`)
	if got := j.start().status(); got != 7 || j.count("denial", j.outside) != 1 {
		t.Fatalf("exit status %d, want 7; the events: %+v", got, j.reported())
	}
	// Type=notify: it has notified systemd that it's ready.
	if got := u.is("Type") + " " + u.is("ActiveState") + " " + u.is("WatchdogUSec"); got != "notify active 30s" {
		t.Errorf("it's %q", got)
	}
	u.checkSandbox()
	u.exposed()
	u.reportsLandlock()

	t.Run("the network", func(t *testing.T) { (&unit{t}).network() })

	confined := u.job(nobodyUID, work, keepLooking, "--limits", "pids=50").start()
	confined.wrote("can", "no")
	for _, x := range []struct{ name, do string }{
		{"it's killed", fmt.Sprintf("kill -KILL %d", u.pid())},
		{"it's stopped, and started by the next connection", "systemctl stop toolguardd.socket toolguardd; systemctl start toolguardd.socket"},
		{"all units are loaded again, it's restarted, and it hangs", "mkdir -p " + units + "toolguardd.service.d && printf '[Service]\\nWatchdogSec=10s\\n' >" + units +
			"toolguardd.service.d/test.conf && systemctl daemon-reload && systemctl restart toolguardd && sleep 1 && " +
			"kill -STOP $(systemctl show --value -p MainPID toolguardd)"},
	} {
		t.Run(x.name, func(t *testing.T) { (&unit{t}).disturb(confined, x.do) })
	}
	t.Run("the host's policies are about homes", func(t *testing.T) { (&unit{t}).home() })
	must(t, confined.Process.Signal(syscall.SIGTERM))
	confined.status()
	eventually(t, "all sessions have ended", func() bool { return len(sessions(t, 0)) == 0 })
}

// disturb runs a command that affects toolguardd. The session must stay enforced during and after it.
func (u *unit) disturb(confined *job, do string) {
	u.Helper()
	count, before := confined.count("denial", confined.outside), sessions(u.T, 0)
	u.sh(do)
	for range 5 { // the policy stays enforced
		must(u.T, os.WriteFile(confined.workspace+"/can", []byte("?"), 0o666))
		confined.wrote("can", "no")
	}
	eventually(u.T, "its denials are reported", func() bool { return confined.count("denial", confined.outside) > count })
	eventually(u.T, "it answers", func() bool { // a request during the kill fails
		_, code := ask(u.T, 0, "sessions", "list")
		return code == 0
	})
	after := sessions(u.T, 0)
	if len(before) != 1 || len(after) != 1 || after[0].ID != before[0].ID || after[0].State != "running" {
		u.Errorf("before %+v, after %+v", before, after)
	}
	if limit, err := os.ReadFile(after[0].Cgroup + "/pids.max"); err != nil || string(limit) != "50\n" {
		u.Errorf("its limit of processes is %q, %v", limit, err)
	}
	if got := u.job(nobodyUID, more, `read x <OUTSIDE && exit 5`).start().status(); got != 5 {
		u.Errorf("another session: exit status %d, want 5", got)
	}
	eventually(u.T, "systemd considers it active", func() bool { return u.is("ActiveState") == "active" })
}

// network checks that the unit allows toolguardd to enforce network rules.
func (u *unit) network() {
	u.Helper()
	i := newInternet(u.T)
	i.enter()
	defer i.leave()
	j := u.job(other, netPolicy(allowed), fetchBoth+"; exit 5")
	if got := j.start().status(); got != 5 || !strings.Contains(j.out.String(), "hello GET http://allowed.test/") || !strings.Contains(j.out.String(), "Could not resolve") {
		u.Errorf("exit status %d, it prints %s", got, &j.out)
	}
	if j.count("denial", "dns://denied.test") == 0 {
		u.Errorf("no event among %+v", j.reported())
	}
}

// checkSandbox checks that the unit's sandbox is in force.
func (u *unit) checkSandbox() {
	u.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", u.pid()))
	must(u.T, err)
	for _, want := range []string{`NoNewPrivs:\t1`, `Seccomp:\t2`, `CapBnd:\t000000e4602810e4`, `CapEff:\t000000e4602810e4`} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).Match(status) {
			u.Errorf("no %s in\n%s", want, status)
		}
	}
	root := fmt.Sprintf("/proc/%d/root", u.pid())
	for _, dir := range []string{"/usr", "/home/dev", "/tmp"} {
		if err := os.WriteFile(root+dir+"/x", nil, 0o600); !errors.Is(err, syscall.EROFS) {
			u.Errorf("it can write to %s: %v", dir, err)
		}
	}
}

// reportsLandlock checks that toolguardd, in its own network namespace, reads the kernel's audit records of a session under Landlock, or that the
// reason is shown why it can't.
func (u *unit) reportsLandlock() {
	u.Helper()
	j := u.job(nobodyUID, work, `read x <OUTSIDE && exit 5; exit 7`, "--backend", "landlock", "--daemon", "auto", "--report", "auto")
	got := j.start().status()
	abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case got != 7:
		u.Errorf("exit status %d, want 7", got)
	case abi >= 7 && (j.count("denial", j.outside) != 1 || strings.Contains(j.out.String(), "can't be seen")):
		u.Errorf("no denial among %+v", j.reported())
	case abi < 7 && !strings.Contains(j.out.String(), "this kernel doesn't report what Landlock denies: it takes Linux 6.15"):
		u.Errorf("the kernel has ABI %d, and it prints %s", abi, &j.out)
	}
}

// exposed checks that docs/daemon.md explains exactly the settings that the unit leaves open.
func (u *unit) exposed() {
	u.Helper()
	text, err := os.ReadFile("../../docs/daemon.md")
	must(u.T, err)
	_, rest, _ := strings.Cut(string(text), "### What the unit leaves it")
	table, _, _ := strings.Cut(rest, "\n## ")
	var words []string
	for row := range strings.Lines(table) {
		if cell, is := strings.CutPrefix(row, "| `"); is {
			cell, _, _ = strings.Cut(cell, " |")
			for word := range strings.SplitSeq(cell, ", ") {
				words = append(words, strings.TrimSuffix(strings.Trim(word, "`"), "…)"))
			}
		}
	}
	found := map[string]bool{}
	for line := range strings.Lines(u.sh("systemd-analyze security --no-pager toolguardd.service")) {
		open, is := strings.CutPrefix(line, "✗ ")
		if !is {
			continue
		}
		i := slices.IndexFunc(words, func(w string) bool { return strings.Contains(strings.Fields(open)[0], w) })
		if i < 0 {
			u.Errorf("docs/daemon.md doesn't say why it's left open: %s", open)
			continue
		}
		found[words[i]] = true
	}
	for _, w := range words {
		if !found[w] {
			u.Errorf("docs/daemon.md says why %s is left open, and it isn't", w)
		}
	}
}

// home checks that toolguardd resolves the paths of a host policy in a home without permissions for other users.
func (u *unit) home() {
	u.Helper()
	dev, err := user.Lookup("dev")
	must(u.T, err)
	uid, err := strconv.ParseUint(dev.Uid, 10, 32)
	must(u.T, err)
	u.sh("chmod 700 ~dev; mkdir ~dev/real; echo x >~dev/real/private; ln -s real ~dev/link; chown -hR dev ~dev/real ~dev/link")
	policy := work + "\n[[access.fs]]\npath = \"" + dev.HomeDir + "\"\nread = true\n"
	for _, want := range []int{5, 7} {
		j := u.job(uint32(uid), policy, "read x <"+dev.HomeDir+"/real/private && exit 5; exit 7")
		if got := j.start().status(); got != want {
			u.Errorf("exit status %d, want %d", got, want)
		}
		hostDenies(u.T, "~/link/private") // only processes with access to the home can resolve the link
	}
	j := u.job(uint32(uid), policy, "echo up >can; sleep 1000")
	for i, v := range j.Env {
		if strings.HasPrefix(v, "HOME=") {
			j.Env[i] = "HOME=" + dev.HomeDir
		}
	}
	j.start().wrote("can", "up")
	// toolguard compiles the host's policies, too, with the same result.
	list := slices.DeleteFunc(sessions(u.T, 0), func(s api.Session) bool { return s.UID != int(uid) })
	if len(list) != 1 || strings.Count(strings.Join(list[0].Files, " "), hostFile) != 1 {
		u.Errorf("the session's policy doesn't have the host's once: %+v", list)
	}
	must(u.T, j.Process.Signal(syscall.SIGTERM))
	j.status()
}

// A toolguardd leaves the sessions of another version enforced, and rejects their requests.
func TestAnotherVersion(t *testing.T) {
	u := newUnit(t)
	confined := u.job(nobodyUID, work+reach(), `while :; do
	read x 2>/dev/null <OUTSIDE && echo yes >can || echo no >can
	toolguard sessions list >list 2>&1; mv list said; sleep 0.1
done`).start()
	said := func(what string) func() bool {
		return func() bool {
			text, _ := os.ReadFile(confined.workspace + "/said")
			return strings.Contains(string(text), what)
		}
	}
	eventually(t, "it sends requests", said(onlyNested))
	// Versions are hexadecimal numbers. The other entries are for all versions.
	u.sh("mkdir -p " + units + `toolguardd.service.d && printf '[Service]\nExecStartPre=+sh -c "cd /sys/fs/bpf/toolguard && mv [0-9a-f]* another"\n' >` +
		units + "toolguardd.service.d/test.conf && systemctl daemon-reload && systemctl restart toolguardd")
	eventually(t, "its requests are rejected", said("another version of toolguard confines the client"))
	must(t, os.WriteFile(confined.workspace+"/can", []byte("?"), 0o666))
	confined.wrote("can", "no")
	if got := u.job(nobodyUID, more, `read x <OUTSIDE && exit 5`).start().status(); got != 5 {
		u.Errorf("another session: exit status %d, want 5", got)
	}
	must(t, confined.Process.Signal(syscall.SIGTERM))
	confined.status()
	eventually(t, "the session has ended", func() bool { return !runs(t, confined.workspace) })
	must(t, os.RemoveAll("/sys/fs/bpf/toolguard/another")) // otherwise the programs of both versions would run
}
