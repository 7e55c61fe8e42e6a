package policy_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// Each mistake is one message that names the rule, the value and what to do.
func TestMistakes(t *testing.T) {
	many := policy.SourceLayer{}
	for i := range fspath.MaxPatternParts + 1 {
		many.FS = append(many.FS, policytest.Match(fmt.Sprintf("**/n%d", i), 0))
	}
	for _, x := range []struct {
		layer policy.SourceLayer
		want  string
	}{
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path("../x", policy.Read)}}, `p.toml:1:1: fs.1: "../x" leads out of the workspace /w (workspace_escape)`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path("out/passwd", policy.Read)}}, `p.toml:1:1: fs.1: "out/passwd" leads out of the workspace through a symlink, to /etc/passwd (workspace_escape)`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/w/loop", policy.Read)}}, `fs.1: "/w/loop" can't be resolved: too many symlinks`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path("dangling", policy.Read)}}, `fs.1: "dangling" leads through a dangling symlink to /w/nowhere/x`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/secret/x", policy.Read)}}, `"/secret/x" can't be resolved: lstat /secret/x: permission denied`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path("a\x00", policy.Read)}}, `NUL`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path(strings.Repeat("/a", 129), policy.Read)}}, `deeper than 128 components`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path(strings.Repeat("/a", 2049), policy.Read)}}, `longer than 4096 bytes`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Match("*.rs", policy.Read)}}, `"*.rs" has no "**" component (a match is [BASE/]**/LAST[/NAME…]`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Match("**", policy.Read)}}, `nothing after "**"`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Match("**/*", policy.Read)}}, `matches every name`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Match("**/a*b", policy.Read)}}, `wildcard where none may be, in "a*b"`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Match("**/*a*", policy.Read)}}, `wildcard where none may be`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Match("**/a/*.x", policy.Read)}}, `wildcard where none may be, in "*.x"`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Match("**/a/**/b", policy.Read)}}, `more than one "**"`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Match("a*/**/b", policy.Read)}}, `wildcard in its BASE`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Match("**/a/", policy.Read)}}, `empty component`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Match("**/../a", policy.Read)}}, `".." after "**"`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Match("**/[ab]", policy.Read)}}, `wildcard where none may be`},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Match("../**/a", policy.Read)}}, `workspace_escape`},
		{many, `the matcher follows at most 2048`},
		{policy.SourceLayer{Net: []policy.NetRule{policytest.Host("", true)}}, `net.1: host: "" is not a host name (a host is a name`},
		{policy.SourceLayer{Net: []policy.NetRule{policytest.Host("https://a.com", true)}}, `"https://a.com" is neither a host nor a range`},
		{policy.SourceLayer{Net: []policy.NetRule{policytest.Host("a.com:80", true)}}, `"a.com:80" is not a host name`},
		{policy.SourceLayer{Net: []policy.NetRule{policytest.Host("*", true)}}, `"*" is not a host name`},
		{policy.SourceLayer{Net: []policy.NetRule{policytest.Host("a.*.com", true)}}, `not a host name`},
		{policy.SourceLayer{Net: []policy.NetRule{policytest.Host("*.10.0.0.1", true)}}, `no names beneath it`},
		{policy.SourceLayer{Net: []policy.NetRule{policytest.Host("10.0.0.1/8", true)}}, `bits beyond its length (write "10.0.0.0/8")`},
		{policy.SourceLayer{Net: []policy.NetRule{policytest.Host("10.0.0.0/33", true)}}, `neither a host nor a range`},
		{policy.SourceLayer{Net: []policy.NetRule{policytest.Host("::ffff:10.0.0.0/104", true)}}, `IPv4 addresses in IPv6 form`},
		{policy.SourceLayer{Net: []policy.NetRule{policytest.Host("fe80::1%eth0", true)}}, `has a zone`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", Port: 65536}}}, `port 65536 isn't between 1 and 65535`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", Scheme: "htps"}}}, `scheme "htps" isn't one of http, https`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", Protocol: "sctp"}}}, `protocol "sctp"`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", Protocol: "udp"}}}, `udp names its port`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", Scheme: "https", Protocol: "udp", Port: 443}}}, `isn't spoken over udp`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "127.0.0.1", Listen: true}}}, `listen names its port`},
		{policy.SourceLayer{Net: []policy.NetRule{{Listen: true}}}, `listen names its port`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "localhost", Protocol: "udp", Listen: true}}}, `udp names its port`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "localhost", Scheme: "http", Listen: true}}}, `listen has no scheme`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", Listen: true, Port: 80}}}, `can't be listened on`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", Methods: []string{"get"}, Scheme: "http"}}}, `method "get" isn't one in capitals`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", Methods: []string{}, Scheme: "http"}}}, `methods is empty`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", Methods: []string{"GET"}}}}, `methods on https can't be decided without decrypting it (set "tls_intercept = true"`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", PathPrefix: "/x", Scheme: "https"}}}, `path_prefix on https can't be decided`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", PathPrefix: "x", Scheme: "http"}}}, `path_prefix "x" isn't a path`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", PathPrefix: "/\x1f", Scheme: "http"}}}, `path_prefix "/\x1f" isn't a path`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", PathPrefix: "/\x7f", Scheme: "http"}}}, `path_prefix "/\x7f" isn't a path`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", PathPrefix: "/a/../b", Scheme: "http"}}}, `read in more than one way`},
		{policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", PathPrefix: "/a", Scheme: "ssh"}}}, `don't apply to scheme "ssh"`},
		{policy.SourceLayer{Env: []policy.EnvRule{{Name: "A*B"}}}, `env.1: "A*B" has a "*" that isn't its end (a name is exact, or a prefix`},
		{policy.SourceLayer{Env: []policy.EnvRule{{Name: "**"}}}, `isn't its end`},
		{policy.SourceLayer{Env: []policy.EnvRule{{Name: ""}}}, `empty name`},
		{policy.SourceLayer{Env: []policy.EnvRule{{Name: "A=B"}}}, `"A=B" isn't the name of a variable`},
		{policy.SourceLayer{Commands: []policy.CommandRule{policytest.Command("./git")}}, `commands../git: "./git" isn't the name of a program`},
		{policy.SourceLayer{Commands: []policy.CommandRule{policytest.Command("git", []string{"**", "x"})}}, `has "**" before its end`},
		{
			policy.SourceLayer{Commands: []policy.CommandRule{{Name: "git", Args: [][]string{{"status"}}, HasArgs: true, Match: []policy.SelfTest{{Argv: []string{"git", "status", "-s"}}}}}},
			`commands.git: self-test failed: match ["git", "status", "-s"] isn't accepted by args [["status"]]`,
		},
		{policy.SourceLayer{Commands: []policy.CommandRule{{Name: "git", NotMatch: []policy.SelfTest{{Argv: []string{"git", "push"}}}}}}, `not_match ["git", "push"]: any arguments are accepted`},
		{policy.SourceLayer{Commands: []policy.CommandRule{{Name: "git", Match: []policy.SelfTest{{Argv: []string{"status"}}}}}}, `doesn't begin with "git"`},
		{policy.SourceLayer{Commands: []policy.CommandRule{{Name: "git", Envs: []string{"A*B"}, HasEnvs: true}}}, `envs: "A*B" has a "*"`},
	} {
		_, err := policy.Compile(policytest.Source(x.layer), policytest.Machine())
		var errs policy.Errors
		switch {
		case !errors.As(err, &errs):
			t.Errorf("compiles; want %q", x.want)
		case len(errs) != 1 || !strings.Contains(err.Error(), x.want):
			t.Errorf("%d mistakes:\n\t%v\nwant one:\n\t%s", len(errs), err, x.want)
		}
	}
}

