package imports

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/idna"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/tool/gate"
)

// jpModel decides as RFD 076 says.
type jpModel struct{ tools map[string]any }

// rules are the rules of a resource.
func (m jpModel) rules(name, resource string) []map[string]any {
	v := get(m.tools, name, "access", resource)
	if s, ok := v.(map[string]any); ok {
		v = s["value"]
	}
	list, _ := v.([]any)
	var out []map[string]any
	for _, x := range list {
		out = append(out, x.(map[string]any))
	}
	return out
}

func (m jpModel) fs(name, path, capability string) bool {
	rules := m.rules(name, "fs")
	if len(rules) == 0 {
		return true
	}
	var best map[string]any
	depth := -1
	for _, r := range rules {
		p := strings.Trim(r["path"].(string), "/")
		n := strings.Count(p, "/") + 1
		if p == "." {
			n = 0
		}
		if external, _ := r["external"].(bool); !external && n >= depth && (p == "." || path == p || strings.HasPrefix(path, p+"/")) {
			best, depth = r, n
		}
	}
	if v, ok := best[capability].(bool); ok {
		return v
	}
	write, _ := best["write"].(bool)
	return write && capability != "read" && capability != "execute"
}

func (m jpModel) net(name, target string) bool {
	rules := m.rules(name, "net")
	if len(rules) == 0 {
		return true
	}
	u, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	ascii := func(h string) string { h, _ = idna.ToASCII(strings.ToLower(h)); return h }
	ports := map[string]string{"http": "80", "https": "443"}
	port := u.Port()
	if port == "" {
		port = ports[u.Scheme]
	}
	allowed, best := false, -1
	for _, r := range rules {
		n := 0
		scheme, _ := r["scheme"].(string)
		prefix, _ := r["path_prefix"].(string)
		want := ports[u.Scheme]
		if p, ok := r["port"].(int64); ok {
			want, n = strconv.FormatInt(p, 10), n+1
		}
		if scheme != "" {
			n++
		}
		if prefix != "" {
			n += strings.Count(prefix, "/")
		}
		if ascii(u.Hostname()) != ascii(r["host"].(string)) || scheme != "" && scheme != u.Scheme || port != want ||
			prefix != "" && u.Path != prefix && !strings.HasPrefix(u.Path, prefix+"/") || n < best {
			continue
		}
		best = n
		allowed, _ = r["allow"].(bool)
	}
	return allowed
}

func (m jpModel) env(name, variable string) bool {
	rules := m.rules(name, "env")
	if len(rules) == 0 {
		return true
	}
	read, best := false, -1
	for _, r := range rules {
		prefix, star := strings.CutSuffix(r["name"].(string), "*")
		n := 2 * len(prefix)
		if !star {
			n++
		}
		if (variable == prefix || star && strings.HasPrefix(variable, prefix)) && n >= best {
			best = n
			read, _ = r["read"].(bool)
		}
	}
	return read
}

// run is how a call of a tool begins: it runs, a person is asked, or it never runs.
func (m jpModel) run(name string) int {
	own := func(key string) any {
		if v := get(m.tools, name, key); v != nil {
			return v
		}
		return get(m.tools, "*", key)
	}
	on := own("enable")
	if t, ok := on.(map[string]any); ok {
		on = t["state"]
	}
	if on == false || on == "off" || on == "explicit" || own("run") == "skip" || m.tools[name] == nil {
		return deny
	}
	return map[string]int{"unattended": allow, "ask": ask, "edit": ask}[own("run").(string)]
}

