package policy

import (
	"fmt"
	"strings"
	"testing"
)

func TestLint(t *testing.T) {
	all := [NumResources]Stance{Allow, Allow, Allow, Allow}
	for _, x := range []struct {
		layer SourceLayer
		want  string // the warnings' codes with their lines
	}{
		{SourceLayer{Defaults: all}, ""},
		{SourceLayer{FS: []FSRule{p(".", Read)}}, "undeclared:0 undeclared:0 undeclared:0"},
		{SourceLayer{Defaults: all, FS: []FSRule{p("src", Read), p("link", Read)}}, "never-wins:1"},
		{SourceLayer{Defaults: all, FS: []FSRule{p("src", Read), p("src/generated", Read)}}, ""},
		{SourceLayer{Defaults: all, FS: []FSRule{m("src/**/x", Read), m("**/x", Read)}}, "never-wins:1"},
		{SourceLayer{Defaults: all, FS: []FSRule{m("**/x", Read), m("src/**/x", Read)}}, ""},
		{SourceLayer{Defaults: all, FS: []FSRule{p("*.rs", 0)}}, "literal-star:1"},
		{SourceLayer{Defaults: all, FS: []FSRule{p("tests/../src", Read)}}, "dotdot:1"},
		{SourceLayer{Defaults: all, FS: []FSRule{p("~root", 0)}}, "tilde:1"},
		{SourceLayer{Defaults: all, FS: []FSRule{p("absent", Read)}}, "missing:1"},
		{SourceLayer{Defaults: all, FS: []FSRule{p("absent", 0)}}, ""},
		{SourceLayer{Defaults: all, FS: []FSRule{p("src", Write|Execute)}}, "write-execute:1"},
		{SourceLayer{Defaults: all, FS: []FSRule{p("/usr", Read|Write)}}, "writable-path:1 writable-path:1"},
		{SourceLayer{Defaults: all, FS: []FSRule{unprotected(p("src", Read))}}, "unprotect:1"},
		{SourceLayer{Defaults: all, Net: []NetRule{host("*.co.uk", true), host("*.github.io", true), host("*.com", true), host("*.example.com", true), host("*.com", false)}},
			"public-suffix:1 public-suffix:2 public-suffix:3 never-wins:3"},
		{SourceLayer{Defaults: all, Net: []NetRule{host("0.0.0.0/0", true)}}, "every-address:1"},
		{SourceLayer{Defaults: all, Net: []NetRule{host("a.com", true), host("A.com.", false), host("b.com", true)}}, "never-wins:1"},
		{SourceLayer{Defaults: all, Env: []EnvRule{{Name: "A"}, {Name: "B"}, {Name: "A", Read: true}}}, "never-wins:1"},
		{SourceLayer{Defaults: all, Env: []EnvRule{{Name: "LD_PRELOAD", Read: true}}}, "loader-env:1"},
		{SourceLayer{Defaults: all, Commands: []CommandRule{cmd("absent"), cmd("git"), cmd("/bin/git")}}, "missing:1 never-wins:2"},
		{SourceLayer{Defaults: all, Commands: []CommandRule{{Name: "git", HasArgs: true}}}, "no-args:1"},
		{SourceLayer{Defaults: [NumResources]Stance{Deny, Deny, Deny, Deny}, Commands: []CommandRule{cmd("git")}}, "not-executable:1"},
		{SourceLayer{Defaults: all, Degraded: []Degraded{{ID: "fs.9", Place: Place{"p.toml", 7, 1}}, {ID: "limits.memory"}}}, "unknown-rule:7"},
	} {
		c := compile(t, x.layer)
		var got []string
		for _, w := range Lint(c, machine()) {
			got = append(got, fmt.Sprintf("%s:%d", w.Code, w.Place.Line))
		}
		if s := strings.Join(got, " "); s != x.want {
			t.Errorf("%+v:\n got %s\nwant %s", x.layer, s, x.want)
		}
	}
}

