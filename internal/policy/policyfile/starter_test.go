package policyfile

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/tomlformat"
)

func TestStarter(t *testing.T) {
	for want, files := range map[string]tree{
		`extends = ["preset:readonly"]`:                            {},
		`extends = ["preset:go", "preset:git"]`:                    {"/w/go.mod": "", "/w/.git/config": ""},
		`extends = ["preset:python"]`:                              {"/w/pyproject.toml": "", "/w/setup.py": "", "/w/.venv/x": ""},
		`extends = ["preset:python", "preset:node", "preset:git"]`: {"/w/requirements.txt": "", "/w/package.json": "", "/w/.git": ""},
	} {
		text := Starter("/w", files)
		if !strings.Contains(string(text), "\n"+want+"\n") || !strings.Contains(string(text), `name = "w"`) {
			t.Errorf("%s isn't in\n%s", want, text)
		}
		src := load(t, request("p.toml"), tree{"/w/p.toml": string(text)})
		if l := layerOf(t, src, policy.Session); l.Defaults[policy.Net] != policy.Deny || len(l.FS) == 0 || len(l.Env) == 0 {
			t.Errorf("%+v", l)
		}
		if again, err := tomlformat.Format("p.toml", text); err != nil || string(again) != string(text) {
			t.Errorf("not formatted: %v\n%s", err, again)
		}
	}
	for dir, want := range map[string]string{"/": "machine", "/a\"b\\c": "a_b_c", "/ä\n": "__", "/my work~": "my work~"} {
		if got := starterName(dir); got != want {
			t.Errorf("%q: %q", dir, got)
		}
	}
}
