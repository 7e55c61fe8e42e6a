package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

func TestLint(t *testing.T) {
	all := [policy.NumResources]policy.DefaultAction{policy.Allow, policy.Allow, policy.Allow, policy.Allow}
	for _, x := range []struct {
		layer policy.SourceLayer
		want  string // the warnings' codes with their lines
	}{
		{policy.SourceLayer{Defaults: all}, ""},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Read)}}, ""},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Path("src", policy.Read), policytest.Path("link", policy.Read)}}, "never-wins:1"},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Path("src", policy.Read), policytest.Path("src/generated", policy.Read)}}, ""},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Match("src/**/x", policy.Read), policytest.Match("**/x", policy.Read)}}, "never-wins:1"},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Match("**/x", policy.Read), policytest.Match("src/**/x", policy.Read)}}, ""},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Match("**/a/x", policy.Read), policytest.Match("**/a/y", policy.Read), policytest.Match("**/b/y", policy.Read)}}, ""},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Path(".", policy.Read), policytest.Path("absent", policy.Read)}, Env: []policy.EnvRule{{Name: "LD_PRELOAD", Read: true, Position: policy.Position{File: "p.toml", Line: 1, Col: 1}}}}, "loader-env:1 missing:2"},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Path("*.rs", 0)}}, "literal-star:1"},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Path("tests/../src", policy.Read)}}, "dotdot:1"},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Path("absent", policy.Read)}}, "missing:1"},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Path("absent", 0)}}, ""},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Path("src", policy.Write|policy.Execute)}}, "write-execute:1"},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Path("/usr", policy.Read|policy.Write)}}, "writable-path:1 writable-path:1"},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Unprotected(policytest.Path("src", policy.Read))}}, "unprotect:1"},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Secret(policytest.Path("src", policy.Read))}}, "secret:1"},
		{policy.SourceLayer{Defaults: all, FS: []policy.FSRule{policytest.Path("src", policy.Read), policytest.Secret(policytest.Path("src/lib.rs", policy.Read)), policytest.Path("tests", 0), policytest.Match("src/**/x", policy.Read)}, Secrets: policy.ProtectOn, SecretFiles: []policy.FSRule{policytest.Path("src", 0), policytest.Path("tests", 0)}}, "secret:1"},
		{
			policy.SourceLayer{Defaults: all, Net: []policy.NetRule{policytest.Host("*.co.uk", true), policytest.Host("*.github.io", true), policytest.Host("*.com", true), policytest.Host("*.example.com", true), policytest.Host("*.com", false)}},
			"public-suffix:1 public-suffix:2 public-suffix:3 never-wins:3 denied-name:5",
		},
		{policy.SourceLayer{Defaults: all, Net: []policy.NetRule{policytest.Host("0.0.0.0/0", true)}}, "every-address:1"},
		{policy.SourceLayer{Defaults: all, Net: []policy.NetRule{policytest.Host("0.0.0.0", true), policytest.Host("::", false), {Host: "0.0.0.0", Port: 80, Listen: true}}}, "no-address:1 no-address:2"},
		{policy.SourceLayer{Defaults: all, Net: []policy.NetRule{
			{Host: "10.0.0.0/8", Port: 22, Allow: true}, policytest.Host("10.1.0.0/16", false), policytest.Host("10.0.0.0/7", false), {Host: "10.2.0.0/16", Protocol: "udp"},
		}}, "outweighed:2"},
		{policy.SourceLayer{Defaults: all, Net: []policy.NetRule{
			{Host: "::/0", Port: 443, Allow: true},
			policytest.Host("10.0.0.0/8", false),
			{Host: "127.0.0.0/8", Port: 80, Allow: true},
			policytest.Host("localhost", false),
		}}, "every-address:1 outweighed:2 outweighed:4 outweighed:4"},
		{policy.SourceLayer{Defaults: all, Net: []policy.NetRule{{Host: "10.0.0.0/8", Protocol: "tcp"}, {Host: "10.0.0.0/8", Protocol: "tcp", Allow: true}}}, ""},
		{policy.SourceLayer{Defaults: all, Net: []policy.NetRule{policytest.Host("a.com", true), policytest.Host("A.com.", false), policytest.Host("b.com", true)}}, "never-wins:1 denied-name:2"},
		{policy.SourceLayer{Defaults: all, Net: []policy.NetRule{policytest.Host("*.a.com", false), {Host: "b.com", Port: 22}, policytest.Host("10.0.0.1", false), policytest.Host("localhost", false)}}, "denied-name:1 denied-name:2"},
		{policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.Allow, policy.Deny, policy.Allow, policy.Allow}, Net: []policy.NetRule{policytest.Host("a.com", false)}}, ""},
		{policy.SourceLayer{Defaults: all, Net: []policy.NetRule{{Host: "a.com", Scheme: "https", Allow: true}, {Host: "a.com", Scheme: "wss"}}}, "wss-is-https:2 denied-name:2"},
		{policy.SourceLayer{Defaults: all, Net: []policy.NetRule{{Host: "a.com", Scheme: "wss", Allow: true}, {Host: "a.com", Scheme: "https", Allow: true}}}, "wss-is-https:1"},
		{policy.SourceLayer{Defaults: all, TLSIntercept: true, Net: []policy.NetRule{{Host: "a.com", Scheme: "wss", Allow: true}}}, ""},
		{policy.SourceLayer{Defaults: all, Net: []policy.NetRule{{Host: "a.com", Scheme: "ssh", Allow: true}, {Host: "a.com", Scheme: "ssh", Allow: true}}}, "never-wins:1"},
		{policy.SourceLayer{Defaults: all, Net: []policy.NetRule{{Host: "a.com", Scheme: "ssh", Allow: true}, {Host: "a.com", Scheme: "ssh"}}}, "denied-name:2"},
		{policy.SourceLayer{Defaults: all, Net: []policy.NetRule{{Host: "127.0.0.1", Port: 22, Listen: true, Allow: true}, policytest.Host("127.0.0.1", false)}}, ""},
		{policy.SourceLayer{Defaults: all, Env: []policy.EnvRule{{Name: "A"}, {Name: "B"}, {Name: "A", Read: true}}}, "never-wins:1"},
		{policy.SourceLayer{Defaults: all, Env: []policy.EnvRule{{Name: "LD_PRELOAD", Read: true}}}, "loader-env:1"},
		{policy.SourceLayer{Defaults: all, Commands: []policy.CommandRule{policytest.Command("absent"), policytest.Command("git"), policytest.Command("/bin/git")}}, "missing:1 never-wins:2"},
		{policy.SourceLayer{Defaults: all, Commands: []policy.CommandRule{{Name: "git", HasArgs: true}}}, "no-args:1"},
		{policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.Deny, policy.Deny, policy.Deny, policy.Deny}, Commands: []policy.CommandRule{policytest.Command("git")}}, "not-executable:1"},
		{policy.SourceLayer{Defaults: all, Syscalls: policy.Syscalls{Allow: []string{"ptrace", "acct", "lsetxattr"}, Position: policy.Position{File: "p.toml", Line: 8, Col: 1}}}, "xattr:8"},
		{policy.SourceLayer{Defaults: all, Degraded: []policy.Degraded{{ID: "fs.9", Position: policy.Position{File: "p.toml", Line: 7, Col: 1}}, {ID: "limits.memory"}, {ID: policy.AuditID, Position: policy.Position{File: "p.toml", Line: 8, Col: 1}}}}, "unknown-rule:7 unknown-rule:8"},
	} {
		c := policytest.Compile(t, x.layer)
		var got []string
		for _, w := range Lint(c, policytest.Machine(), netname.IsPublicSuffix) {
			got = append(got, fmt.Sprintf("%s:%d", w.Code, w.Position.Line))
		}
		if s := strings.Join(got, " "); s != x.want {
			t.Errorf("%+v:\n got %s\nwant %s", x.layer, s, x.want)
		}
	}
}

