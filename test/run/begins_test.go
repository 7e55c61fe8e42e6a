//go:build linux

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sockets creates toolguardd's socket, without a listener, and root's settings of exec, in a separate mount namespace.
const sockets = `set -e; ` + emptyRun + `mkdir -p /etc/toolguard; mount -t tmpfs -o mode=755 none /etc/toolguard
[ -z "$SOCKET" ] || python3 -c 'import os, socket; p = "/run/toolguard/toolguard.sock"; socket.socket(socket.AF_UNIX).bind(p); os.chmod(p, int(os.environ["SOCKET"], 8))'
[ -z "$HOST" ] || { mkdir -m 755 /etc/toolguard/policy.d; echo "version = 1" >/etc/toolguard/policy.d/a.toml; chmod 644 /etc/toolguard/policy.d/a.toml; }
[ -z "$SETTING" ] || { echo "$SETTING" >/etc/toolguard/exec.toml; chmod 644 /etc/toolguard/exec.toml; }
[ -z "$FAKE" ] || { [ -z "$CANARY" ] || mkdir -m 755 /run/toolguard/canary; python3 "$FAKE" /run/toolguard/toolguard.sock >/dev/null 2>&1; }
exec setpriv --reuid "$AS" --regid "$AS" --clear-groups "$@"`

// A session under Landlock begins with one line if a rule isn't enforced or if toolguardd is installed and can't be used: what, why and the
// remedy. If root requires toolguardd nothing starts without it.
func TestBegins(t *testing.T) {
	if os.Geteuid() != 0 || os.Getenv("TOOLGUARD_VM") != "" {
		t.Skip("needs root, and a machine without toolguardd")
	}
	needs(t, "unshare", "mount", "python3", "setpriv")
	const (
		join    = "sudo usermod -aG toolguard nobody, and log in again"
		start   = "sudo systemctl start toolguardd"
		setUp   = "have toolguardd decide, which isn't set up here (docs/daemon.md), or run it as root"
		require = `daemon = "require"`
	)
	readonly := []string{"--policy", "../readonly.toml"}
	fake, err := filepath.Abs("testdata/failing_daemon.py")
	must(t, err)
	for _, x := range []struct {
		name, socket, setting string
		flags                 []string
		says                  []string // in one line, each; none: no line
		fails                 bool
	}{
		{"protect", "", "", nil, []string{"doesn't enforce protect", "default.fs.1 gives", setUp}, false},
		{"in a container", "none, contained", "", nil, []string{"doesn't enforce protect", "in a container, mount all of /run/toolguard"}, false},
		{"root's files in a user namespace", "none, user namespace", `daemon = "auto"`, nil, []string{"doesn't enforce protect"}, false},
		{"secrets", "", "", []string{"--policy", "preset:readonly"}, []string{"doesn't enforce secrets", "readonly.fs.1 gives", setUp}, false},
		{"quiet", "", "", []string{"--quiet"}, nil, false},
		{"all enforced", "", "", readonly, nil, false},
		{"degraded", "", "", []string{"--policy", "../degraded.toml", "--allow-degraded", "fs.2"}, []string{"doesn't enforce fs.2", setUp}, false},
		{"not in the group", "0600", "", nil, []string{"doesn't enforce protect", join}, false},
		{"not in the group, all enforced", "0600", "", readonly, []string{"reports little", join}, false},
		{"down", "0666", "", nil, []string{"doesn't enforce protect", start}, false},
		{"not wanted", "0600", "", append(readonly, "--daemon", "none"), nil, false},
		{"creates no session", "creates none", "", nil, []string{"doesn't enforce protect", "toolguardd: it creates none", "journalctl"}, false},
		{"creates no session, all enforced", "creates none", "", readonly, []string{"reports little", "it creates none"}, false},
		{"creates no session, wanted", "creates none", "", []string{"--daemon", "require"}, []string{"--daemon require can't be met", "it creates none", "journalctl"}, true},
		{"creates no session, required", "creates none", require, nil, []string{"exec.toml:1", "can't be met", "it creates none"}, true},
		{"adopts no thread", "thread", "", readonly, []string{"reports little", "it adopts no thread", "journalctl"}, false},
		{"adopts no thread, wanted", "thread", "", append(readonly, "--daemon", "require"), []string{"--daemon require can't be met", "it adopts no thread"}, true},
		{"confines no thread", "nothing", "", readonly, []string{"reports little", "doesn't confine this thread", "journalctl"}, false},
		{"confines no thread, required", "nothing", require, readonly, []string{"exec.toml:1", "can't be met", "doesn't confine this thread"}, true},
		{"nothing but the socket", "alone", "", nil, []string{"doesn't enforce protect", "mount all of /run/toolguard"}, false},
		{"required", "", require, nil, []string{"exec.toml:1", "can't be met", start[len("sudo "):]}, true},
		{"required, not in the group", "0600", require, nil, []string{"exec.toml:1", "can't be met", "usermod -aG toolguard"}, true},
		{"required, none", "", require, []string{"--daemon", "none"}, []string{"exec.toml:1", "leave that out"}, true},
		{"required, landlock", "", require, []string{"--backend", "landlock"}, []string{"exec.toml:1", "leave out --backend landlock"}, true},
		{"setting", "", "daemon = require", nil, []string{"exec.toml:1", `daemon = "require" or`}, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			who := user{Name: "nobody", ID: 65534}
			if x.socket == "none, user namespace" {
				who = user{Name: "dev", ID: 1000} // there, root's files seem to be nobody's
			}
			p := newFixture(t, who)
			p.write(t, "../readonly.toml", "version = 1\nextends = [\"preset:readonly\"]\n[access]\nsecrets = false\n")
			p.write(t, "../degraded.toml", "version = 1\n[[access.fs]]\npath = \".\"\nread = true\n[[access.fs]]\nmatch = \"**/.env\"\n")
			own := []string{"unshare", "--mount"}
			if x.socket == "none, contained" {
				own, x.socket = append(own, "--pid", "--fork", "--mount-proc"), ""
			}
			argv := append(append([]string{binary, "exec"}, x.flags...), "--", "sh", "-c", "echo ran")
			cmd := (fixture{user{Name: "root"}, p.home, p.workspace}).command(append(append(own, "sh", "-c", sockets, "sh"), argv...)...)
			switch x.socket {
			case "none, user namespace":
				own = append([]string{"unshare", "--user", "--map-user=1000", "--map-group=1000"}, argv...)
				cmd.Args = append(cmd.Args[:len(cmd.Args)-len(argv)], own...)
				cmd.Env = append(cmd.Env, "HOST=yes")
				x.socket = ""
			case "creates none", "thread", "nothing":
				cmd.Env = append(cmd.Env, "FAKE="+fake, "CANARY=yes", "MAKES="+strings.TrimPrefix(x.socket, "creates none"))
				x.socket = ""
			case "alone":
				cmd.Env = append(cmd.Env, "FAKE="+fake)
				x.socket = ""
			}
			cmd.Env = append(cmd.Env, "SOCKET="+x.socket, "SETTING="+x.setting, "AS="+fmt.Sprint(who.ID), "USER="+who.Name)
			out := run(t, cmd)
			if x.fails != (out.code == 125) || x.fails == (out.stdout == "ran\n") {
				t.Errorf("%+v", out)
			}
			if strings.Count(out.stderr, "\n") != min(1, len(x.says)) {
				t.Errorf("the output is %q", out.stderr)
			}
			for _, want := range x.says {
				if !strings.Contains(out.stderr, want) {
					t.Errorf("the output is %q, without %q", out.stderr, want)
				}
			}
		})
	}
}
