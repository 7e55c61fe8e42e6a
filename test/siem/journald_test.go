//go:build linux

package siem

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/event"
)

const journald = "/lib/systemd/systemd-journald"

// TestJournald checks that the journal has each event, also a long one, next to its message, and that events during an outage are
// delivered afterwards.
func TestJournald(t *testing.T) {
	if _, err := os.Stat(journald); err != nil || os.Getuid() != 0 {
		t.Skip("needs systemd-journald, and root")
	}
	t.Parallel()
	// In a /run of its own, which others reach through its process.
	script := `mount -t tmpfs none "$1" && mount --bind "$1" /run && mkdir -p /run/systemd/journal /run/log/journal && while :; do ` + journald + `; sleep 0.2; done`
	s := newScene(t, "[[sink]]\nname = 'journal'\ntype = 'journald'\npath = 'DIR/journal-socket'\n")
	cmd := exec.Command("unshare", "-m", "sh", "-c", script, "sh", t.TempDir())
	launch(t, cmd)
	run := fmt.Sprintf("/proc/%d/root/run", cmd.Process.Pid)
	must(t, os.Symlink(run+"/systemd/journal/socket", s.dir+"/journal-socket"))
	pid := func() string {
		out, _ := exec.Command("pgrep", "-P", fmt.Sprint(cmd.Process.Pid), "-x", "systemd-journal").Output()
		return strings.TrimSpace(string(out))
	}
	t.Cleanup(func() { _ = exec.Command("kill", "-9", pid()).Run() })
	s.wait("journald is up", func() bool { _, err := os.Stat(run + "/systemd/journal/socket"); return err == nil && pid() != "" })
	var last map[string]any
	got := func() (events []string) {
		out, _ := exec.Command("journalctl", "--no-pager", "--all", "-o", "json", "-D", run+"/log/journal", "SYSLOG_IDENTIFIER=toolguard").Output()
		in := bufio.NewScanner(strings.NewReader(string(out)))
		in.Buffer(nil, 64<<20)
		for in.Scan() {
			last = nil
			if json.Unmarshal(in.Bytes(), &last) == nil {
				text, _ := last["TOOLGUARD_EVENT"].(string)
				events = append(events, text)
			}
		}
		return events
	}
	s.record(20)
	s.record(1, func(e *event.Event) { e.Target = strings.Repeat("/long", 100_000) })
	s.start()
	s.delivered()
	s.arrived(got)
	must(t, exec.Command("kill", pid()).Run())
	s.record(20)
	s.delivered()
	s.arrived(got)
	want := s.lines()
	if last["MESSAGE"] != fmt.Sprintf("denied fs read /x/ä/%d", s.n) || last["PRIORITY"] != "4" || last["TOOLGUARD_KIND"] != "denial" ||
		last["TOOLGUARD_SESSION"] != "s1" || !strings.Contains(want[len(want)-1], fmt.Sprintf(`"uid":"%s"`, last["TOOLGUARD_UID"])) {
		t.Errorf("%v", last)
	}
}
