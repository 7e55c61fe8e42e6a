package fspath_test

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// A path that is probably not intended literally is rejected, with the right notation; names that only look odd aren't.
func TestMisread(t *testing.T) {
	for _, c := range []struct {
		path        string
		grant, deny string // what the hint has in it for a rule that grants and for one that doesn't; "" where it's taken as it is
	}{
		{".", "", ""},
		{"src/main.go", "", ""},
		{"~/.ssh", "", ""},
		{"/home/u/a b", "", ""},
		{"cost$", "", ""},
		{"100%", "", ""},
		{"a$1", "", ""},
		{"50%/100%", "", ""},
		{"%1%", "", ""},
		{"a:b", "", ""},
		{"profile:x", "", ""},
		{"$HOME", `write "~/"`, `write "~/"`},
		{"$HOME/.ssh", `write "~/.ssh"`, `write "~/.ssh"`},
		{"${HOME}/.ssh", `write "~/.ssh"`, `write "~/.ssh"`},
		{"%USERPROFILE%/.ssh", `write "~/.ssh"`, `write "~/.ssh"`},
		{"$PWD/data", `write "data"`, `write "data"`},
		{"$TMPDIR", "leave the rule out", "leave the rule out"},
		{"/home/$USER/x", "its value as a path", "its value as a path"},
		{"${XDG_CONFIG_HOME:-x}/y", "its value as a path", "its value as a path"},
		{"${HOME", "~/", "~/"},
		{"/x/%APPDATA%/y", "its value as a path", "its value as a path"},
		{"file:///etc/passwd", `write "/etc/passwd"`, `write "/etc/passwd"`},
		{"file://localhost/etc/passwd", `write "/etc/passwd"`, `write "/etc/passwd"`},
		{"file:x", `write "x"`, `write "x"`},
		{"https://a.com/x", `write "/x"`, `write "/x"`},
		{" src", `write "src"`, `write "src"`},
		{"src\t", `write "src"`, `write "src"`},
		{"*", "", `path = "."`},
		{"/*", "", `path = "/"`},
		{"secrets/*", "", `path = "secrets"`},
		{"/secrets/**", "", `path = "/secrets"`},
		{"*.pem", "", `match = "**/*.pem"`},
		{"src/*.pem", "", `match = "src/**/*.pem"`},
		{"/*.pem", "", `match = "/**/*.pem"`},
		{"key-?", "", fspath.PatternForms},
		{"key-[ab]", "", fspath.PatternForms},
		{"a/*/b", "", fspath.PatternForms},
		{"my%20key", "", "the characters themselves"},
	} {
		for _, x := range []struct {
			denies bool
			want   string
		}{{false, c.grant}, {true, c.deny}} {
			msg, hint := fspath.Misread(c.path, x.denies)
			if (msg == "") != (x.want == "") || !strings.Contains(hint, x.want) {
				t.Errorf("%q, denies %v: %q, %q, want %q", c.path, x.denies, msg, hint, x.want)
			}
		}
	}
}
