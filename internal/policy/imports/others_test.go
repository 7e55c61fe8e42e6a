package imports

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/tool/gate"
)

// ktGlob reports whether a glob of Java's matches a path.
func ktGlob(glob, p string) bool {
	re := regexp.QuoteMeta(glob)
	re = strings.ReplaceAll(strings.ReplaceAll(re, `\*\*`, ".*"), `\*`, "[^/]*")
	return regexp.MustCompile("^" + re + "$").MatchString(p)
}

// Agents.KT checks absolute paths against the globs for reading and writing together; here, reading doesn't grant writing.
func TestAgentsKtDecidesAsTheModel(t *testing.T) {
	for fixture, left := range map[string]int{"agents-kt-v1.json": 3, "agents-kt-v2.json": 2, "agents-kt-v1.yaml": 1} {
		t.Run(fixture, func(t *testing.T) {
			im := importFixture(t, "agents-kt", fixture)
			if len(im.left) != left {
				t.Errorf("without an equivalent: %q", im.left)
			}
			for _, a := range get(im.source, "agents").([]any) {
				agent := get(a, "name").(string)
				for _, x := range get(a, "tools").([]any) {
					name := get(x, "name").(string)
					if get(x, "policy", "filesystem") != nil {
						im.askKtFiles(x, name)
					}
					if get(x, "policy") != nil {
						im.askKtHosts(x, name)
						im.askKtEnvironment(x, name)
						im.askKtPrograms(x, name)
					}
					forbidden, _ := get(x, "constraints", "forbidden").(bool)
					shared := name == "shared" || agent == "tester" // two policies; lists of skills
					caller := gate.Call{Agent: agent}
					im.same(verdict(im.visibleTo(caller, name)), verdict(!forbidden), shared || name == "wipe", "%s for %s", name, agent)
					im.same(verdict(im.visibleTo(caller, name+"_other")), deny, false, "another tool for %s", agent)
				}
			}
			im.enough(50)
		})
	}
}

func (im *imported) askKtFiles(x any, name string) {
	im.t.Helper()
	c := im.compiled(name)
	reads, writes := texts(get(x, "policy", "filesystem", "read", "globs")), texts(get(x, "policy", "filesystem", "write", "globs"))
	matches := func(globs []string, p string) bool {
		return slices.ContainsFunc(globs, func(g string) bool { return ktGlob(g, p) })
	}
	for _, dir := range []string{"/uploads", "/uploads/2026", "/srv", "/srv/uploads", "/srv/uploads/a/b", "/out", "/data", "/data/x", "/root", "/docs", "/uploads2", "/data2", "/data/x/y", "/Out"} {
		for _, file := range []string{"a", "r.txt", ".x", "hosts"} {
			p := path.Join(dir, file)
			read, write := matches(reads, p), matches(writes, p)
			im.same(verdict(c.CheckFS(p, policy.Read).Allow), verdict(read || write), !read, "%s: read %s", name, p)
			// A single file and a pattern have no equivalent.
			single := strings.HasPrefix(p, "/srv/") && strings.HasSuffix(p, ".txt")
			for _, capability := range []policy.Caps{policy.Create, policy.Update, policy.Delete} {
				if !write && c.CheckFS(p, capability).Allow {
					im.t.Errorf("%s: %d %s is granted by a glob for reading", name, capability, p)
				}
				im.same(verdict(c.CheckFS(p, capability).Allow), verdict(read || write), !write || single, "%s: %d %s", name, capability, p)
			}
		}
	}
}

func (im *imported) askKtHosts(x any, name string) {
	im.t.Helper()
	c := im.compiled(name)
	mode, _ := get(x, "policy", "network", "mode").(string)
	for _, host := range []string{"api.example.com", "api.example.com.evil.com", "example.com", "other.example", "api.example.com:8443", "192.0.2.1"} {
		at, err := netname.ParseTarget("https://" + host + "/")
		childtest.Must(im.t, err)
		want := mode == "allowAll" || mode == "hosts" && slices.Contains(texts(get(x, "policy", "network", "hosts")), strings.TrimSuffix(host, ":8443"))
		// A rule without a port is for the ports of http and https.
		im.same(verdict(c.CheckNet(&at).Allow), verdict(want), name == "shared" || strings.HasSuffix(host, ":8443"), "%s: connect to %s", name, host)
	}
}

// askKtEnvironment asks about variables. What isn't specified is inherited there, and denied here.
func (im *imported) askKtEnvironment(x any, name string) {
	im.t.Helper()
	c := im.compiled(name)
	mode, _ := get(x, "policy", "environment", "mode").(string)
	for _, v := range []string{"HOME", "JAVA_HOME", "JAVA_HOME_2", "PATH", "EDITOR", "GITHUB_TOKEN", "LD_PRELOAD"} {
		want := mode == "" || mode == "allowAll" || mode != "denyAll" && slices.Contains(texts(get(x, "policy", "environment", "variables")), v)
		im.same(verdict(c.CheckEnv(v).Allow), verdict(want), mode == "", "%s: variable %s", name, v)
	}
}

// askKtPrograms asks about programs. What isn't specified is inherited there, and denied here.
func (im *imported) askKtPrograms(x any, name string) {
	im.t.Helper()
	c := im.compiled(name)
	mode, _ := get(x, "policy", "exec", "mode").(string)
	for _, program := range []string{"/usr/bin/git", "/usr/bin/javac", "/usr/bin/sh", "/usr/bin/curl"} {
		im.same(verdict(c.CheckCommand(program, []string{program, "x"}).Allow), verdict(mode != "deny"), mode == "", "%s: run %s", name, program)
	}
}

