package policyfile

import (
	"strings"
	"testing"
)

// A grant for a tool is accepted only where toolguard enforces it: the tool's source from all files and patterns decides.
func TestEffectiveSource(t *testing.T) {
	grant := func(tool string) string {
		return "[[tools.\"" + tool + "\".access.fs]]\npath = \".\"\nread = true\n"
	}
	source := func(tool, source string) string { return "[tools.\"" + tool + "\"]\nsource = \"" + source + "\"\n" }
	for _, c := range []struct{ what, base, own, more, want string }{
		{"no source", "", grant("fetch"), "", ""},
		{"local", source("fetch", "local"), grant("fetch"), "", ""},
		{"another tool", source("search", "mcp"), grant("fetch"), "", ""},
		{"by extends", source("fetch", "mcp"), grant("fetch"), "", `tool "fetch" has source "mcp" (base.toml:2:1)`},
		{"by a second policy", "", grant("fetch"), source("fetch", "builtin"), `tool "fetch" has source "builtin" (more.toml:2:1)`},
		{"another spelling", source("web-fetch", "mcp"), grant("Web_Fetch"), "", `"Web_Fetch" is also about "web-fetch", which has source "mcp"`},
		{"a pattern of sources", source("f*", "mcp"), grant("fetch"), "", `"fetch" is also about "f*", which has source "mcp"`},
		{"a pattern of grants", source("fetch", "mcp"), grant("f*"), "", `"f*" is also about "fetch", which has source "mcp"`},
		{"two patterns", source("mcp__*", "mcp"), grant("*_read"), "", `"*_read" is also about "mcp__*", which has source "mcp"`},
		{"two patterns with nothing in common", source("mcp__*", "mcp"), grant("fs_*"), "", ""},
		{"all tools", source("fetch", "mcp"), grant("*"), "", `"*" is also about "fetch"`},
		{"an exception", source("f*", "mcp"), source("fetch", "local"), grant("fetch"), ""},
		{"an exception elsewhere", source("f*", "mcp"), source("fetch", "local"), grant("fe*"), `"fe*" is also about "f*"`},
		{"the exception is mcp", source("f*", "local"), source("fetch", "mcp"), grant("fetch"), `tool "fetch" has source "mcp"`},
		{"a later word", source("fetch", "mcp"), source("fetch", "local"), grant("fetch"), ""},
		{"a later word the other way", source("fetch", "local"), source("fetch", "mcp"), grant("fetch"), `tool "fetch" has source "mcp" (p.toml:2:1)`},
		{"a group", source("group:web", "mcp"), "[groups]\nweb = [\"group:inner\"]\ninner = [\"fetch\"]\n", grant("fetch"), `"fetch" is also about "group:web"`},
		{"another name", "[tools.web]\nsource = \"mcp\"\naliases = [\"fetch\"]\n", grant("fetch"), "", `"fetch" is also about "web"`},
		{"a name that the pattern may be", source("*", "mcp"), source("x", "local"), grant("*"), `tool "*" has source "mcp"`},
	} {
		files := tree{
			"/w/base.toml": policyText(c.base), "/w/p.toml": "version = 1\n" + c.own + "\n", "/w/more.toml": policyText(c.more),
			"/w/top.toml": "version = 1\nextends = [\"base.toml\", \"p.toml\"]\n",
		}
		_, _, err := Load(request("top.toml", "more.toml"), files)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "so toolguard doesn't enforce its access")):
			t.Errorf("%s: got %v, want %s", c.what, err, c.want)
		}
	}
}