func TestDiff(t *testing.T) {
	old := policy.SourceLayer{
		FS:  []policy.FSRule{policytest.Path(".", policy.Read|policy.Write), policytest.Path("src", policy.Read), policytest.Match("**/.env", 0)},
		Net: []policy.NetRule{policytest.Host("a.com", true), policytest.Host("*.b.com", true)}, Env: []policy.EnvRule{{Name: "A*", Read: true}},
		Commands: []policy.CommandRule{policytest.Command("git", []string{"status", "**"})},
	}
	change := func(f func(*policy.SourceLayer)) policy.SourceLayer {
		n := old
		n.FS, n.Net = append([]policy.FSRule{}, old.FS...), append([]policy.NetRule{}, old.Net...)
		f(&n)
		return n
	}
	for _, x := range []struct {
		name string
		new  policy.SourceLayer
		want string
	}{
		{"nothing", old, ""},
		{"another way to say it", change(func(l *policy.SourceLayer) {
			l.FS = append(l.FS, policytest.Path("./link", policy.Read), policytest.Path("tests", policy.Read|policy.Write))
		}), ""},
		{"narrower", change(func(l *policy.SourceLayer) { l.FS[0].Caps = policy.Read }), "-fs /w read+create+update+delete → read"},
		{"wider", change(func(l *policy.SourceLayer) { l.FS[1].Caps = policy.AllCaps }), "+fs /w/src read → read+create+update+delete+execute"},
		{"both", change(func(l *policy.SourceLayer) { l.FS[1].Caps = policy.Update }), "±fs /w/src read → update"},
		{"a pattern is gone", change(func(l *policy.SourceLayer) { l.FS = l.FS[:2] }), "+fs /w/.env none → read+create+update+delete\n+fs /w/src/.env none → read"},
		{"undeclared", change(func(l *policy.SourceLayer) { l.FS = nil }), "+fs / none → read+create+update+delete+execute\n" +
			"+fs /w read+create+update+delete → read+create+update+delete+execute\n+fs /w/.env none → read+create+update+delete+execute\n" +
			"+fs /w/src read → read+create+update+delete+execute\n+fs /w/src/.env none → read+create+update+delete+execute"},
		{"a host less", change(func(l *policy.SourceLayer) { l.Net = l.Net[1:] }), "-net git://a.com:9418 allow → deny\n-net http://a.com:80 allow → deny\n-net https://a.com:443 allow → deny\n-net ssh://a.com:22 allow → deny"},
		{"net open", change(func(l *policy.SourceLayer) { l.Net = nil }), "+net every other host deny → allow"},
		{"a variable more", change(func(l *policy.SourceLayer) { l.Env = []policy.EnvRule{{Name: "*", Read: true}} }), "+env * deny → allow\n+env every other variable deny → allow"},
		{"any arguments", change(func(l *policy.SourceLayer) { l.Commands = []policy.CommandRule{policytest.Command("git")} }), "+commands git deny → allow\n+commands git with any arguments deny → allow"},
		{"namespaces", change(func(l *policy.SourceLayer) { l.Namespaces = true }), "+access session: namespaces false → true"},
	} {
		var got []string
		for _, c := range Diff(policytest.Compile(t, old), policytest.Compile(t, x.new)) {
			sign := map[[2]bool]string{{true, false}: "+", {false, true}: "-", {true, true}: "±"}[[2]bool{c.Widened, c.Narrowed}]
			got = append(got, sign+c.Resource+" "+c.Target+" "+c.Old+" → "+c.New)
		}
		if s := strings.Join(got, "\n"); s != x.want {
			t.Errorf("%s:\n%s\nwant\n%s", x.name, s, x.want)
		}
	}
}