// visibleTo asks about one tool alone.
func (im *imported) visibleTo(c gate.Call, name string) bool {
	clawTools = append(clawTools, name)
	defer func() { clawTools = clawTools[:len(clawTools)-1] }()
	return im.visible(c, name)
}

// proxyAllows decides as llm-interactive-proxy does: the policy with the highest priority that matches decides, and without one, all is allowed.
func proxyAllows(source map[string]any, model, agent, name string) bool {
	list, _ := get(source, "access_policies").([]any)
	if list == nil {
		list, _ = get(source, "session", "tool_call_reactor", "access_policies").([]any)
	}
	found := func(re any, s string) bool { return regexp.MustCompile("(?i)" + re.(string)).MatchString(s) }
	var best any
	for _, p := range list {
		if !found(get(p, "model_pattern"), model) || get(p, "agent_pattern") != nil && (agent == "" || !found(get(p, "agent_pattern"), agent)) {
			continue
		}
		prio := func(p any) int64 { n, _ := get(p, "priority").(int64); return n }
		if best == nil || prio(p) > prio(best) {
			best = p
		}
	}
	for _, re := range texts(get(best, "allowed_patterns")) {
		if found(re, name) {
			return true
		}
	}
	for _, re := range texts(get(best, "blocked_patterns")) {
		if found(re, name) {
			return false
		}
	}
	return best == nil || get(best, "default_policy") == "allow"
}

var proxyTools = strings.Fields("delete_file delete_files undelete_file rm_rf farm_x remove_dir remove_directory remove_it read_file read_files list_directory search_web " +
	"research_x get_user execute_code deploy tool2 write_file bash reads")

func TestLLMProxyDecidesAsTheModel(t *testing.T) {
	equal := map[string]int{"llm-proxy-policies.yaml": 70, "llm-proxy-reactor.yaml": 20} // percent
	for fixture, left := range map[string]int{"llm-proxy-policies.yaml": 3, "llm-proxy-reactor.yaml": 5} {
		t.Run(fixture, func(t *testing.T) {
			im := importFixture(t, "llm-proxy", fixture)
			if len(im.left) != left {
				t.Errorf("without an equivalent: %q", im.left)
			}
			for _, model := range []string{"anthropic:claude-3", "anthropic:other", "openai:gpt-4-turbo", "openai:gpt-3", "experimental-x:m", "local:m"} {
				for _, agent := range []string{"", "production-agent", "prod-1", "dev"} {
					for _, name := range proxyTools {
						provider, of, _ := strings.Cut(model, ":")
						got := im.visibleTo(gate.Call{Provider: provider, Model: of, Agent: agent}, name)
						// Policies add up, names are compared whole, and models are selected by provider.
						im.same(verdict(got), verdict(proxyAllows(im.source, model, agent, name)), true, "%s for %s, %s", name, model, agent)
					}
				}
			}
			im.enough(equal[fixture])
		})
	}
}

// proxyPatterns are the source's default_tool_patterns.
var proxyPatterns = strings.Fields("write_to_file write_file fsWrite replace_in_file str_replace strReplace edit_file patch_file apply_diff apply_patch delete_file " +
	"deleteFile remove_file create_file move_file rename_file copy_file insert_content search_and_replace generate_image")

// proxyGate decides as the sandboxing of llm-interactive-proxy does: whether a tool's calls are checked is found by expressions that are
// searched for in its name, those that exclude it last. A checked call's paths must be in the workspace, and strict_mode demands one.
func proxyGate(gate any, name, key string, inside bool) (want int, checked bool) {
	found := func(list []string) bool {
		return slices.ContainsFunc(list, func(re string) bool { return regexp.MustCompile("(?i)" + re).MatchString(name) })
	}
	checked = found(proxyPatterns) || found(texts(get(gate, "custom_tool_patterns")))
	switch {
	case !checked, found(texts(get(gate, "excluded_tools"))):
		return allow, false
	case !slices.Contains(texts(get(gate, "path_parameter_names")), key):
		return verdict(get(gate, "strict_mode") != true), true
	}
	return verdict(inside), true
}

func TestLLMProxySandboxing(t *testing.T) {
	im := importFixture(t, "llm-proxy", "llm-proxy-sandboxing.yaml")
	names := slices.Concat(proxyPatterns, strings.Fields("my_save_tool custom_write_all custom_write_ save_it_to_disk read_file safe_pdf_viewer safe_viewer my_read_file "+
		"list_directory x12 x search"))
	names = slices.DeleteFunc(names, func(n string) bool { return n == "apply_patch" }) // its argument is a patch
	for _, name := range names {
		for _, key := range []string{"path", "file_path", "my_custom_path", "count"} {
			for value, inside := range map[string]bool{
				"src/x": true, "new": true, "tmp/../src/y": true, "src": true, "/root/x": false, "../x": false, "~/new": false, "src/../../x": false,
			} {
				want, checked := proxyGate(get(im.source, "sandboxing"), name, key, inside)
				// The calls of every tool are checked, unless its whole name is excluded.
				im.same(im.call(name, gate.Call{}, key, value), want, !checked, "%s %s=%s", name, key, value)
			}
		}
	}
	im.enough(60)
}
