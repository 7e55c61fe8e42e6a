//go:build linux

package run

import (
	"os"
	"strings"
	"testing"
)

// Three typical first policies. Each is enforced, or nothing starts: then the first line names in plain words what this machine can't
// enforce, the second what to do.
func TestFirstPolicies(t *testing.T) {
	const node = "version = 1\nextends = [\"preset:node\"]\n[[access.net]]\nhost = \"registry.npmjs.org\"\nport = 443\nallow = true\n"
	for _, x := range []struct {
		name, policy string
		command      string // it prints "ran", and then an operation that must be denied fails
		denied       string
		says, todo   string // where the backend is Landlock; "": it starts there, too
	}{
		{
			"no network", "version = 1\n[access]\ndefault = { net = \"deny\" }\n",
			"echo ran; exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/22'", "Permission denied", "", "",
		},
		{
			"by pattern", "version = 1\n[[access.fs]]\npath = \".\"\nread = true\nwrite = true\n[[access.fs]]\nmatch = \"**/.env\"\n",
			"cat out && exec cat .env", "Permission denied", "the command can't be kept from files that match **/.env here (../policy.toml:6:1)",
			"; or grant only folders that the command may have whole; or accept that it isn't enforced: --allow-degraded=fs.2",
		},
		{
			"node and a host", node, "echo ran; exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/22'", "Permission denied",
			"the command can't be limited to the host registry.npmjs.org here (../policy.toml:3:1)",
			`; or allow every host, by two rules for its port: host = "0.0.0.0/0" and host = "::/0"; or accept that it isn't enforced: --allow-degraded=net.1`,
		},
	} {
		for _, u := range users() {
			t.Run(x.name+"/"+u.Name, func(t *testing.T) {
				needs(t, "bash")
				p := newFixture(t, u)
				p.write(t, "../policy.toml", x.policy)
				p.write(t, ".env", "SECRET=1\n")
				p.write(t, "out", "ran\n")
				out := run(t, p.command(binary, "exec", "--policy", "../policy.toml", "--report", "never", "--", "sh", "-c", x.command))
				if x.says == "" || os.Getenv("TOOLGUARD_VM") != "" || out.code != 125 && x.name == "node and a host" && u.ID == 0 { // where toolguardd's program is alongside
					if out.code == 0 || out.code == 125 || out.stdout != "ran\n" || !strings.Contains(out.stderr, x.denied) {
						t.Errorf("it isn't enforced: %+v", out)
					}
					return
				}
				lines := strings.Split(out.stderr, "\n")
				if out.code != 125 || out.stdout != "" || len(lines) < 3 || lines[0] != "toolguard: nothing was started: "+x.says ||
					!strings.HasPrefix(lines[1], "  what to do: ") || !strings.HasSuffix(lines[1], x.todo) {
					t.Errorf("%+v", out)
				}
				if u.ID != 0 && !strings.Contains(lines[1], "toolguardd") {
					t.Errorf("it doesn't name toolguardd: %q", lines[1])
				}
			})
		}
	}
}