func TestDiffOfAddresses(t *testing.T) {
	open := policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Allow}}
	with := func(rules ...policy.NetRule) policy.SourceLayer {
		l := open
		l.Net = rules
		return l
	}
	udp := func(h string) policy.NetRule { return policy.NetRule{Host: h, Protocol: "udp"} }
	port := policy.NetRule{Host: "::/0", Port: 8443, Protocol: "udp", Allow: true}
	for _, x := range []struct {
		name     string
		old, new policy.SourceLayer
		want     string
	}{
		{"a denial", open, with(udp("fd00::/8")), "-udp://[fd00::]:*"},
		{"one of IPv4", open, with(udp("10.0.0.0/8")), "-udp://10.0.0.0:* -udp://[2002:a00::]:* -udp://[64:ff9b::a00:0]:*"},
		{
			"all ports", open, with(policytest.Host("fd00::/8", false)),
			"-git://[fd00::]:9418 -http://[fd00::]:80 -https://[fd00::]:443 -ssh://[fd00::]:22 -tcp://[fd00::]:* -udp://[fd00::]:*",
		},
		{"half of it", with(udp("fd00::/8")), with(udp("fd00::/9")), "+udp://[fd80::]:*"},
		{"both halves", with(policytest.Host("10.0.0.0/8", false)), with(policytest.Host("10.0.0.0/9", false), policytest.Host("10.128.0.0/9", false)), ""},
		{"a port of a wider range", with(udp("fd00::/8")), with(udp("fd00::/8"), port), "+udp://[fd00::]:8443"},
		{"who may be waited for", with(), with(policy.NetRule{Port: 80, Listen: true}), "-listen tcp://0.0.0.0:80 -listen tcp://[::]:80"},
		{"servers of its own", with(), with(policy.NetRule{Host: "localhost", Listen: true}), "-listen tcp://127.0.0.1:* -listen tcp://[::1]:* -listen tcp://localhost:*"},
	} {
		var got []string
		for _, c := range Diff(policytest.Compile(t, x.old), policytest.Compile(t, x.new)) {
			got = append(got, map[bool]string{true: "+", false: "-"}[c.Widened]+c.Target)
		}
		if s := strings.Join(got, " "); s != x.want {
			t.Errorf("%s: %s, want %s", x.name, s, x.want)
		}
	}
}

