//go:build linux

package run

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// For capabilities that a policy doesn't declare, the built-in default policy applies, also for a named tool; only a default grants them.
func TestUndeclared(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer server.Close()
	dial := fmt.Sprintf("/dev/tcp/127.0.0.1/%d", server.Addr().(*net.TCPAddr).Port)
	// The attempts: write in the workspace, write outside it, move to a control group, connect, see a variable.
	script := `can() { name=$1; shift; ("$@") 2>/dev/null && printf '%s ' $name; }
inside() { : >made; }; outside() { : >../home/made; }; group() { : >>/sys/fs/cgroup/cgroup.procs; }; connect() { exec 3<>` + dial + `; }; see() { test "$SETTING" = x; }; secret() { test "$AWS_SECRET" = x; }
can inside inside; can outside outside; can group group; can net connect; can env see; can secret secret; exit 0`
	const fs = "[[access.fs]]\npath = \".\"\nread = true\n"
	const tool = "[[tools.x.access.fs]]\npath = \".\"\nread = true\n"
	for _, c := range []struct{ what, policy, tool, want string }{
		{"nothing", "", "", "inside"},
		{"one rule", fs, "", ""},
		{"an empty list", "[access]\nfs = []\n", "", "inside"},
		{"a default for fs that denies", "[access]\ndefault = { fs = \"deny\" }\n", "", ""},
		{"a default for net", "[access]\ndefault = { net = \"deny\" }\n", "", "inside"},
		{"a default for net that allows", "[access]\ndefault = { net = \"allow\" }\n", "", "inside net"},
		{"a default for fs that allows", "[access]\ndefault = { fs = \"allow\" }\n", "", "inside outside"},
		{"a default for all that allows", "[access]\ndefault = \"allow\"\n", "", "inside outside net env"},
		{"a variable that looks like a credential, by name", "[[access.env]]\nname = \"AWS_SECRET\"\nread = true\n", "", "inside secret"},
		{"a tool's rule, not for that tool", tool, "", "inside"},
		{"a tool's rule", tool, "x", ""},
		{"a tool's rule over a default", "[access]\ndefault = { net = \"allow\" }\n" + tool, "x", "net"},
	} {
		for _, u := range users() {
			p := newFixture(t, u)
			p.write(t, "../p.toml", "version = 1\n"+c.policy)
			flags := []string{"--policy", "../p.toml", "--backend", "landlock", "--daemon", "none"}
			if c.tool != "" {
				flags = append(flags, "--tool", c.tool)
			}
			cmd := p.confined(flags, "bash", "-c", script)
			cmd.Env = append(cmd.Env, "SETTING=x", "AWS_SECRET=x")
			out := run(t, cmd)
			if out.code != 0 || strings.TrimSpace(out.stdout) != c.want {
				t.Errorf("%s, %s: %+v, want %q", c.what, u.Name, out, c.want)
			}
			if _, err := os.Stat(p.home + "/made"); (err == nil) != strings.Contains(c.want, "outside") {
				t.Errorf("%s, %s: %v", c.what, u.Name, err)
			}
		}
	}
}