func TestEveryMistakeAtOnce(t *testing.T) {
	_, err := policy.Compile(policytest.Source(policy.SourceLayer{
		FS:  []policy.FSRule{policytest.Path("../x", policy.Read), policytest.Path("src", policy.Read), policytest.Match("*.x", 0)},
		Net: []policy.NetRule{policytest.Host("a b", true)}, Env: []policy.EnvRule{{Name: "A*B"}},
		Commands: []policy.CommandRule{policytest.Command("git", []string{"**", "**"})},
	}), policytest.Machine())
	var lines []int
	all, _ := errors.AsType[policy.Errors](err)
	for _, e := range all {
		lines = append(lines, e.Position.Line)
	}
	if got := fmt.Sprint(lines); got != "[1 3 4 5 6]" {
		t.Errorf("lines %s\n%v", got, err)
	}
	for _, order := range [][]policy.Authority{{policy.Session, policy.Host}, {policy.Host, policy.Host}, {policy.NumAuthorities}} {
		src := policytest.Source(policy.SourceLayer{Authority: order[0]}, policy.SourceLayer{Authority: order[len(order)-1]})
		if _, err := policy.Compile(&policy.Source{Name: "test", Workspace: policytest.Workspace, Layers: src.Layers[:len(order)]}, policytest.Machine()); err == nil || !strings.Contains(err.Error(), "out of order") {
			t.Errorf("%v: %v", order, err)
		}
	}
}

func TestOptionalRulesAreLeftOut(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{policytest.Optional(policytest.Path("/nowhere", policy.Read)), policytest.Optional(policytest.Path("loop", policy.Read)), policytest.Optional(policytest.Path("../x", policy.Read)), policytest.Optional(policytest.Match("/nowhere/**/x", 0)), policytest.Optional(policytest.Path("src", policy.Read))}})
	if n := len(c.Layers[1].FS.Rules()); n != 1 {
		t.Errorf("%d rules are left", n)
	}
}

