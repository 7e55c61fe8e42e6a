package approval

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/message"
)

var (
	aaa = strings.Repeat("a", 64)
	bbb = strings.Repeat("b", 64)
)

func facts() *Facts {
	return &Facts{
		Tool: "Bash", Agent: "claude", ArgumentsSHA256: bbb, Argv: []string{"python3", "check.py", "--all"}, Cwd: "/home/u/p", EnvSHA256: aaa,
		Exe:   &message.File{Path: "/usr/bin/python3.13", SHA256: aaa},
		Files: []message.File{{Path: "/home/u/p/check.py", SHA256: bbb}, {Path: "/home/u/p/Grüße.py", SHA256: aaa}},
	}
}

func TestRule(t *testing.T) {
	got, err := Rule(facts())
	childtest.Must(t, err)
	want := `[[approved]]
tool = "Bash"
agent = "claude"
arguments_sha256 = "` + bbb + `"
argv = ["python3", "check.py", "--all"]
cwd = "/home/u/p"
env_sha256 = "` + aaa + `"
exe = { path = "/usr/bin/python3.13", sha256 = "` + aaa + `" }
files = [
  { path = "/home/u/p/Grüße.py", sha256 = "` + aaa + `" }, # not ASCII: U+00FC, U+00DF
  { path = "/home/u/p/check.py", sha256 = "` + bbb + `" },
]
`
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if key := Key(got); key != Key(want) || !isDigest(key) || key == Key(got+"\n") {
		t.Error(key)
	}
	got, err = Rule(&Facts{Tool: "send_mail"})
	childtest.Must(t, err)
	if want := "[[approved]]\ntool = \"send_mail\"\nagent = \"\"\n"; got != want {
		t.Errorf("got %s", got)
	}
}

