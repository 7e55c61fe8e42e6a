//go:build linux

package deb

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/version"
)

// machine is the virtual machine with its packages.
type machine struct{ *testing.T }

// sh runs a command as root, which must succeed.
func (m *machine) sh(command string) string {
	m.Helper()
	out, err := exec.Command("bash", "-c", command).CombinedOutput()
	if err != nil {
		m.Fatalf("%s: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

// fails runs a command that must fail, and returns its output.
func (m *machine) fails(command string) string {
	m.Helper()
	out, err := exec.Command("bash", "-c", command).CombinedOutput()
	if err == nil {
		m.Errorf("%s doesn't fail: %s", command, out)
	}
	return string(out)
}

func (m *machine) eventually(what string, is func() bool) {
	m.Helper()
	if !childtest.Within(5*time.Minute, is) {
		m.Fatalf("never happened: %s\n%s", what, m.sh("journalctl -q -o cat -u toolguardd | tail -50; systemctl status --no-pager toolguardd; tail /tmp/session.log"))
	}
}

// as runs a shell command as the user dev, a member of the group toolguard.
func (m *machine) as(command string) *exec.Cmd {
	cmd := exec.Command("sudo", "-u", "dev", "-i", "bash", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// later is the version of the second package. The first one has the version of this tree.
const later = "99.0.0"

// deb is a version's package.
func deb(t *testing.T, version string) string {
	t.Helper()
	list, err := filepath.Glob("/t/debs/toolguard_" + version + "_*.deb")
	if err != nil || len(list) != 1 {
		t.Fatalf("the package of version %s: %v, %v", version, list, err)
	}
	return list[0]
}

// installed is the version of the package that's installed.
func (m *machine) installed() string { return m.sh("dpkg-query -W -f '${Version}' toolguard") }

// session is a command of the user dev that repeatedly writes to a file whether it can read a denied file.
type session struct {
	*machine
	*exec.Cmd
	answers string
	id      string
}

const policy = "version = 1\nextends = [\"preset:readonly\"]\n[[access.fs]]\npath = \".\"\nread = true\nwrite = true\n"

func (m *machine) session() *session {
	m.Helper()
	const dir = "/home/dev/work"
	m.sh("mkdir -p " + dir + " /home/dev/conf; echo secret >/home/dev/secret; chown -R dev /home/dev; chmod 755 /home/dev")
	if err := os.WriteFile("/home/dev/conf/policy.toml", []byte(policy), 0o644); err != nil {
		m.Fatal(err)
	}
	s := &session{machine: m, answers: dir + "/can"}
	s.Cmd = m.as("cd work && exec toolguard exec --daemon require --policy ../conf/policy.toml --report never -- bash -c " +
		"'while :; do if read x 2>/dev/null </home/dev/secret; then echo yes >can; else echo no >can; fi; sleep 0.1; done'")
	output, err := os.Create("/tmp/session.log")
	if err != nil {
		m.Fatal(err)
	}
	defer output.Close()
	s.Stdout, s.Stderr = output, output
	if err := s.Start(); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = s.Process.Kill() })
	s.checkConfined()
	s.id = m.only()
	return s
}

// checkConfined waits for five new answers, all of them denials.
func (s *session) checkConfined() {
	s.Helper()
	for range 5 {
		if err := os.Truncate(s.answers, 0); err != nil && !errors.Is(err, fs.ErrNotExist) { // dev makes the file
			s.Fatal(err)
		}
		s.eventually("the session is confined", func() bool {
			text, _ := os.ReadFile(s.answers)
			if strings.TrimSpace(string(text)) == "yes" {
				s.Fatal("the session isn't confined")
			}
			return strings.TrimSpace(string(text)) == "no"
		})
	}
}

// only returns the id of the only session.
func (m *machine) only() string {
	m.Helper()
	var list []struct{ ID string }
	m.eventually("toolguardd answers", func() bool {
		out, err := exec.Command("toolguard", "sessions", "list", "--json").Output()
		return err == nil && json.Unmarshal(out, &list) == nil
	})
	if len(list) != 1 {
		m.Fatalf("%d sessions: %+v", len(list), list)
	}
	return list[0].ID
}

// denials returns the number of events of a session's denials.
func (m *machine) denials(id string) int {
	m.Helper()
	return strings.Count(m.sh("toolguard events --since all --kind denial --session "+id), "\n")
}

// TestPackage installs the package, uses it, upgrades it while a session runs, and removes it.
func TestPackage(t *testing.T) {
	if os.Getenv("TOOLGUARD_VM") == "" {
		t.Skip("needs a virtual machine (make vm-test)")
	}
	m := &machine{t}
	m.sh("dpkg -i " + deb(t, version.Release()+"*"))
	installed := m.installed()
	if got := m.sh("dpkg-query -W -f '${Status} ${Version}' toolguard; toolguard version; stat -c ' %U:%G %a' /run/toolguard/toolguard.sock"); !strings.Contains(got, "install ok installed "+installed) ||
		!strings.Contains(got, "toolguard "+installed+" (") || !strings.Contains(got, "root:toolguard 660") {
		t.Error(got)
	}
	if got := m.sh("systemctl is-active toolguardd.socket toolguardd.service; systemctl is-enabled toolguardd.socket toolguardd.service"); got != "active\nactive\nenabled\nenabled" {
		t.Error(got)
	}
	if got := m.sh("systemd-analyze verify --man=no /usr/lib/systemd/system/toolguard*"); got != "" {
		t.Error(got)
	}
	m.sh("usermod -aG toolguard dev")
	m.sh(`printf '[[sink]]\nname = "journal"\ntype = "journald"\n' >/etc/toolguard/ship.toml && systemctl enable --now toolguard-ship`)
	s := m.session()
	m.eventually("the denial is reported", func() bool { return m.denials(s.id) > 0 })
	m.metrics()

	m.sh("echo '# ours' >>/etc/toolguard/toolguardd.toml")
	s.survives(later)
	s.survives(installed) // as one may have to
	m.sh("grep -q '^# ours$' /etc/toolguard/toolguardd.toml && toolguard audit verify")

	if output := m.fails("dpkg -r toolguard"); !strings.Contains(output, "toolguard stays installed") || !strings.Contains(output, "1 sessions still run") {
		t.Error(output)
	}
	s.checkConfined()
	if id := m.only(); id != s.id {
		t.Errorf("session %s is %s now", s.id, id)
	}

	m.sh("toolguard sessions kill " + s.id)
	_ = s.Wait()
	m.eventually("it's over", func() bool { return m.sh("toolguard sessions list --json") == "[]" })
	m.sh("systemd-run --unit toolguard-ours sleep 1000") // not the package's
	m.sh("dpkg -r toolguard")
	m.sh("systemctl is-active toolguard-ours && systemctl stop toolguard-ours")
	m.gone()
	m.sh("[ -s /var/lib/toolguard/audit/000000000001.jsonl ] && grep -q '^# ours$' /etc/toolguard/toolguardd.toml")

	m.sh("dpkg -i " + deb(t, later))
	if got := m.sh("toolguard audit verify"); !strings.Contains(got, "sound:") {
		t.Error(got)
	}
	m.sh("dpkg -P toolguard")
	m.gone()
	m.sh("[ ! -e /var/lib/toolguard ] && [ ! -e /etc/toolguard/toolguardd.toml ] && [ ! -e /etc/toolguard/ship.toml ] && [ ! -e /run/toolguard ]")
}

// survives replaces the installed version by another one. Between the two, the session stays confined, and its denials are reported and
// shipped afterwards.
func (s *session) survives(version string) {
	s.Helper()
	const gone, back, window = "/run/gone", "/run/back", "/run/window"
	s.sh(`mkdir -p /etc/systemd/system/toolguardd.service.d; cat >/etc/systemd/system/toolguardd.service.d/test.conf <<'END'
[Service]
ExecStartPre=+bash -c 'sleep 1; date +%%s%%3N >` + gone + `; : >` + window + `; for i in 1 2 3; do \
	: >` + s.answers + `; until grep . ` + s.answers + ` >>` + window + `; do sleep 0.1; done; done; date +%%s%%3N >` + back + `'
END
systemctl daemon-reload`)
	pids := func() []string {
		return strings.Fields(s.sh("systemctl show --value -p MainPID toolguardd toolguard-ship"))
	}
	before := pids()
	s.sh("dpkg -i " + deb(s.T, version))
	s.sh("rm -r /etc/systemd/system/toolguardd.service.d && systemctl daemon-reload")
	after := pids()
	if got := s.sh("toolguard version"); !strings.Contains(got, "toolguard "+version+" (") || len(after) != 2 || before[0] == after[0] || before[1] == after[1] {
		s.Errorf("the one before still runs: %s, %q, %q", got, before, after)
	}
	if got := strings.Fields(s.sh("cat " + window)); len(got) < 3 || slices.Contains(got, "yes") {
		s.Errorf("while there was no toolguardd it could read: %q", got)
	}
	s.checkConfined()
	if id := s.only(); id != s.id {
		s.Errorf("session %s is %s now", s.id, id)
	}
	var from, to int64
	if _, err := fmt.Sscan(s.sh("cat "+gone+" "+back), &from, &to); err != nil {
		s.Fatal(err)
	}
	uid := ""
	s.eventually("denials in between are reported", func() bool {
		for line := range strings.Lines(s.sh("toolguard events --since all --kind denial --format ocsf --session " + s.id)) {
			var e struct {
				Time     int64
				End      int64 `json:"end_time"` // of several
				Metadata struct{ UID string }
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				s.Fatal(err)
			}
			if from <= max(e.Time, e.End) && e.Time <= to {
				uid = e.Metadata.UID
			}
		}
		return uid != ""
	})
	s.eventually("and shipped", func() bool { return s.sh("journalctl -q -o cat TOOLGUARD_UID="+uid) != "" })
	reported := s.denials(s.id)
	s.eventually("the new version reports denials", func() bool { return s.denials(s.id) > reported })
}

// metrics reads the metrics as Prometheus does, before and after a restart of toolguardd.
func (m *machine) metrics() {
	m.Helper()
	m.sh("systemctl enable toolguardd-metrics.socket; systemctl stop toolguardd.socket toolguardd.service && " +
		"systemctl start toolguardd-metrics.socket toolguardd.socket toolguardd.service")
	for range 2 {
		for _, line := range []string{"toolguard_ready 1", `toolguard_sessions{state="running"} 1`, `toolguard_build_info{version="` + m.installed() + `"} 1`} {
			m.eventually("metrics have "+line, func() bool {
				r, err := http.Get("http://127.0.0.1:9477/metrics")
				if err != nil {
					return false
				}
				defer r.Body.Close()
				page, err := io.ReadAll(r.Body)
				return err == nil && r.StatusCode == 200 && strings.Contains(string(page), "\n"+line+"\n")
			})
		}
		m.sh("systemctl restart toolguardd")
	}
}

// gone checks that nothing of it runs, is loaded, or would start.
func (m *machine) gone() {
	m.Helper()
	m.sh(`[ ! -e /usr/bin/toolguard ] && [ ! -e /sys/fs/bpf/toolguard ] && ! pgrep -x toolguardd`)
	if got := m.sh("systemctl list-units --all --no-legend --plain 'toolguard*'; find /etc/systemd -name 'toolguard*'"); got != "" {
		m.Errorf("left: %s", got)
	}
}
