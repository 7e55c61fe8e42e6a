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

// unit is toolguardd as it's packaged, which systemd starts when somebody connects to its socket.
type unit struct{ *testing.T }

// newUnit installs it and starts its socket.
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

// sh runs a command of root's.
func (u *unit) sh(command string) string {
	u.Helper()
	out, err := exec.Command("bash", "-c", command).CombinedOutput()
	if err != nil {
		u.Fatalf("%s: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

// is a property of the service's, as systemctl shows it.
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

// The packaged units, with systemd: the first user's command starts toolguardd, and whatever systemd does to it lets no session go.
func TestUnit(t *testing.T) {
	u := newUnit(t)
	if out := u.sh("systemd-analyze verify --man=no " + units + "toolguardd.service " + units + "toolguardd.socket"); out != "" {
		t.Errorf("systemd says of the units: %s", out)
	}
	if got := u.is("ActiveState"); got != "inactive" {
		t.Fatalf("before anybody asks it's %s", got)
	}
	if j := newJob(t, other, work, "true"); j.start().status() != 125 || !strings.Contains(j.out.String(), "membership in the group toolguard") {
		t.Errorf("somebody who isn't in the group gets a session, or isn't told why he doesn't")
	}
	j := u.job(nobody, work, `read x <OUTSIDE && exit 5; exit 7`)
	if got := j.start().status(); got != 7 || j.count("denial", j.outside) != 1 {
		t.Fatalf("exit status %d, want 7; the events: %+v", got, j.told())
	}
	// Type=notify: it's active since it has said so itself.
	if got := u.is("Type") + " " + u.is("ActiveState") + " " + u.is("WatchdogUSec"); got != "notify active 30s" {
		t.Errorf("it's %q", got)
	}
	u.confined()
	u.exposed()
	u.reportsLandlock()

	t.Run("the network", func(t *testing.T) { (&unit{t}).network() })

	held := u.job(nobody, work, keepLooking, "--limits", "pids=50").start()
	held.wrote("can", "no")
	for _, x := range []struct{ name, do string }{
		{"it's killed", fmt.Sprintf("kill -KILL %d", u.pid())},
		{"it's stopped, and started by the next who connects", "systemctl stop toolguardd.socket toolguardd; systemctl start toolguardd.socket"},
		{"all units are loaded again, it's restarted, and it hangs", "mkdir -p " + units + "toolguardd.service.d && printf '[Service]\\nWatchdogSec=10s\\n' >" + units +
			"toolguardd.service.d/test.conf && systemctl daemon-reload && systemctl restart toolguardd && sleep 1 && " +
			"kill -STOP $(systemctl show --value -p MainPID toolguardd)"},
	} {
		t.Run(x.name, func(t *testing.T) { (&unit{t}).keeps(held, x.do) })
	}
	t.Run("the host's policies are about homes", func(t *testing.T) { (&unit{t}).home() })
	must(t, held.Process.Signal(syscall.SIGTERM))
	held.status()
	eventually(t, "nothing is left", func() bool { return len(sessions(t, 0)) == 0 })
}

// keeps does something to toolguardd, during and after which a session must stay what it is.
func (u *unit) keeps(held *job, do string) {
	u.Helper()
	told, before := held.count("denial", held.outside), sessions(u.T, 0)
	u.sh(do)
	for range 5 { // what it couldn't, it can't again and again
		must(u.T, os.WriteFile(held.workspace+"/can", []byte("?"), 0o666))
		held.wrote("can", "no")
	}
	eventually(u.T, "its refusals are told", func() bool { return held.count("denial", held.outside) > told })
	eventually(u.T, "it answers", func() bool { // who asks as it's killed is cut off
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
	if got := u.job(nobody, more, `read x <OUTSIDE && exit 5`).start().status(); got != 5 {
		u.Errorf("another session: exit status %d, want 5", got)
	}
	eventually(u.T, "systemd has it for active", func() bool { return u.is("ActiveState") == "active" })
}

// network makes sure that the unit leaves toolguardd what it takes.
func (u *unit) network() {
	u.Helper()
	i := newInternet(u.T)
	i.enter()
	defer i.leave()
	j := u.job(other, netPolicy(allowed), fetchBoth+"; exit 5")
	if got := j.start().status(); got != 5 || !strings.Contains(j.out.String(), "hello GET http://allowed.test/") || !strings.Contains(j.out.String(), "Could not resolve") {
		u.Errorf("exit status %d, it says %s", got, &j.out)
	}
	if j.count("denial", "dns://denied.test") == 0 {
		u.Errorf("no event among %+v", j.told())
	}
}

// confined makes sure that the service is held to what its unit says.
func (u *unit) confined() {
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

// reportsLandlock makes sure that toolguardd, whose network is another one, reads the kernel's audit records of a session under Landlock, or
// that it's said why it can't.
func (u *unit) reportsLandlock() {
	u.Helper()
	j := u.job(nobody, work, `read x <OUTSIDE && exit 5; exit 7`, "--backend", "landlock", "--daemon", "auto", "--report", "auto")
	got := j.start().status()
	abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case got != 7:
		u.Errorf("exit status %d, want 7", got)
	case abi >= 7 && (j.count("denial", j.outside) != 1 || strings.Contains(j.out.String(), "can't be seen")):
		u.Errorf("no denial among %+v", j.told())
	case abi < 7 && !strings.Contains(j.out.String(), "this kernel doesn't report what Landlock denies: it takes Linux 6.15"):
		u.Errorf("the kernel has ABI %d, and it says %s", abi, &j.out)
	}
}

// exposed makes sure that docs/daemon.md has all that the unit leaves the service, and nothing that it doesn't.
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

// home makes sure that toolguardd finds what a host's policy says of a home that is closed to others.
func (u *unit) home() {
	u.Helper()
	dev, err := user.Lookup("dev")
	must(u.T, err)
	uid, err := strconv.ParseUint(dev.Uid, 10, 32)
	must(u.T, err)
	u.sh("chmod 700 ~dev; mkdir ~dev/real; echo x >~dev/real/private; ln -s real ~dev/link; chown -hR dev ~dev/real ~dev/link")
	given := work + "\n[[access.fs]]\npath = \"" + dev.HomeDir + "\"\nread = true\n"
	for _, want := range []int{5, 7} {
		j := u.job(uint32(uid), given, "read x <"+dev.HomeDir+"/real/private && exit 5; exit 7")
		if got := j.start().status(); got != want {
			u.Errorf("exit status %d, want %d", got, want)
		}
		hostDenies(u.T, "~/link/private") // where it leads only who may look there can tell
	}
	j := u.job(uint32(uid), given, "echo up >can; sleep 1000")
	for i, v := range j.Env {
		if strings.HasPrefix(v, "HOME=") {
			j.Env[i] = "HOME=" + dev.HomeDir
		}
	}
	j.start().wrote("can", "up")
	// A toolguard that has put them into the policy has said the same as toolguardd would.
	list := slices.DeleteFunc(sessions(u.T, 0), func(s api.Session) bool { return s.UID != int(uid) })
	if len(list) != 1 || strings.Count(strings.Join(list[0].Files, " "), hostFile) != 1 {
		u.Errorf("the host's policy isn't in the session's once: %+v", list)
	}
	must(u.T, j.Process.Signal(syscall.SIGTERM))
	j.status()
}

// A toolguardd that finds sessions which another version has made leaves them held, and they can't ask it for anything.
func TestAnotherVersion(t *testing.T) {
	u := newUnit(t)
	held := u.job(nobody, work+reach(), `while :; do
	read x 2>/dev/null <OUTSIDE && echo yes >can || echo no >can
	toolguard sessions list >list 2>&1; mv list said; sleep 0.1
done`).start()
	said := func(what string) func() bool {
		return func() bool {
			text, _ := os.ReadFile(held.workspace + "/said")
			return strings.Contains(string(text), what)
		}
	}
	eventually(t, "it asks", said(nothingElse))
	// Versions are numbers, and what else lies there is for all of them.
	u.sh("mkdir -p " + units + `toolguardd.service.d && printf '[Service]\nExecStartPre=+sh -c "cd /sys/fs/bpf/toolguard && mv [0-9a-f]* another"\n' >` +
		units + "toolguardd.service.d/test.conf && systemctl daemon-reload && systemctl restart toolguardd")
	eventually(t, "it's refused", said("another version of toolguard confines the client"))
	must(t, os.WriteFile(held.workspace+"/can", []byte("?"), 0o666))
	held.wrote("can", "no")
	if got := u.job(nobody, more, `read x <OUTSIDE && exit 5`).start().status(); got != 5 {
		u.Errorf("another session: exit status %d, want 5", got)
	}
	must(t, held.Process.Signal(syscall.SIGTERM))
	held.status()
	eventually(t, "nothing of it is left", func() bool { return !runs(t, held.workspace) })
	must(t, os.RemoveAll("/sys/fs/bpf/toolguard/another")) // or all that happens in this machine would be looked at twice
}
