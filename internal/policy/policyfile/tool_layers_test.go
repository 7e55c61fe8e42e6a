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
[tools.lookup]
plugin = "contacts"
[[tools."group:contacts".access.fs]]
path = "contacts"
[[tools."group:plugins".access.fs]]
path = "plugins"
[[tools."group:all".access.fs]]
path = "everything"
[tools.Bash]
aliases = ["run_sh"]
access.fs = [{ path = "bash" }]
[[tools."run_*".access.fs]]
path = "run"
[groups.shells]
strategy = "append"
value = ["run_sh"]
[[tools."group:shells".access.fs]]
path = "shells"
`
	for tool, want := range map[string]string{
		"":            "all",
		"other":       "all star everything",
		"fs_list":     "all star everything group family",
		"FS-Read":     "all star everything family one",
		"fs_read_all": "all star everything family",
		"xaybz":       "all star everything group",
		"xaybzc":      "all star everything",
		"write":       "only",
		"a":           "all star everything",
		"aa":          "all star everything twice",
		"ab":          "all star everything",
		"bb":          "all star everything end",
		"b":           "all star everything",
		"edit":        "all star everything builtin group",
		"web_fetch":   "all star everything", // the file's group replaces the built-in one
		"my_fetch":    "all star everything web",
		"his_fetch":   "all star everything web",
		"lookup":      "all star everything contacts plugins",
		"bash":        "all star everything shells bash",
		"Run-Sh":      "all star everything shells run bash", // each table about it, by its own name or as an alias
		"run_x":       "all star everything run",
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

// Each author's tables apply by the author's own aliases and groups: the other author's can't take a tool out of them.
func TestToolAccessOfAuthors(t *testing.T) {
	const host = "[groups]\nmine = [\"x\"]\n[tools.Bash]\naliases = [\"run_sh\"]\naccess.default = { commands = \"deny\" }\n[tools.\"group:mine\".access]\ndefault = { commands = \"deny\" }\n"
	for tool, session := range map[string]string{
		"run_sh": "", "Run-Sh": "", "bash": "[tools.foo]\naliases = [\"bash\"]\n", "x": "[groups]\nmine = { strategy = \"replace\", value = [] }\n",
	} {
		req := request("p.toml")
		req.Tool, req.HostDir = tool, "/h"
		src := load(t, req, tree{"/w/p.toml": policyText(session), "/h/h.toml": policyText(host)})
		if got := layerOf(t, src, policy.Host).Defaults[policy.Commands]; got != policy.Deny {
			t.Errorf("%s: %v", tool, got)
		}
	}
}
