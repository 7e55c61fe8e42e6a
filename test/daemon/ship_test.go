//go:build linux

package daemon

import (
	"os"
	"strings"
	"testing"
)

// The shipper's packaged unit, together with toolguardd's: the denials of an ordinary user's command are in the journal and in a file. The shipper
// can read the audit, and change nothing of toolguard's.
func TestShipper(t *testing.T) {
	u := newUnit(t)
	u.sh("ln -sf " + built + "/toolguard-ship /usr/bin/ && install -m 644 ../../packaging/systemd/toolguard-ship.service " + units)
	u.sh(`mkdir -p /etc/toolguard/credentials /var/log/shipped && chmod 700 /etc/toolguard/credentials && chown toolguard-ship /var/log/shipped
echo canary >/etc/toolguard/credentials/token
cat >/etc/toolguard/ship.toml <<'END'
metrics = "/run/toolguard/ship/metrics"
[[sink]]
name = "journal"
type = "journald"
[[sink]]
name = "file"
type = "file"
path = "/var/log/shipped/events.jsonl"
[[sink]]
name = "away"
type = "webhook"
url = "https://127.0.0.1:9/"
token_file = "token"
END
mkdir -p ` + units + `toolguard-ship.service.d && cat >` + units + `toolguard-ship.service.d/local.conf <<'END'
[Service]
ReadWritePaths=/var/log/shipped
LoadCredential=token:/etc/toolguard/credentials/token
END
systemctl daemon-reload`)
	t.Cleanup(func() {
		u.sh("systemctl stop toolguard-ship")
		u.Logf("the shipper's journal:\n%s", u.sh("journalctl -q -o cat -u toolguard-ship"))
		u.sh("rm -r " + units + "toolguard-ship.* /etc/toolguard/ship.toml && systemctl daemon-reload")
	})
	if out := u.sh("systemd-analyze verify --man=no " + units + "toolguard-ship.service"); out != "" {
		t.Errorf("systemd reports about the unit: %s", out)
	}
	u.sh("systemctl start toolguard-ship") // before there's an audit
	j := u.job(nobodyUID, work, `read x <OUTSIDE && exit 5; exit 7`)
	if got := j.start().status(); got != 7 || j.count("denial", j.outside) != 1 {
		t.Fatalf("exit status %d, want 7; the events: %+v", got, j.reported())
	}
	shipped := func() string {
		text, _ := os.ReadFile("/var/log/shipped/events.jsonl")
		return string(text)
	}
	eventually(t, "the file has it", func() bool { return strings.Contains(shipped(), `"target":"`+j.outside+`"`) })
	eventually(t, "the journal has it", func() bool {
		return strings.Contains(u.sh("journalctl -q -o json SYSLOG_IDENTIFIER=toolguard TOOLGUARD_KIND=denial --output-fields=MESSAGE,TOOLGUARD_EVENT"), j.outside)
	})
	u.sh("systemctl restart toolguardd; systemctl kill -s KILL toolguard-ship")
	j = u.job(nobodyUID, work, `read x <OUTSIDE && exit 5; exit 7`)
	if got := j.start().status(); got != 7 {
		t.Errorf("exit status %d, want 7", got)
	}
	eventually(t, "it continues where it was", func() bool { return strings.Contains(shipped(), `"target":"`+j.outside+`"`) })
	eventually(t, "the metrics show which sink fails", func() bool {
		return strings.Contains(u.sh("curl -s --unix-socket /run/toolguard/ship/metrics http://x/metrics || true"), `failing{sink="away",type="webhook"} 1`)
	})

	in := "setpriv --reuid toolguard-ship --regid toolguard-ship --init-groups "
	u.sh(in + "cat /var/lib/toolguard/audit/000000000001.jsonl >/dev/null")
	for _, no := range []string{
		"cat /var/lib/toolguard/audit/key", "ls /var/lib/toolguard", "ls /var/lib/toolguard/sessions", "touch /var/lib/toolguard/audit/x",
		"sh -c '>>/var/lib/toolguard/audit/head'", "sh -c '>>/var/lib/toolguard/audit/000000000001.jsonl'", "flock -n /var/lib/toolguard/audit/lock true",
		"cat /etc/toolguard/credentials/token", "curl -sf --unix-socket /run/toolguard/toolguard.sock http://x/v1/status",
	} {
		u.sh("! " + in + no + " 2>&1")
	}
	if out := u.sh("systemd-analyze security --no-pager toolguard-ship.service | tail -1"); !strings.Contains(out, " OK ") {
		t.Errorf("%s", out)
	}
	status := u.sh("cat /proc/$(systemctl show --value -p MainPID toolguard-ship)/status")
	for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapBnd:\t0000000000000000", "CapEff:\t0000000000000000"} {
		if !strings.Contains(status, want) {
			t.Errorf("no %s in\n%s", want, status)
		}
	}
	if out := u.sh("journalctl -q -o cat; cat /proc/$(systemctl show --value -p MainPID toolguard-ship)/cmdline"); strings.Contains(out, "canary") {
		t.Error("the token is shown")
	}
	if out := u.sh("toolguard-ship status"); !strings.Contains(out, "failing for") || !strings.Contains(out, "journald") {
		t.Errorf("%s", out)
	}
	if out := u.sh("toolguard audit verify"); !strings.Contains(out, "sound:") {
		t.Errorf("%s", out)
	}
}
