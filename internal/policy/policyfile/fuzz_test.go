package policyfile

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

// seeds are the built-in files and every mistake of the other tests that is short enough.
func seeds(f *testing.F) {
	for _, name := range []string{"runtime", "protect", "secrets", "default", "tools", "starter", "preset_go"} {
		f.Add(string(builtinText(name)))
	}
	for _, m := range mistakes {
		if len(m.policy) < 4096 {
			f.Add("version = 1\n" + m.policy)
		}
	}
	for _, s := range slices.Concat(isTOML, notTOML, []string{"\ufeffa = 1", "a = inf", "a = [\n\n1 , # x\n\n\n]"}) {
		f.Add(s)
	}
}

var isTOML = []string{
	"a.b = 1\na.c = 2", "[a]\nb.c = 1\nb.d = 1", "[a.b]\n[a]", "[a.b.c]\n[a.d]\n[a]\ne = 1", "[[a]]\n[[a]]\n[a.b]\nc = 1", "[[a]]\nb.c = 1\n[[a]]\nb.c = 1",
	"a = {b.c = 1, b.d = 2}", "[[a.b]]\n[a]\n", "\"\" = 1", "a = '''x''''", "a = \"\"\"\\\n\n x\"\"\"\"\"", "a = 1 # c\r\n\r\n[b]\r\n",
	"a = +0", "a = -1", "a = 0x1_F", "a = 0o17", "a = 0b1", "a = 1_0", "a = 1e5", "a = 07:32:00", "a = 1979-05-27", "a = 1979-05-27 07:32:00",
}

var notTOML = []string{
	"a.b = 1\n[a]", "[a]\nb.c = 1\n[a.b]", "[a.b.c]\n[a]\nb.d = 1", "[[a.b]]\n[a]\nb.c = 1", "a = [{b = 1}]\n[[a]]", "[[a]]\n[[a.b]]\n[a.b.c]\n[[a]]\n[a.b]\n[a.b]",
	"a = {b = 1, b.c = 2}", "a = 1\n[a]", "[[a]]\n[a]", "[a]\n[[a]]", "a = 1\n[a.b]", "a = {}\n[a.b]", "a = 1\na.b = 2", "a = []\n[a.b]", "a = \"\"\"", "a = 1\r",
	"a = 07", "a = -0x1", "a = 0xg", "a = +-1", "a = 1__0", "a = 1_", "a = _1", "a = 0x_1", "a = -", "a = 07:32 0", "a = 1979-05-27 07", "a = 1979-05-27 07:32\n:00",
}

// The decoder checks TOML's rules for tables and numbers, not the parser.
func TestTOML(t *testing.T) {
	for _, text := range isTOML {
		var v map[string]any
		if _, err := tomltree.Parse([]byte(text)); err != nil || toml.Unmarshal([]byte(text), &v) != nil {
			t.Errorf("%q is TOML: %v", text, err)
		}
	}
	for _, text := range notTOML {
		if _, err := tomltree.Parse([]byte(text)); err == nil {
			t.Errorf("%q is taken for TOML", text)
		}
	}
}

// Whatever the bytes: no panic, every error has a position, and every accepted text is TOML.
func FuzzLoad(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text string) {
		src, _, err := Load(request("p.toml"), tree{"/w/p.toml": text, "/w/go.mod": ""})
		var list policy.Errors
		switch {
		case err == nil && src == nil:
			t.Fatal("neither a source nor an error")
		case err == nil:
		case !errors.As(err, &list) || len(list) == 0:
			t.Fatalf("the error is a %T: %v", err, err)
		}
		for _, e := range list {
			if e.Position.File == "" || e.Position.Line < 1 && !strings.HasPrefix(e.Msg, "can't read policy") || e.Msg == "" {
				t.Errorf("%#v", e)
			}
		}
		if _, serr := tomltree.Parse([]byte(text)); serr == nil && !hasValues(text) {
			var v map[string]any
			if err := toml.Unmarshal([]byte(text), &v); err != nil {
				t.Errorf("this isn't TOML: %v", err)
			}
		}
	})
}

// hasValues reports whether a text may have fractions, infinities or dates, whose form isn't checked because no key takes
// one.
func hasValues(text string) bool {
	root, _ := tomltree.Parse([]byte(text))
	var any func(n *tomltree.Node) bool
	any = func(n *tomltree.Node) bool {
		for _, e := range n.Keys {
			if any(e.Node) {
				return true
			}
		}
		for _, i := range n.Items {
			if any(i) {
				return true
			}
		}
		return n.Kind == tomltree.Float || n.Kind == tomltree.Date
	}
	return any(root)
}