func TestDiff(t *testing.T) {
	old := SourceLayer{
		FS:  []FSRule{p(".", Read|Write), p("src", Read), m("**/.env", 0)},
		Net: []NetRule{host("a.com", true), host("*.b.com", true)}, Env: []EnvRule{{Name: "A*", Read: true}},
		Commands: []CommandRule{cmd("git", []string{"status", "**"})},
	}
	change := func(f func(*SourceLayer)) SourceLayer {
		n := old
		n.FS, n.Net = append([]FSRule{}, old.FS...), append([]NetRule{}, old.Net...)
		f(&n)
		return n
	}
	for _, x := range []struct {
		name string
		new  SourceLayer
		want string
	}{
		{"nothing", old, ""},
		{"another way to say it", change(func(l *SourceLayer) { l.FS = append(l.FS, p("./link", Read), p("tests", Read|Write)) }), ""},
		{"narrower", change(func(l *SourceLayer) { l.FS[0].Caps = Read }), "-fs /w read+create+update+delete → read"},
		{"wider", change(func(l *SourceLayer) { l.FS[1].Caps = AllCaps }), "+fs /w/src read → read+create+update+delete+execute"},
		{"both", change(func(l *SourceLayer) { l.FS[1].Caps = Update }), "±fs /w/src read → update"},
		{"a pattern is gone", change(func(l *SourceLayer) { l.FS = l.FS[:2] }), "+fs /w/.env none → read+create+update+delete\n+fs /w/src/.env none → read"},
		{"undeclared", change(func(l *SourceLayer) { l.FS = nil }), "+fs / none → read+create+update+delete+execute\n" +
			"+fs /w read+create+update+delete → read+create+update+delete+execute\n+fs /w/.env none → read+create+update+delete+execute\n" +
			"+fs /w/src read → read+create+update+delete+execute\n+fs /w/src/.env none → read+create+update+delete+execute"},
		{"a host less", change(func(l *SourceLayer) { l.Net = l.Net[1:] }), "-net git://a.com:9418 allow → deny\n-net http://a.com:80 allow → deny\n-net https://a.com:443 allow → deny\n-net ssh://a.com:22 allow → deny"},
		{"net open", change(func(l *SourceLayer) { l.Net = nil }), "+net every other host deny → allow"},
		{"a variable more", change(func(l *SourceLayer) { l.Env = []EnvRule{{Name: "*", Read: true}} }), "+env * deny → allow\n+env every other variable deny → allow"},
		{"any arguments", change(func(l *SourceLayer) { l.Commands = []CommandRule{cmd("git")} }), "+commands git deny → allow\n+commands git with any arguments deny → allow"},
		{"namespaces", change(func(l *SourceLayer) { l.Namespaces = true }), "+access session: namespaces false → true"},
	} {
		var got []string
		for _, c := range Diff(compile(t, old), compile(t, x.new)) {
			sign := map[[2]bool]string{{true, false}: "+", {false, true}: "-", {true, true}: "±"}[[2]bool{c.Widened, c.Narrowed}]
			got = append(got, sign+c.Resource+" "+c.Target+" "+c.Old+" → "+c.New)
		}
		if s := strings.Join(got, "\n"); s != x.want {
			t.Errorf("%s:\n%s\nwant\n%s", x.name, s, x.want)
		}
	}
}

func TestDiffOfLimitsAndAuthorities(t *testing.T) {
	a, b := source(SourceLayer{}), source(SourceLayer{Authority: Host, FS: []FSRule{p(".", Read)}}, SourceLayer{})
	b.Limits.Pids.N, a.Limits.Memory.N, b.Limits.Memory.N = 5, 10, 20
	var got []string
	x, _ := Compile(a, machine())
	y, _ := Compile(b, machine())
	for _, c := range Diff(x, y) {
		got = append(got, c.Target+" "+c.Old+" "+c.New)
		if c.Widened == c.Narrowed || c.Widened != (c.Target == "memory") {
			t.Errorf("%+v", c)
		}
	}
	if s := strings.Join(got, ", "); s != "/ read+create+update+delete+execute none, /w read+create+update+delete+execute read, memory 10 20, pids none 5, host has none has a say" {
		t.Error(s)
	}
}