func TestIDs(t *testing.T) {
	preset := policytest.Path("tests", policy.Read)
	preset.Position = policy.Position{"preset:python", 3, 1}
	runtime := policytest.Path("/usr", policy.Read|policy.Execute)
	runtime.Position = policy.Position{"builtin:runtime", 1, 1}
	layer := func(a policy.Authority) policy.SourceLayer {
		return policy.SourceLayer{
			Authority: a, FS: []policy.FSRule{policytest.Path(".", policy.Read), preset, policytest.Path("src", policy.Read)}, Runtime: []policy.FSRule{runtime}, Net: []policy.NetRule{policytest.Host("a.com", true)},
			Env: []policy.EnvRule{{Name: "A"}}, Commands: []policy.CommandRule{policytest.Command("git")}, Protect: policy.ProtectOn, Protected: []policy.FSRule{{Match: "**/.git/hooks", Position: policy.Position{"builtin:protect", 1, 1}}},
		}
	}
	var ids []string
	seen := map[string]bool{}
	for i, r := range policytest.Compile(t, layer(policy.Host), layer(policy.Session)).Rules {
		if seen[r.ID] || int(r.Index) != i {
			t.Errorf("rule %d has index %d and id %q", i, r.Index, r.ID)
		}
		if seen[r.ID] = true; r.Authority != policy.Builtin {
			ids = append(ids, r.ID)
		}
	}
	want := "host.runtime.1 host.fs.1 host.python.fs.1 host.fs.2 host.protect.1 host.net.1 host.env.1 host.commands.git " +
		"runtime.1 fs.1 python.fs.1 fs.2 protect.1 net.1 env.1 commands.git"
	if got := strings.Join(ids, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestText(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{
		FS:       []policy.FSRule{policytest.Path(`a"b`, policy.Read|policy.Write), policytest.Match("**/x*", policy.Create|policy.Delete), policytest.Unprotected(policytest.Path("c", 0))},
		Net:      []policy.NetRule{{Host: "a.com", Scheme: "http", Port: 80, PathPrefix: "/x", Methods: []string{"GET"}, Allow: true}},
		Env:      []policy.EnvRule{{Name: "A*", Read: true}},
		Commands: []policy.CommandRule{policytest.Command("git", []string{"status", "**"}), policytest.Command("/usr/bin/git")},
	})
	var got []string
	for _, r := range c.Rules[len(policy.Own):] {
		got = append(got, explain.RuleText(r))
	}
	want := []string{
		`{ path = "a\"b", read = true, write = true }`, `{ match = "**/x*", create = true, delete = true }`, `{ path = "c", unprotect = true }`,
		`{ host = "a.com", scheme = "http", port = 80, path_prefix = "/x", methods = ["GET"], allow = true }`, `{ name = "A*", read = true }`,
		`access.commands.git = { args = [["status", "**"]] }`, `access.commands."/usr/bin/git" = {}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDigest(t *testing.T) {
	base := func() *policy.Source {
		s := policytest.Source(policy.SourceLayer{
			FS: []policy.FSRule{policytest.Path(".", policy.Read), policytest.Path("src", policy.Read|policy.Write)}, Runtime: []policy.FSRule{policytest.Path("/usr", policy.Read)},
			Commands: []policy.CommandRule{policytest.Command("git"), policytest.Command("python3")}, Env: []policy.EnvRule{{Name: "A"}, {Name: "B"}},
		})
		s.Layers[0].Runtime[0].Position.File = "builtin:runtime"
		return s
	}
	digest := func(change func(*policy.Source)) string {
		s := base()
		change(s)
		c := policytest.CompileSource(t, s, policytest.Machine())
		return c.Digest
	}
	want := digest(func(*policy.Source) {})
	for name, change := range map[string]func(*policy.Source){
		"another TMPDIR":    func(s *policy.Source) { s.TmpDir = "/tmp/tg" },
		"another file name": func(s *policy.Source) { s.Layers[0].FS[0].Position.File = "other.toml"; s.Name = "other" },
		"policy files":      func(s *policy.Source) { s.Files = []string{"/w/README.md"} },
		"order of commands": func(s *policy.Source) { c := s.Layers[0].Commands; c[0], c[1] = c[1], c[0] },
		"another spelling":  func(s *policy.Source) { s.Layers[0].FS[1].Path = "./link/" },
	} {
		if digest(change) != want {
			t.Errorf("%s changes the digest", name)
		}
	}
	for name, change := range map[string]func(*policy.Source){
		"the TMPDIR": func(s *policy.Source) {
			s.TmpDir, s.Layers[0].FS = "/tmp/tg", append(s.Layers[0].FS, policytest.Path("/tmp/tg", policy.Read))
		},
		"a capability":   func(s *policy.Source) { s.Layers[0].FS[0].Caps = 0 },
		"order of rules": func(s *policy.Source) { f := s.Layers[0].FS; f[0], f[1] = f[1], f[0] },
		"a default":      func(s *policy.Source) { s.Layers[0].Defaults[policy.Net] = policy.Deny },
		"an authority":   func(s *policy.Source) { s.Layers[0].Authority = policy.Host },
		"a limit":        func(s *policy.Source) { s.Limits.Pids.N = 5 },
		"a command":      func(s *policy.Source) { s.Layers[0].Commands[0].HasArgs = true },
		"namespaces":     func(s *policy.Source) { s.Layers[0].Namespaces = true },
	} {
		if digest(change) == want {
			t.Errorf("%s doesn't change the digest", name)
		}
	}
}

func TestOwnFiles(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/", policy.AllCaps)}})
	for _, path := range []string{"/etc/toolguard/policy.d/x.toml", "/run/toolguard/toolguard.sock", "/var/lib/toolguard", "/sys/fs/bpf/toolguard/x", "/sys/fs/cgroup/cgroup.procs"} {
		unchangeable(t, c, path)
	}
}

func unchangeable(t *testing.T, c *policy.Compiled, path string) {
	t.Helper()
	for _, cap := range []policy.Caps{policy.Create, policy.Update, policy.Delete} {
		if v := c.CheckFS(path, cap); v.Reason != policy.Protected {
			t.Errorf("%s %s: %+v", cap, path, v)
		}
	}
	if v := c.CheckFS(path, policy.Read); !v.Allow {
		t.Errorf("read %s: %+v", path, v)
	}
}

// A process that could replace a policy file, or a symlink on the way to it, could choose the next policy.
func TestPolicyFiles(t *testing.T) {
	sys := policytest.Machine()
	for at, what := range map[string]string{
		"/w/p.toml": "-> q/r.toml", "/w/q": "dir", "/w/q/r.toml": "file",
		"/w/conf": "-> ../etc/conf", "/etc/conf": "-> v2", "/etc/v2": "dir", "/etc/v2/p.toml": "-> ../../w/q/r.toml", "/etc/out": "-> ../w/q",
	} {
		sys[at] = what
	}
	for file, want := range map[string]string{
		"/w/q/r.toml":              "/w/q/r.toml",
		"/w/p.toml":                "/w/p.toml /w/q/r.toml",
		"/w/conf/p.toml":           "/w/conf /etc/conf /etc/v2/p.toml /w/q/r.toml",
		"/w/conf/../p.toml":        "/w/conf /etc/conf /etc/p.toml", // not /w/p.toml
		"/w/conf/new":              "/w/conf /etc/conf /etc/v2/new",
		"/etc/out/r.toml":          "/etc/out /w/q/r.toml",
		"/w/dangling":              "/w/dangling /w/nowhere/x",
		"/proc/self/root/w/p.toml": "/w/p.toml /w/q/r.toml",
	} {
		src := policytest.Source(policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/", policy.AllCaps)}})
		src.Files, src.Own = []string{file}, []string{"/home/u/.config/toolguard"}
		c, err := policy.Compile(src, sys)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if v := c.CheckFS("/home/u/.config/toolguard/policies/x.toml", policy.Create); v.Reason != policy.RuleDenies && v.Reason != policy.Protected || c.Rules[v.Rule].Position.File != policy.UserFolders {
			t.Errorf("a policy of the user's own may be made: %+v", v)
		}
		if v := c.CheckRename(policy.Move{Old: "/home/u/.config", New: "/home/u/x", OldDir: true}); v.Reason != policy.NoGain {
			t.Errorf("the folder around the user's own: %+v", v)
		}
		var got []string
		for _, r := range c.Layers[0].FS.Rules()[len(policy.Own):] {
			if r.Position.File == policy.UserFolders {
				continue
			}
			got = append(got, r.FS.Path)
			unchangeable(t, c, r.FS.Path)
		}
		if strings.Join(got, " ") != want || len(c.Files) != 1 || c.Files[0] != got[len(got)-1] {
			t.Errorf("%s: protects %q and has the files %q, want %s", file, got, c.Files, want)
		}
		if v := c.CheckRename(policy.Move{Old: "/w/q", New: "/w/z", OldDir: true}); strings.Contains(want, "/w/q/") && v.Reason != policy.NoGain {
			t.Errorf("the folder of a policy file: %+v", v)
		}
	}
	for file, want := range map[string]string{
		"/w/loop":                  "/w/loop: it can't be protected from the command: too many symlinks in a row",
		"/proc/self/cwd/p.toml":    "only the process itself can follow (name the file itself)",
		"/dev/stdin":               "only the process itself can follow",
		strings.Repeat("/a", 129):  "deeper than 128 components (move it)",
		"/secret/p.toml":           "permission denied",
		"/w/conf/nowhere/../p.tom": `".." after something that doesn't exist`,
	} {
		src := policytest.Source()
		src.Files = []string{file}
		if _, err := policy.Compile(src, sys); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}

func TestProtect(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{
		FS:      []policy.FSRule{policytest.Path(".", policy.Read|policy.Write), policytest.Unprotected(policytest.Path("mine/.git", policy.Read|policy.Write)), policytest.Path("ro", policy.Read)},
		Protect: policy.ProtectOn, Protected: []policy.FSRule{policytest.Match("**/.git/hooks", 0), policytest.Match("**/.envrc", 0)},
	})
	for _, x := range []struct {
		path string
		want policy.Caps
		why  policy.Reason
	}{
		{"/w/.git/hooks/pre-push", policy.Read, policy.Protected},
		{"/w/.git/hooks", policy.Read, policy.Protected},
		{"/w/a/b/.git/hooks/x/y", policy.Read, policy.Protected},
		{"/w/.envrc", policy.Read, policy.Protected},
		{"/w/.git/objects", policy.Read | policy.Write, policy.Allowed},
		{"/w/hooks", policy.Read | policy.Write, policy.Allowed},
		{"/w/mine/.git/hooks/x", policy.Read | policy.Write, policy.Allowed},
		{"/w/ro/.envrc", policy.Read, policy.RuleDenies},
	} {
		if got := c.Caps(x.path); got != x.want {
			t.Errorf("%s: %s, want %s", x.path, got, x.want)
		}
		if v := c.CheckFS(x.path, policy.Update); v.Reason != x.why {
			t.Errorf("%s: %+v, want %s", x.path, v, x.why)
		}
	}
}

func TestSecrets(t *testing.T) {
	const rw, x = policy.Read | policy.Write, policy.Execute
	l := policy.SourceLayer{
		FS:      []policy.FSRule{policytest.Path(".", policy.AllCaps), policytest.Secret(policytest.Path(".ssh/deploy", policy.Read)), policytest.Path("sub/.ssh/id", policy.AllCaps), policytest.Match("**/mine", rw), policytest.Secret(policytest.Match("**/given.key", rw)), policytest.Path("wo", policy.Write)},
		Secrets: policy.ProtectAuto, SecretFiles: []policy.FSRule{policytest.Match("/**/.ssh", 0), policytest.Match("/**/*.key", 0), policytest.Match("/**/.config/gh", 0), policytest.Path("absent", 0), policytest.Match("/**/*.pub", policy.Read)},
		Protect: policy.ProtectOn, Protected: []policy.FSRule{policytest.Match("/**/.ssh/rc", 0)},
	}
	for i := range l.SecretFiles {
		l.SecretFiles[i].Optional = true
	}
	c := policytest.Compile(t, l)
	for _, y := range []struct {
		path string
		want policy.Caps
		why  policy.Reason // of read
	}{
		{"/w/.ssh", policy.Write, policy.Protected},
		{"/w/a/.ssh/new/id", policy.Write, policy.Protected},
		{"/w/a/.ssh/id.pub", policy.AllCaps, policy.Allowed}, // an exception
		{"/w/.ssh/deploy", policy.Read, policy.Allowed},      // an exception
		{"/w/.ssh/deploy/id", policy.Read, policy.Allowed},
		{"/w/sub/.ssh/id", policy.Write, policy.Protected}, // named, but not an exception
		{"/w/.ssh/mine", policy.Write, policy.Protected},
		{"/w/x.key", policy.Write, policy.Protected},
		{"/w/given.key", rw, policy.Allowed},
		{"/w/.config/gh/hosts.yml", policy.Write, policy.Protected},
		{"/w/.config/ghx", policy.AllCaps, policy.Allowed},
		{"/w/absent", policy.Write, policy.Protected}, // where nothing is yet, too
		{"/w/.ssh/rc", 0, policy.Protected},           // covered twice
		{"/w/wo/x.key", policy.Write, policy.RuleDenies},
		{"/w/src", policy.AllCaps, policy.Allowed},
		{"/etc/x.key", 0, policy.NoRule},
	} {
		if got := c.Caps(y.path); got != y.want {
			t.Errorf("%s: %s, want %s", y.path, got, y.want)
		}
		if v := c.CheckFS(y.path, policy.Read); v.Reason != y.why {
			t.Errorf("read %s: %+v, want %s", y.path, v, y.why)
		}
		if got, want := c.CheckFS(y.path, x).Allow, y.want&x != 0; got != want {
			t.Errorf("execute %s: %v", y.path, got)
		}
	}
	for _, mode := range []policy.ProtectMode{policy.ProtectOff, policy.ProtectAuto, policy.ProtectOn} {
		l.Secrets = mode
		if got := policytest.Compile(t, l).CheckFS("/w/x.key", policy.Read).Allow; got != (mode == policy.ProtectOff) {
			t.Errorf("mode %d: %v", mode, got)
		}
	}
	nested, err := c.Within(policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{policytest.Path("src", policy.Read)}, Secrets: policy.ProtectOn, SecretFiles: l.SecretFiles}))
	childtest.Must(t, err)
	outer, inner := nested.Layers[0].Secrets.Rules()[1], nested.Layers[2].Secrets.Rules()[1]
	for layer, want := range map[int]int32{0: outer.Index, 2: inner.Index, 1: outer.Index, -1: outer.Index, 3: outer.Index} {
		if got := nested.SharedRule(layer, outer.Index); got != want || outer.Index == inner.Index {
			t.Errorf("in layer %d %d is %d, want %d", layer, outer.Index, got, want)
		}
	}
	if got := nested.SharedRule(2, policy.NoMatch); got != policy.NoMatch {
		t.Error(got)
	}
	if e := explain.Explain(c, policytest.Machine(), explain.Question{Resource: policy.FS, Caps: policy.Read, Target: "/w/a/.ssh/id"}); e.Layers[0].Winner().ID != "secrets.1" {
		t.Errorf("%+v", e.Layers)
	}
	for target, want := range map[string]string{
		"/w/a/.ssh/id": "credentials are kept here: it denies read and execute", "/w/a/.ssh/id.pub": "an exception: it denies nothing",
		"/w/.ssh/deploy": "fs.2 has secret = true",
	} {
		l := explain.Explain(c, policytest.Machine(), explain.Question{Resource: policy.FS, Caps: policy.Read, Target: target}).Layers[0]
		last := l.Candidates[len(l.Candidates)-1]
		if last.Why != want || last.Won != (target == "/w/a/.ssh/id") || !strings.HasPrefix(last.Grade, "secrets, depth") {
			t.Errorf("%s: %+v", target, last)
		}
	}
}

