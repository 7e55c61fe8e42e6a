package explain

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// Rules that can match nothing are reported before the start, and in the denial that they may be intended for.
func TestUnmatched(t *testing.T) {
	read := func(path string, line int) policy.FSRule {
		return policy.FSRule{Path: path, Caps: policy.Read, Position: policy.Position{File: "p.toml", Line: line, Col: 1}}
	}
	absent := policy.FSRule{Path: "/opt/x", Position: policy.Position{File: "preset:x", Line: 9, Col: 1}}
	c := policytest.Compile(t, policy.SourceLayer{Authority: policy.Host, FS: []policy.FSRule{{Path: "/", Caps: policy.AllCaps}, read("/absent", 8)}}, policy.SourceLayer{
		FS:       []policy.FSRule{read(".", 1), read("SRC", 2), {Path: "made", Caps: policy.Read | policy.Write, Position: policy.Position{File: "p.toml", Line: 3, Col: 1}}, {Path: "/nowhere/x", Position: policy.Position{File: "p.toml", Line: 4, Col: 1}}, absent},
		Commands: []policy.CommandRule{{Name: "Git", Position: policy.Position{File: "p.toml", Line: 5, Col: 1}}, {Name: "sh", Position: policy.Position{File: "p.toml", Line: 6, Col: 1}}, {Name: "/opt/bin/make", Position: policy.Position{File: "p.toml", Line: 7, Col: 1}}},
	})
	var got []string
	for _, w := range Unmatched(c, policytest.Machine()) {
		got = append(got, w.String())
	}
	want := `p.toml:2:1: fs.2: /w/SRC doesn't exist and the session can't create it, so the rule matches nothing
p.toml:4:1: fs.4: /nowhere/x doesn't exist and the session can't create it, so the rule matches nothing
p.toml:5:1: commands.Git: there is no program "Git" in PATH, so the rule matches nothing (case matters: it is "git")
p.toml:7:1: commands./opt/bin/make: there is no program "/opt/bin/make" in PATH, so the rule matches nothing`
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
	for _, x := range []struct {
		q    Question
		note string
	}{
		{Question{Resource: policy.Commands, Argv: []string{"git", "status"}}, `commands.Git (p.toml:5:1) may be intended for it, but there is no program "Git" in PATH`},
		{Question{Resource: policy.FS, Caps: policy.Update, Target: "src/a.c"}, "fs.2 (p.toml:2:1) may be intended for it, but /w/SRC doesn't exist"},
		{Question{Resource: policy.FS, Caps: policy.Update, Target: "srcs"}, ""},
		{Question{Resource: policy.FS, Caps: policy.Read, Target: "src"}, ""}, // it's allowed
		{Question{Resource: policy.Commands, Argv: []string{"sh"}}, ""},
	} {
		if _, a := Ask(c, policytest.Machine(), x.q); a.Note != x.note && !(x.note == "" && strings.Contains(a.Note, "its program may not")) {
			t.Errorf("%+v: %q, want %q", x.q, a.Note, x.note)
		}
	}
}
