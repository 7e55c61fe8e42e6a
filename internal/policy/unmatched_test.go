package policy

import (
	"strings"
	"testing"
)

// Rules that can match nothing are known before the start, and named in the denial that they may be meant for.
func TestUnmatched(t *testing.T) {
	read := func(path string, line int) FSRule {
		return FSRule{Path: path, Caps: Read, Place: Place{"p.toml", line, 1}}
	}
	absent := FSRule{Path: "/opt/x", Place: Place{"preset:x", 9, 1}}
	c := compile(t, SourceLayer{Authority: Host, FS: []FSRule{{Path: "/", Caps: AllCaps}, read("/absent", 8)}}, SourceLayer{
		FS:       []FSRule{read(".", 1), read("SRC", 2), {Path: "made", Caps: Read | Write, Place: Place{"p.toml", 3, 1}}, {Path: "/nowhere/x", Place: Place{"p.toml", 4, 1}}, absent},
		Commands: []CommandRule{{Name: "Git", Place: Place{"p.toml", 5, 1}}, {Name: "sh", Place: Place{"p.toml", 6, 1}}, {Name: "/opt/bin/make", Place: Place{"p.toml", 7, 1}}},
	})
	var got []string
	for _, w := range Unmatched(c, machine()) {
		got = append(got, w.String())
	}
	want := `p.toml:2:1: fs.2: nothing is at /w/SRC and the session can't make it, so the rule matches nothing
p.toml:4:1: fs.4: nothing is at /nowhere/x and the session can't make it, so the rule matches nothing
p.toml:5:1: commands.Git: there is no program "Git" in PATH, so the rule matches nothing (case matters: it is "git")
p.toml:7:1: commands./opt/bin/make: there is no program "/opt/bin/make" in PATH, so the rule matches nothing`
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
	for _, x := range []struct {
		q    Question
		note string
	}{
		{Question{Resource: Commands, Argv: []string{"git", "status"}}, `commands.Git (p.toml:5:1) may be meant for it, but there is no program "Git" in PATH`},
		{Question{Resource: FS, Caps: Update, Target: "src/a.c"}, "fs.2 (p.toml:2:1) may be meant for it, but nothing is at /w/SRC"},
		{Question{Resource: FS, Caps: Update, Target: "srcs"}, ""},
		{Question{Resource: FS, Caps: Read, Target: "src"}, ""}, // it's allowed
		{Question{Resource: Commands, Argv: []string{"sh"}}, ""},
	} {
		if _, a := Ask(c, machine(), x.q); a.Note != x.note && !(x.note == "" && strings.Contains(a.Note, "its program may not")) {
			t.Errorf("%+v: %q, want %q", x.q, a.Note, x.note)
		}
	}
}