func TestTargetsInProc(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/proc/self", policy.Read), policytest.Path(".", policy.Read)}})
	for in, want := range map[string]string{
		"/proc/self/status": "/proc/self/status", "/proc/thread-self/status": "/proc/thread-self/status", "/etc/mtab": "/proc/self/mounts",
		"/proc/self/root/etc/shadow": "/etc/shadow", "/proc/self/task/7/root/etc/shadow": "/etc/shadow", "/proc/self/fd": "/proc/self/fd", "/dev/fd": "/proc/self/fd",
		"/w/self/x": "/w/self/x", "/proc/4711/status": "/proc/4711/status", "/proc/self/../4711/status": "/proc/4711/status", "/proc/self/net/tcp": "/proc/self/net/tcp",
		"/proc/self/fd/3": "", "/proc/self/cwd/x": "", "/proc/self/exe": "", "/proc/4711/root/etc/shadow": "", "/dev/stdin": "", "/proc/self/task/7/fd/0": "", "/proc/self/ns/net": "",
	} {
		got, err := c.ResolveTarget(policytest.Machine(), in, true)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", in, got, err, want)
		}
	}
	if r := c.Layers[1].FS.Rules()[0].FS; r.Path != "/proc/self" {
		t.Errorf("the rule is for %s", r.Path)
	}
}