// Each change of each fact is another rule with another key.
func TestEachFact(t *testing.T) {
	seen := map[string]string{}
	add := func(name string, f *Facts) {
		t.Helper()
		rule, err := Rule(f)
		childtest.Must(t, err)
		if before, ok := seen[Key(rule)]; ok {
			t.Errorf("%s has the key of %s", name, before)
		}
		seen[Key(rule)] = name
	}
	add("the first", facts())
	changed := map[string]bool{}
	for field, rows := range map[string]map[string]func(*Facts){
		"Tool":            {"another": func(f *Facts) { f.Tool = "bash" }, "trailing blank": func(f *Facts) { f.Tool += " " }},
		"Agent":           {"none": func(f *Facts) { f.Agent = "" }, "another": func(f *Facts) { f.Agent = "Claude" }},
		"ArgumentsSHA256": {"none": func(f *Facts) { f.ArgumentsSHA256 = "" }, "another": func(f *Facts) { f.ArgumentsSHA256 = aaa }},
		"Argv": {
			"nil": func(f *Facts) { f.Argv = nil }, "empty": func(f *Facts) { f.Argv = []string{} }, "one empty": func(f *Facts) { f.Argv = []string{""} },
			"one less": func(f *Facts) { f.Argv = f.Argv[:2] }, "one more": func(f *Facts) { f.Argv = append(f.Argv, "") },
			"joined": func(f *Facts) { f.Argv = []string{"python3", "check.py --all"} }, "joined with commas": func(f *Facts) { f.Argv = []string{`python3", "check.py`, "--all"} },
			"order": func(f *Facts) { f.Argv = []string{"python3", "--all", "check.py"} },
		},
		"Cwd": {
			"none": func(f *Facts) { f.Cwd = "" }, "trailing slash": func(f *Facts) { f.Cwd += "/" }, "trailing blank": func(f *Facts) { f.Cwd += " " },
			"trailing no-break space": func(f *Facts) { f.Cwd += "\u00a0" }, "trailing zero-width space": func(f *Facts) { f.Cwd += "\u200b" },
			"control character": func(f *Facts) { f.Cwd += "\x1b[2K" }, "direction": func(f *Facts) { f.Cwd += "\u202e" }, "NUL": func(f *Facts) { f.Cwd += "\x00" },
			"line break": func(f *Facts) { f.Cwd += "\n" }, "carriage return": func(f *Facts) { f.Cwd += "\r" }, "escape as text": func(f *Facts) { f.Cwd += `\n` },
			"Cyrillic": func(f *Facts) { f.Cwd = "/home/u/р" }, "full width": func(f *Facts) { f.Cwd = "/home/u/ｐ" },
			"composed": func(f *Facts) { f.Cwd = "/home/u/\u00e9" }, "decomposed": func(f *Facts) { f.Cwd = "/home/u/e\u0301" }, "replacement": func(f *Facts) { f.Cwd = "/home/u/\ufffd" },
			"a comment": func(f *Facts) { f.Cwd = `/home/u/p" # not ASCII: U+00FC` }, "another key": func(f *Facts) { f.Cwd = "/home/u/p\"\nenv_sha256 = \"" },
		},
		"EnvSHA256": {"none": func(f *Facts) { f.EnvSHA256 = "" }, "another": func(f *Facts) { f.EnvSHA256 = bbb }},
		"Exe":       {"none": func(f *Facts) { f.Exe = nil }, "digest": func(f *Facts) { f.Exe.SHA256 = bbb }, "path": func(f *Facts) { f.Exe.Path = "/usr/bin/python3" }},
		"Files": {
			"none": func(f *Facts) { f.Files = nil }, "one": func(f *Facts) { f.Files = f.Files[:1] }, "digest": func(f *Facts) { f.Files[0].SHA256 = aaa }, "path": func(f *Facts) { f.Files[0].Path = "/home/u/p/Check.py" },
			"exchanged digests": func(f *Facts) { f.Files[0].SHA256, f.Files[1].SHA256 = f.Files[1].SHA256, f.Files[0].SHA256 },
		},
	} {
		for name, edit := range rows {
			f := facts()
			edit(f)
			if changed[field] = true; reflect.ValueOf(*f).FieldByName(field).IsValid() {
				add(field+": "+name, f)
			}
		}
	}
	for i := range reflect.TypeFor[Facts]().NumField() {
		if name := reflect.TypeFor[Facts]().Field(i).Name; !changed[name] {
			t.Errorf("no row changes %s", name)
		}
	}
	same := facts()
	same.Files = append([]message.File{same.Files[1]}, same.Files...) // the order and the number don't count
	if rule, err := Rule(same); err != nil || seen[Key(rule)] != "the first" {
		t.Errorf("the positive control: %v\n%s", err, rule)
	}
}

// What a person could take for something else is escaped, or named in a comment.
func TestShown(t *testing.T) {
	for path, want := range map[string]string{
		"/p ":            `cwd = "/p "` + "\n",
		"/p\u00a0":       `cwd = "/p\u00A0"` + "\n",
		"/p\u200b":       `cwd = "/p\u200B"` + "\n",
		"/p\x1b[2K\r":    `cwd = "/p\u001B[2K\u000D"` + "\n",
		"/p\u202egpj.sh": `cwd = "/p\u202Egpj.sh"` + "\n",
		"/\u0440":        `cwd = "/р" # not ASCII: U+0440` + "\n",
		"/e\u0301":       "cwd = \"/e\u0301\" # not ASCII: U+0301\n",
		"/äöüäöü":        `cwd = "/äöüäöü" # not ASCII: U+00E4, U+00F6, U+00FC` + "\n",
		"/αβγδεζηθικλμνξοπρ": `cwd = "/αβγδεζηθικλμνξοπρ" # not ASCII: U+03B1, U+03B2, U+03B3, U+03B4, U+03B5, U+03B6, U+03B7, U+03B8, U+03B9, U+03BA, U+03BB, U+03BC, ` +
			`U+03BD, U+03BE, U+03BF, U+03C0, and more` + "\n",
	} {
		f := facts()
		f.Cwd = path
		rule, err := Rule(f)
		childtest.Must(t, err)
		if !strings.Contains(rule, want) {
			t.Errorf("%q: %s, want %s", path, rule, want)
		}
	}
}