func TestJPDecidesAsTheModel(t *testing.T) {
	for fixture, left := range map[string]int{"jp-grants.toml": 0, "jp-modes.toml": 3, "jp-hosts.toml": 1} {
		t.Run(fixture, func(t *testing.T) {
			im := importFixture(t, "jp", fixture)
			m := jpModel{get(im.source, "conversation", "tools").(map[string]any)}
			if len(im.left) != left {
				t.Errorf("without an equivalent: %q", im.left)
			}
			for name, table := range m.tools {
				source, _ := get(table, "source").(string)
				server, own, _ := strings.Cut(strings.TrimPrefix(source, "mcp."), ".")
				here := name
				if strings.HasPrefix(source, "mcp.") {
					here = fmt.Sprintf("mcp__%s__%s", server, own)
				}
				if name != "*" {
					im.same(im.call(here, gate.Call{}), m.run(name), false, "call %s", name)
				}
				if source == "local" {
					im.askJP(m, name)
				}
			}
			im.same(im.call("unknown_tool", gate.Call{}), m.run("unknown_tool"), false, "call another tool")
			for _, name := range strings.Fields("fs_list_files fs_grep_files web_fetches tool x mcp__github__create_issue mcp__other__get_issue bash") {
				im.same(im.call(name, gate.Call{}), m.run(name), false, "call %s", name)
			}
			im.enough(80)
		})
	}
}

// askJP asks about the grants of a tool. Variables by which loaders run code, and credentials, need a rule with their name: narrower.
func (im *imported) askJP(m jpModel, name string) {
	im.t.Helper()
	c := im.compiled(name)
	for _, path := range []string{
		"README.md", "src", "src/lib.rs", "src/generated/schema.rs", "src_generated/foo.rs", "tests/main.rs", ".env", ".env/x", ".envs", ".config/jp/tools/a",
		".config/jp/other", "tmp/a", "tmp/*keep/b", "tmp/akeep/b", "~/cache/a", "link/a", "tmp", "tmp/*keep", "~/cache", "~/cached", "cache/a", "links/a",
		"src/generated", "src/generated/a/b", "docs/a", "vendor/x/y", "secrets/k", "Makefile", "src2", "~", "a b/c", "tmp/*keeper", "link",
	} {
		for capability, want := range map[string]policy.Caps{
			"read": policy.Read, "create": policy.Create, "update": policy.Update, "delete": policy.Delete, "execute": policy.Execute,
		} {
			v := c.CheckFS(im.workspace+"/"+path, want)
			// Files with credentials and those that other programs obey have rules of their own.
			narrower := v.Reason == policy.Protected || strings.HasPrefix(path, ".env")
			im.same(verdict(v.Allow), verdict(m.fs(name, path, capability)), narrower, "%s: %s %s", name, capability, path)
		}
	}
	im.same(verdict(c.CheckFS("/root/x", policy.Read).Allow), deny, false, "%s: outside of the workspace", name)
	for _, target := range []string{
		"https://api.github.com/repos", "https://api.github.com/admin", "https://api.github.com/admin/users", "https://api.github.com/administration",
		"https://api.github.com:8443/repos", "http://api.github.com/repos", "https://api.github.com.evil.com/", "https://example.com/", "https://xn--mnchen-3ya.de/",
		"http://internal.example:8080/", "http://internal.example:8080/private/x", "http://internal.example/", "https://internal.example:8080/",
		"http://internal.example:8080/privately", "http://internal.example:8081/", "https://MÜNCHEN.de/a", "http://münchen.de:8080/", "https://www.münchen.de/",
	} {
		at, err := netname.ParseTarget(target)
		childtest.Must(im.t, err)
		im.same(verdict(c.CheckNet(&at).Allow), verdict(m.net(name, target)), false, "%s: connect %s", name, target)
	}
	for _, v := range []string{"GITHUB_TOKEN", "GITHUB_TOKEN_LOG", "AWS_REGION", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY_2", "AWS", "HOME", "EDITOR", "LD_PRELOAD"} {
		im.same(verdict(c.CheckEnv(v).Allow), verdict(m.env(name, v)), v == "LD_PRELOAD" || strings.Contains(v, "TOKEN") || strings.Contains(v, "SECRET"), "%s: env %s", name, v)
	}
}