func TestLimitsOfPaths(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/", policy.AllCaps)}})
	for path, ok := range map[string]bool{
		strings.Repeat("/a", 128): true, strings.Repeat("/a", 129): false, "/" + strings.Repeat("a", 4095): true, "/" + strings.Repeat("a", 4096): false,
		"": false, "a": false, "/a/": false, "//": false, "/a//b": false, "/.": false, "/a/..": false, "/a/./b": false, "/a\x00": false, "/": true, "/...": true, "/.a": true,
	} {
		if v := c.CheckFS(path, policy.Read); v.Allow != ok || !ok && v.Reason != policy.PathUnresolved {
			t.Errorf("%.20q (%d bytes): %+v", path, len(path), v)
		}
	}
}

func TestCalled(t *testing.T) {
	for _, x := range []struct{ name, program, want string }{
		{"git", "/usr/bin/git", "git"},
		{"python", "/usr/bin/python3.11", "python python3.11 python3"},
		{"/opt/cc", "/usr/bin/x86_64-linux-gnu-gcc-12", "cc"},
		{"cargo", "/opt/bin/rustup", "cargo"},
		{"gcc", "/usr/bin/gcc-12", "gcc gcc-12"},
		{"7z", "/usr/bin/7", "7z"},
		{"a1.2.3.4.5.6", "/a-7.8", "a1.2.3.4.5.6 a1.2.3.4.5 a1.2.3.4 a1.2.3 a1.2 a1 a"},
	} {
		c := &policy.CompiledCommand{CommandRule: policy.CommandRule{Name: x.name, HasArgs: true}, Program: x.program}
		if got := strings.Join(c.Called(), " "); got != x.want {
			t.Errorf("%s, %s: %s, want %s", x.name, x.program, got, x.want)
		}
		for called, want := range map[string]bool{
			c.Called()[0]: true, "/any/where/" + c.Called()[0]: true, "x" + c.Called()[0]: false, c.Called()[0] + "-x": false,
			c.Called()[0] + "/": false, "": false, "-" + c.Called()[0]: false,
		} {
			if c.AcceptsName(called) != want || (c.NameMismatch(called) == "") != want {
				t.Errorf("%s, %s: called %q: %q, want %v", x.name, x.program, called, c.NameMismatch(called), want)
			}
		}
	}
}