// Diff reports every effect of a changed rule.
func TestDiffIsComplete(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := policy.SourceLayer{Net: rapid.SliceOfN(rapid.Custom(policytest.GenNet), 0, 5).Draw(t, "rules")}
		old.Defaults[policy.Net] = rapid.SampledFrom([]policy.DefaultAction{policy.Deny, policy.Allow}).Draw(t, "default")
		new := old
		new.Net = slices.Insert(slices.Clone(old.Net), rapid.IntRange(0, len(old.Net)).Draw(t, "place"), policytest.GenNet(t))
		a, errA := policy.Compile(policytest.Source(old), policytest.Machine())
		b, errB := policy.Compile(policytest.Source(new), policytest.Machine())
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		changes := Diff(a, b)
		for range 10 {
			at := netname.Target{Port: uint16(policytest.SomePorts.Draw(t, "to port")), Addr: netip.MustParseAddr(policytest.SomeAddrs.Draw(t, "to")).Unmap()}
			at.Protocol = rapid.SampledFrom([]string{"tcp", "udp"}).Draw(t, "protocol")
			if at.Listen = rapid.Bool().Draw(t, "to listen"); !at.Listen && at.Protocol == "tcp" {
				at.Scheme = policytest.SomeSchemes.Draw(t, "to scheme")
				at.Path = rapid.SampledFrom([][]string{nil, {"x"}}).Draw(t, "path")
			}
			if !at.Listen && rapid.Bool().Draw(t, "named") {
				at.Host, at.Addr = rapid.SampledFrom([]string{"a.com", "x.a.com", "localhost"}).Draw(t, "name"), netip.Addr{}
			}
			was, is := a.CheckNet(&at), b.CheckNet(&at)
			reported := slices.ContainsFunc(changes, func(c Change) bool { return c.Resource == "net" && c.Widened == is.Allow })
			if was.Allow != is.Allow && !reported {
				t.Fatalf("%s was %+v and is %+v, and that isn't reported: %+v", &at, was, is, changes)
			}
		}
	})
}

func TestDiffOfLimitsAndAuthorities(t *testing.T) {
	a, b := policytest.Source(policy.SourceLayer{}), policytest.Source(policy.SourceLayer{Authority: policy.Host, FS: []policy.FSRule{policytest.Path(".", policy.Read)}}, policy.SourceLayer{})
	b.Limits.Pids.N, a.Limits.Memory.N, b.Limits.Memory.N = 5, 10, 20
	var got []string
	x, _ := policy.Compile(a, policytest.Machine())
	y, _ := policy.Compile(b, policytest.Machine())
	for _, c := range Diff(x, y) {
		got = append(got, c.Target+" "+c.Old+" "+c.New)
		if c.Widened == c.Narrowed || c.Widened != (c.Target == "memory") {
			t.Errorf("%+v", c)
		}
	}
	if s := strings.Join(got, ", "); s != "/ read+create+update+delete+execute none, /w read+create+update+delete+execute read, memory 10 20, pids none 5, host has none has a policy" {
		t.Error(s)
	}
}

