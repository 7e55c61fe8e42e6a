package policyfile

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
)

func TestToolAccess(t *testing.T) {
	const p = `
[[access.fs]]
path = "all"
[[tools."*".access.fs]]
path = "star"
[[tools."fs_*".access.fs]]
path = "family"
[[tools.fs_read.access.fs]]
path = "one"
[[tools."group:mine".access.fs]]
path = "group"
[tools.write.access.fs]
strategy = "replace"
value = [{ path = "only" }]
[[tools."group:fs".access.fs]]
path = "builtin group"
[groups]
mine = ["FS-List", "group:deeper", "group:mine"]
deeper = ["x*y*z"]
web = ["my_fetch"]
[[tools."group:web".access.fs]]
path = "web"
`
	for tool, want := range map[string]string{
		"":            "all",
		"other":       "all star",
		"fs_list":     "all star group family",
		"FS-Read":     "all star family one",
		"fs_read_all": "all star family",
		"xaybz":       "all star group",
		"xaybzc":      "all star",
		"write":       "only",
		"edit":        "all star builtin group",
		"web_fetch":   "all star", // the file's group takes the place of the built-in one
		"my_fetch":    "all star web",
		"his_fetch":   "all star web",
	} {
		req := request("p.toml", "q.toml")
		req.Tool = tool
		var got []string
		for _, r := range layerOf(t, load(t, req, tree{"/w/p.toml": policyText(p), "/w/q.toml": policyText("[groups]\nweb = { strategy = \"dedup\", value = [\"my_fetch\", \"his_fetch\"] }\n")}), policy.Session).FS {
			got = append(got, r.Path)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %s, want %s", tool, strings.Join(got, " "), want)
		}
	}
}

func TestMatchTool(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"exec", "exec", true},
		{"exec", "exec2", false},
		{"exec", "myexec", false},
		{"", "", true},
		{"*", "", true},
		{"*", "x", true},
		{"a*", "a", true},
		{"a*", "ba", false},
		{"*a", "ba", true},
		{"*a", "ab", false},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*c", "axbyc", true},
		{"a*b*c", "acb", false},
		{"a*b*b", "ab", false},
		{"*a*", "xay", true},
		{"a**b", "ab", true},
	} {
		if got := matchTool(c.pattern, c.name); got != c.want {
			t.Errorf("matchTool(%q, %q) = %v", c.pattern, c.name, got)
		}
	}
}