// A program of many names has a rule for each, of which the last one that accepts argument 0 decides.
func TestOneProgramOfManyNames(t *testing.T) {
	args := func(words ...string) []string { return words }
	c := policytest.Compile(t, policy.SourceLayer{Commands: []policy.CommandRule{
		policytest.Command("sh", args("a")), policytest.Command("dash", args("b")), policytest.Command("/bin/sh", args("c")),
		policytest.Command("git"), policytest.Command("/usr/bin/git-status", args("d")), policytest.Command("python3", args("e")), policytest.Command("/opt/python", args("f")),
	}})
	for line, want := range map[string]string{
		"sh a": "", "sh b": "", "sh c": "/bin/sh", "dash b": "dash", "dash a": "", "/usr/bin/dash b": "dash",
		"python3 e": "python3", "python3.11 f": "/opt/python", "/opt/python f": "/opt/python", "/opt/python e": "",
		"git push": "git", "git-status d": "/usr/bin/git-status", "git-status e": "",
	} {
		argv := strings.Fields(line)
		_, a := explain.Ask(c, policytest.Machine(), explain.Question{Resource: policy.Commands, Argv: argv})
		if (a.Decision == "allow") != (want != "") || a.Rule == nil || want != "" && a.Rule.Command.Name != want {
			t.Errorf("%s: %s by %v, want %q", line, a.Decision, a.Rule, want)
		}
		x := explain.Explain(c, policytest.Machine(), explain.Question{Resource: policy.Commands, Argv: argv})
		won := 0
		for _, candidate := range x.Layers[len(x.Layers)-1].Candidates {
			if candidate.Won && candidate.Rule == a.Rule {
				won++
			}
		}
		if won != 1 {
			t.Errorf("%s: explained by %+v", line, x.Layers)
		}
	}
	if v := c.CheckCommand("/usr/bin/dash", []string{"rbash", "b"}); v.Reason != policy.ArgsNotListed || c.Rules[v.Rule].Command.Name != "/bin/sh" {
		t.Errorf("by another name: %+v", v)
	}
}

func TestCommands(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{Commands: []policy.CommandRule{
		policytest.Command("git", []string{"status", "**"}, []string{"diff", "**"}, []string{"log"}), policytest.Command("python3"), policytest.Command("missing"),
		{Name: "/usr/bin/notes"},
	}})
	for _, x := range []struct {
		argv []string
		want policy.Reason
	}{
		{[]string{"git", "status"}, policy.Allowed},
		{[]string{"git", "status", "-s"}, policy.Allowed},
		{[]string{"git", "log"}, policy.Allowed},
		{[]string{"/bin/git", "log"}, policy.Allowed},
		{[]string{"git", "log", "-1"}, policy.ArgsNotListed},
		{[]string{"git"}, policy.ArgsNotListed},
		{[]string{"git", "push"}, policy.ArgsNotListed},
		{[]string{"git", "statusx"}, policy.ArgsNotListed},
		{[]string{"/usr/bin/git-status", "status"}, policy.ArgsNotListed},
		{[]string{"python3", "x.py"}, policy.Allowed},
		{[]string{"python3.11"}, policy.Allowed},
		{[]string{"missing"}, policy.CommandNotListed},
		{[]string{"/usr/bin/notes"}, policy.CommandNotListed},
		{nil, policy.CommandNotListed},
	} {
		if v, a := explain.Ask(c, policytest.Machine(), explain.Question{Resource: policy.Commands, Argv: x.argv}); v.Reason != x.want {
			t.Errorf("%q: %+v, want %s", x.argv, a, x.want)
		}
	}
	both := policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Read)}, Commands: []policy.CommandRule{policytest.Command("git")}})
	if v, a := explain.Ask(both, policytest.Machine(), explain.Question{Resource: policy.Commands, Argv: []string{"git"}}); v.Allow || a.Note == "" {
		t.Errorf("fs must agree too: %+v", a)
	}
}

func TestSees(t *testing.T) {
	r := policy.CommandRule{HasEnvs: true, Envs: []string{"PATH", "GIT_*"}}
	for name, want := range map[string]bool{"PATH": true, "GIT_DIR": true, "PATHX": false, "HOME": false} {
		if r.Sees(name) != want || !(&policy.CommandRule{}).Sees(name) {
			t.Errorf("%s: %v", name, r.Sees(name))
		}
	}
}

// A mistake in a value is where the value is, and one in a workspace where that was named.
func TestPositions(t *testing.T) {
	at := func(line, col int) (policy.Position, policy.LineCol) {
		return policy.Position{"p.toml", line, 1}, policy.LineCol{int32(line) + 1, int32(col)}
	}
	var l policy.SourceLayer
	fs, nt, ev := policytest.Path("../x", policy.Read), policytest.Host("10.0.0.0/33", true), policy.EnvRule{Name: "A*B"}
	fs.Position, fs.Value = at(1, 8)
	nt.Position, nt.Value = at(3, 9)
	ev.Position, ev.Value = at(5, 10)
	combined := policy.NetRule{Host: "a.com", Protocol: "udp"}
	combined.Position, combined.Value = at(7, 9)
	l.FS, l.Net, l.Env = []policy.FSRule{fs}, []policy.NetRule{nt, combined}, []policy.EnvRule{ev}
	l.Commands = []policy.CommandRule{{
		Name: "git", Position: policy.Position{"p.toml", 9, 1}, HasArgs: true,
		Match: []policy.SelfTest{{[]string{"git", "x"}, policy.Position{"p.toml", 11, 12}}, {Argv: []string{"git", "y"}}},
	}}
	_, err := policy.Compile(policytest.Source(l), policytest.Machine())
	all, _ := errors.AsType[policy.Errors](err)
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprintf("%d:%d", e.Position.Line, e.Position.Col))
	}
	if s := strings.Join(got, " "); s != "2:8 4:9 6:10 7:1 9:1 11:12" {
		t.Errorf("%s\n%v", s, err)
	}

	src := policytest.Source(policy.SourceLayer{})
	src.Workspace = "/nowhere"
	if _, err := policy.Compile(src, policytest.Machine()); err == nil || !strings.HasPrefix(err.Error(), `test: the workspace "/nowhere" can't be used`) {
		t.Error(err)
	}
	src.Chosen = policy.Position{"p.toml", 2, 13}
	if _, err := policy.Compile(src, policytest.Machine()); err == nil || !strings.HasPrefix(err.Error(), `p.toml:2:13: the workspace "/nowhere" can't be used`) {
		t.Error(err)
	}
}

