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
[[tools."a*a".access.fs]]
path = "twice"
[[tools."*b*b".access.fs]]
path = "end"
[groups]
mine = ["FS-List", "group:deeper"]
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
		"a":           "all star",
		"aa":          "all star twice",
		"ab":          "all star",
		"bb":          "all star end",
		"b":           "all star",
		"edit":        "all star builtin group",
		"web_fetch":   "all star", // the file's group replaces the built-in one
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