// Facts that couldn't be seen as they are have no rule.
func TestNoRule(t *testing.T) {
	for want, edit := range map[string]func(*Facts){
		"no tool":                        func(f *Facts) { f.Tool = "" },
		`"/p\xff" isn't UTF-8`:           func(f *Facts) { f.Cwd = "/p\xff" },
		`"\xff" isn't UTF-8`:             func(f *Facts) { f.Argv[1] = "\xff" },
		`"/\xff" isn't UTF-8`:            func(f *Facts) { f.Exe.Path = "/\xff" },
		`"/f\xff" isn't UTF-8`:           func(f *Facts) { f.Files[0].Path = "/f\xff" },
		"isn't absolute":                 func(f *Facts) { f.Cwd = "p" },
		`"python3" has no absolute path`: func(f *Facts) { f.Exe.Path = "python3" },
		"no absolute path":               func(f *Facts) { f.Files[0].Path = "" },
		"has no SHA-256":                 func(f *Facts) { f.Files[0].SHA256 = "" },
		`"/usr/bin/python3.13" has no S`: func(f *Facts) { f.Exe.SHA256 = strings.Repeat("A", 64) },
		`"x" is no SHA-256`:              func(f *Facts) { f.EnvSHA256 = "x" },
		`"y" is no SHA-256`:              func(f *Facts) { f.ArgumentsSHA256 = "y" },
		"has two digests":                func(f *Facts) { f.Files[1].Path = f.Files[0].Path },
		"32 KiB, more than 32":           func(f *Facts) { f.Argv = []string{strings.Repeat("a", maxRule)} },
	} {
		f := facts()
		edit(f)
		rule, err := Rule(f)
		if err == nil || rule != "" || !strings.HasPrefix(err.Error(), "no rule can be stored: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s %v", want, rule, err)
		}
	}
}

// Whatever the facts are, the rule is TOML that reads back as these facts.
func TestReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("a\"\\\n\r\t #[]{}=,\x1b\u202eр\u0301"))))
		path := rapid.Map(text, func(s string) string { return "/" + s })
		file := rapid.Custom(func(t *rapid.T) message.File {
			return message.File{Path: path.Draw(t, "path"), SHA256: rapid.StringMatching(`[0-9a-f]{64}`).Draw(t, "digest")}
		})
		f := &Facts{Tool: "t" + text.Draw(t, "tool"), Agent: text.Draw(t, "agent"), Cwd: path.Draw(t, "cwd"), Argv: rapid.SliceOf(text).Draw(t, "argv")}
		f.Files = rapid.SliceOfNDistinct(file, 0, 4, func(f message.File) string { return f.Path }).Draw(t, "files")
		if rapid.Bool().Draw(t, "has exe") {
			exe := file.Draw(t, "exe")
			f.Exe = &exe
		}
		rule, err := Rule(f)
		childtest.Must(t, err)
		var back struct{ Approved []Facts }
		if err := toml.NewDecoder(strings.NewReader(rule)).DisallowUnknownFields().Decode(&back); err != nil {
			t.Fatalf("%v\n%s", err, rule)
		}
		want := *f
		want.Files = f.sortedFiles()
		if len(back.Approved) != 1 || fmt.Sprintf("%q %q", texts(&back.Approved[0]), back.Approved[0].Argv) != fmt.Sprintf("%q %q", texts(&want), want.Argv) {
			t.Fatalf("%+v\n%s", back, rule)
		}
		if strings.ContainsFunc(rule, func(r rune) bool { return r < ' ' && r != '\n' || r == 0x7f || r == '\u202e' }) {
			t.Fatalf("%q", rule)
		}
	})
}

// texts are all facts that the test draws but argv.
func texts(f *Facts) []string {
	out := []string{f.Tool, f.Agent, f.Cwd}
	files := slices.Clone(f.Files)
	if f.Exe != nil {
		files = append(files, *f.Exe)
	}
	for _, f := range files {
		out = append(out, f.Path, f.SHA256)
	}
	return out
}