func TestHints(t *testing.T) {
	for path, want := range map[string]string{
		"../x":       "if that is intended, write it as an absolute path",
		"out/passwd": "if that is intended, write it as an absolute path",
		"dangling":   "write the path of something that exists, or leave the rule out",
	} {
		_, err := policy.Compile(policytest.Source(policy.SourceLayer{FS: []policy.FSRule{policytest.Path(path, policy.Read)}}), policytest.Machine())
		if all, ok := errors.AsType[policy.Errors](err); !ok || all[0].Hint != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The symlinks that lead to readable paths are readable: those of the workspace, the home, the TMPDIR, and of rules.
func TestWaysMayBeRead(t *testing.T) {
	sys := fspathtest.New(map[string]string{
		"/data/home/u/w/sub": "dir", "/data/home/u/w/link": "-> sub", "/home": "-> data/home", "/scratch": "-> data/tmp", "/data/tmp/t": "dir", "/usr": "dir",
		"/opt/v1": "dir", "/opt/current": "-> v1", "/secret": "-> data/secret", "/data/secret": "dir", "/write": "-> data/write", "/data/write": "dir",
		"/data/home/u/w/gone": "-> nowhere",
	})
	src := policytest.Source(policy.SourceLayer{Runtime: []policy.FSRule{policytest.Optional(policytest.Path("/usr", policy.Read))}, FS: []policy.FSRule{
		policytest.Path(".", policy.Read|policy.Write), policytest.Path("/opt/current", policy.Read), policytest.Path("/secret", 0), policytest.Path("/write", policy.Write), policytest.Match("/**/link", 0),
	}})
	src.Workspace, src.Home, src.TmpDir = "/home/u/w", "/home/u", "/scratch/t"
	src.Layers[0].Runtime[0].Position.File = "builtin:runtime"
	c := policytest.CompileSource(t, src, sys)
	link := explain.Question{Resource: policy.FS, Caps: policy.Read, Symlink: true}
	for target, want := range map[string]string{
		"/home": "allow", "/scratch": "allow", "/opt/current": "allow", "gone": "allow",
		"/secret": "deny", "/write": "deny", "link": "deny", "/data": "deny",
	} {
		link.Target = target
		if _, a := explain.Ask(c, sys, link); a.Decision != want {
			t.Errorf("readlink %s: %s", target, a.Decision)
		}
	}
	link.Target = "/secret"
	if _, a := explain.Ask(c, sys, link); a.Suggest != "[[access.fs]]\nmatch = \"/**/secret\"\nread = true\n" {
		t.Errorf("what would let /secret itself be read: %q", a.Suggest)
	}
	for _, r := range c.Rules {
		if r.FS != nil && r.FS.Symlink && !r.Grants() {
			t.Errorf("%s on %s doesn't only add", r.ID, r.FS.Path)
		}
	}
}

// Rules of built-in files for paths outside the workspace only add to the capabilities there.
func TestBuiltinRulesOnlyAdd(t *testing.T) {
	const r, rx, rw, ru = policy.Read, policy.Read | policy.Execute, policy.Read | policy.Write, policy.Read | policy.Update
	sys := fspathtest.New(map[string]string{
		"/w/lib": "dir", "/usr/share/zone/UTC": "file", "/etc/localtime": "-> ../usr/share/zone/UTC", "/bin": "-> usr/bin",
		"/usr/bin": "dir", "/etc/passwd": "file", "/dev/null": "file", "/tmp/t": "dir", "/home/u/.pyenv": "dir", "/opt/x": "dir",
	})
	builtin := func(rules ...policy.FSRule) (out []policy.FSRule) {
		for _, r := range rules {
			r.Position.File = "preset:x"
			out = append(out, policytest.Optional(r))
		}
		return out
	}
	runtime := builtin(policytest.Path("/usr", rx), policytest.Path("/bin", rx), policytest.Path("/etc/passwd", r), policytest.Path("/etc/localtime", r), policytest.Path("/dev/null", ru), policytest.Unprotected(policytest.Path("/tmp/t", rw)))
	home := builtin(policytest.Path("~/.pyenv", rx))
	for _, x := range []struct {
		what  string
		layer policy.SourceLayer
		left  string // the rules that aren't left out
		caps  map[string]policy.Caps
	}{
		{
			"beneath another built-in one",
			policy.SourceLayer{Runtime: runtime, FS: []policy.FSRule{policytest.Path(".", r)}},
			"runtime.1 runtime.3 runtime.5 runtime.6 runtime.link.1 runtime.link.2 fs.1",
			map[string]policy.Caps{
				"/usr/bin/x": rx, "/usr/share/zone/UTC": rx, "/etc/passwd": r, "/dev/null": ru, "/tmp/t/x": rw, "/w/x": r, "/bin": r, "/etc/localtime": r,
			},
		},
		{
			"beneath one that grants some of it",
			policy.SourceLayer{Runtime: runtime, FS: []policy.FSRule{policytest.Path("/", rx)}},
			"runtime.5 runtime.6 fs.1",
			map[string]policy.Caps{"/etc/passwd": rx, "/dev/null": ru | policy.Execute, "/tmp/t": policy.AllCaps, "/usr/bin/x": rx},
		},
		{
			"beneath one that grants all of it",
			policy.SourceLayer{FS: append(home, policytest.Path("~", policy.AllCaps))},
			"fs.1",
			map[string]policy.Caps{"/home/u/.pyenv/x": policy.AllCaps},
		},
		{
			"on the same path as an earlier one",
			policy.SourceLayer{FS: append([]policy.FSRule{policytest.Path("~/.pyenv", rw)}, home...)},
			"fs.1 x.fs.1",
			map[string]policy.Caps{"/home/u/.pyenv/x": policy.AllCaps},
		},
		{
			"on the same path as a later one",
			policy.SourceLayer{FS: append(home, policytest.Path("~/.pyenv", 0), policytest.Path("~", policy.AllCaps))},
			"fs.1 fs.2",
			map[string]policy.Caps{"/home/u/.pyenv/x": 0},
		},
		{
			"of the workspace it isn't only that",
			policy.SourceLayer{FS: append(builtin(policytest.Path(".", rx), policytest.Path("lib", r)), policytest.Path("/", policy.AllCaps))},
			"x.fs.1 x.fs.2 fs.1",
			map[string]policy.Caps{"/w/x": rx, "/w/lib/x": r, "/opt": policy.AllCaps},
		},
		{
			"beneath the workspace of a preset",
			policy.SourceLayer{FS: append(builtin(policytest.Path(".", policy.AllCaps), policytest.Path("/w/lib", rx)), policytest.Path("/opt", r))},
			"x.fs.1 fs.1",
			map[string]policy.Caps{"/w/lib/x": policy.AllCaps},
		},
		{
			"where a pattern denies",
			policy.SourceLayer{Runtime: runtime, FS: []policy.FSRule{policytest.Path("/", rx), policytest.Match("/**/pass*", 0)}},
			"runtime.5 runtime.6 fs.1 fs.2",
			map[string]policy.Caps{"/etc/passwd": 0, "/opt/passwd": 0, "/etc/x": rx},
		},
		{
			"where a pattern decides",
			policy.SourceLayer{Runtime: runtime, FS: []policy.FSRule{policytest.Path(".", r), policytest.Match("/**/x", 0), policytest.Match("/**/etc", rx)}},
			"runtime.1 runtime.5 runtime.6 runtime.link.1 fs.1 fs.2 fs.3",
			map[string]policy.Caps{"/etc/passwd": rx},
		},
		{
			"where a path beats a pattern",
			policy.SourceLayer{Runtime: runtime, FS: []policy.FSRule{policytest.Path("/etc", rx), policytest.Match("/**/etc", 0)}},
			"runtime.1 runtime.5 runtime.6 runtime.link.1 fs.1 fs.2",
			map[string]policy.Caps{"/etc/passwd": rx},
		},
		{
			"what stands between denies",
			policy.SourceLayer{Runtime: runtime, FS: []policy.FSRule{policytest.Path("/", policy.AllCaps), policytest.Path("/etc", 0)}},
			"runtime.6 fs.1 fs.2",
			map[string]policy.Caps{"/etc/passwd": 0, "/etc/x": 0, "/usr/bin/x": policy.AllCaps},
		},
		{
			"under a default of allow",
			policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.FS: policy.Allow}, FS: append(home, policytest.Path("/opt", r))},
			"fs.1",
			map[string]policy.Caps{"/home/u/.pyenv/x": policy.AllCaps, "/opt/x": r},
		},
		{
			"protected",
			policy.SourceLayer{Runtime: runtime, FS: []policy.FSRule{policytest.Unprotected(policytest.Path("/", rw))}, Protect: policy.ProtectOn, Protected: []policy.FSRule{policytest.Match("/**/bin", 0)}},
			"runtime.1 fs.1 protect.1",
			map[string]policy.Caps{"/usr/bin": policy.AllCaps, "/opt/bin": rw, "/tmp/t/bin": rw},
		},
		{
			"unprotected itself",
			policy.SourceLayer{Runtime: runtime, FS: []policy.FSRule{policytest.Path("/", rw)}, Protect: policy.ProtectOn, Protected: []policy.FSRule{policytest.Match("/**/bin", 0)}},
			"runtime.1 runtime.6 fs.1 protect.1",
			map[string]policy.Caps{"/opt/bin": r, "/tmp/t/bin": rw},
		},
	} {
		for i := range x.layer.Runtime {
			x.layer.Runtime[i].Position.File = "builtin:runtime"
		}
		c := policytest.CompileOn(t, sys, x.layer)
		var left []string
		for i, r := range c.Rules {
			if int(r.Index) != i {
				t.Errorf("%s: %s has index %d at %d", x.what, r.ID, r.Index, i)
			}
			if r.Authority != policy.Builtin {
				left = append(left, r.ID)
			}
		}
		if got := strings.Join(left, " "); got != x.left {
			t.Errorf("%s: %s are left, want %s", x.what, got, x.left)
		}
		for path, want := range x.caps {
			if got := c.Caps(path); got != want {
				t.Errorf("%s: %s gets %s, want %s", x.what, path, got, want)
			}
		}
	}
}

// The tables find every rule, however many there are.
func TestManyRules(t *testing.T) {
	c := policytest.CompileSource(t, big(3000), fspathtest.New(map[string]string{"/w": "dir"}))
	for _, l := range c.Layers {
		for _, r := range l.FS.Literals() {
			if d := l.FS.Deciding(r.FS.Path); d == nil || d.FS.Path != r.FS.Path || d.Index < r.Index {
				t.Fatalf("%s decides on %s", d.ID, r.FS.Path)
			}
			if d := l.FS.Deciding(r.FS.Path + "/no such name"); d == nil || d.FS.Path != r.FS.Path {
				t.Fatalf("%v decides beneath %s", d, r.FS.Path)
			}
		}
	}
}