// The part of a grant that protect denies isn't a separate change.
func TestDiffFoldsProtected(t *testing.T) {
	diff := func(old, new policy.SourceLayer) string {
		var got []string
		for _, c := range Diff(policytest.Compile(t, old), policytest.Compile(t, new)) {
			got = append(got, fmt.Sprint(c.Resource, " ", c.Target, " ", c.Old, " → ", c.New))
		}
		return strings.Join(got, "\n")
	}
	layer := func(mode policy.ProtectMode, rules ...policy.FSRule) policy.SourceLayer {
		return policy.SourceLayer{FS: rules, Protect: mode, Protected: []policy.FSRule{policytest.Match("/**/.git/hooks", 0), policytest.Match("/**/.bashrc", 0)}}
	}
	keys := func(mode policy.ProtectMode, rules ...policy.FSRule) policy.SourceLayer {
		return policy.SourceLayer{FS: rules, Secrets: mode, SecretFiles: []policy.FSRule{policytest.Match("/**/.ssh", 0), policytest.Match("/**/*.pub", policy.Read)}}
	}
	for _, x := range []struct {
		name     string
		old, new policy.SourceLayer
		want     string
	}{
		{"a grant with secrets", keys(policy.ProtectAuto, policytest.Path("src", policy.Read)), keys(policy.ProtectAuto, policytest.Path("src", policy.Read), policytest.Path("tests", policy.Read|policy.Write)), "fs /w/tests none → read+create+update+delete"},
		{
			"no secrets", keys(policy.ProtectOn, policytest.Path(".", policy.Read|policy.Write)), keys(policy.ProtectOff, policytest.Path(".", policy.Read|policy.Write)),
			"fs /w/.ssh create+update+delete → read+create+update+delete\naccess session: readable secrets false → true",
		},
		{"secrets in another way", keys(policy.ProtectOn, policytest.Path(".", policy.Read)), keys(policy.ProtectAuto, policytest.Path(".", policy.Read)), ""},
		{"a grant", layer(policy.ProtectAuto, policytest.Path("src", policy.Read)), layer(policy.ProtectAuto, policytest.Path("src", policy.Read), policytest.Path("tests", policy.Read|policy.Write)), "fs /w/tests none → read+create+update+delete"},
		{"more of a grant", layer(policy.ProtectAuto, policytest.Path(".", policy.Read)), layer(policy.ProtectAuto, policytest.Path(".", policy.Read|policy.Write)), "fs /w read → read+create+update+delete"},
		{
			"a rule of one's own for the same name", layer(policy.ProtectAuto, policytest.Path("src", policy.Read)),
			layer(policy.ProtectAuto, policytest.Path("src", policy.Read), policytest.Path("tests", policy.Read|policy.Write), policytest.Path("tests/.bashrc", policy.Read)),
			"fs /w/tests none → read+create+update+delete\nfs /w/tests/.bashrc none → read",
		},
		{
			"no protection", layer(policy.ProtectAuto, policytest.Path(".", policy.Read|policy.Write)), layer(policy.ProtectOff, policytest.Path(".", policy.Read|policy.Write)),
			"fs /w/.bashrc read → read+create+update+delete\nfs /w/.git/hooks read → read+create+update+delete\naccess session: unprotected files false → true",
		},
		{
			"no protection and a grant", layer(policy.ProtectAuto, policytest.Path(".", policy.Read|policy.Write)), layer(policy.ProtectOff, policytest.Path(".", policy.AllCaps)),
			"fs /w read+create+update+delete → read+create+update+delete+execute\nfs /w/.bashrc read → read+create+update+delete+execute\n" +
				"fs /w/.git/hooks read → read+create+update+delete+execute\naccess session: unprotected files false → true",
		},
	} {
		if got := diff(x.old, x.new); got != x.want {
			t.Errorf("%s:\n%s\nwant\n%s", x.name, got, x.want)
		}
	}
}

func TestLimitText(t *testing.T) {
	for _, x := range []struct {
		name string
		n    uint64
		want string
	}{
		{"memory", 1 << 30, "1GiB"},
		{"memory", 3 << 29, "1536MiB"},
		{"file_size", 2000, "2kB"},
		{"file_size", 1025, "1025"},
		{"io", 10e6, "10MB/s"},
		{"memory", 1 << 52, "4096TiB"},
		{"pids", 1024, "1024"},
		{"cpu", 150, "150%"},
		{"wall_time", 90e9, "1m30s"},
		{"memory", 0, "none"},
	} {
		if got := limitText(x.name, x.n); got != x.want {
			t.Errorf("%s %d: %s, want %s", x.name, x.n, got, x.want)
		}
	}
}
