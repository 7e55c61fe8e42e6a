package imports

import (
	"cmp"
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
					}
					forbidden, _ := get(x, "constraints", "forbidden").(bool)
					shared := name == "shared" || agent == "tester" // two policies; lists of skills
					caller := gate.Call{Agent: agent}
					im.same(verdict(im.visibleTo(caller, name)), verdict(!forbidden), shared || name == "wipe", "%s for %s", name, agent)
					im.same(verdict(im.visibleTo(caller, name+"_other")), deny, false, "another tool for %s", agent)
				}
			}
			if im.asked < 170 || im.equal*2 < im.asked {
				t.Errorf("%d questions, %d equal", im.asked, im.equal)
			}
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
	for _, dir := range []string{"/uploads", "/uploads/2026", "/srv", "/srv/uploads", "/srv/uploads/a/b", "/out", "/data", "/data/x", "/root", "/docs", "/uploads2"} {
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
	for _, host := range []string{"api.example.com", "api.example.com.evil.com", "example.com", "other.example"} {
		at, err := netname.ParseTarget("https://" + host + "/")
		childtest.Must(im.t, err)
		want := mode == "allowAll" || mode == "hosts" && slices.Contains(texts(get(x, "policy", "network", "hosts")), host)
		im.same(verdict(c.CheckNet(&at).Allow), verdict(want), name == "shared", "%s: connect to %s", name, host)
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
			if im.asked < 200 || fixture == "llm-proxy-policies.yaml" && im.equal*10 < im.asked*7 {
				t.Errorf("%d questions, %d equal", im.asked, im.equal)
			}
		})
	}
}

func TestLLMProxySandboxing(t *testing.T) {
	im := importFixture(t, "llm-proxy", "llm-proxy-sandboxing.yaml")
	for range 10 {
		for _, x := range []struct {
			tool, key, path string
			want            int
			narrower        bool
		}{
			{"write_file", "path", "src/x", allow, false},
			{"write_file", "path", "/root/x", deny, false},
			{"write_file", "path", "../x", deny, false},
			{"my_save_tool", "file_path", "src/x", allow, false},
			{"my_save_tool", "my_custom_path", "/root/x", deny, false},
			{"custom_write_all", "path", "/root/x", deny, false},
			{"save_it_to_disk", "path", "/root/x", deny, false},
			{"my_save_tool", "count", "3", deny, false}, // strict: no path in it
			{"read_file", "path", "/root/x", allow, false},
			{"safe_pdf_viewer", "path", "/root/x", allow, false},
			{"my_read_file", "path", "/root/x", allow, true},
			{"x12", "path", "/root/x", allow, true},
			{"list_directory", "path", "/root/x", allow, true},
			{"edit_file", "path", "src/y", allow, false},
			{"edit_file", "target", "/root/y", deny, false},
			{"delete_file", "path", "tmp/x", allow, false},
			{"delete_file", "path", "/root/x", deny, false},
			{"move_file", "source", "/root/x", deny, false},
			{"create_file", "path", "new", allow, false},
			{"create_file", "path", "~/new", deny, false},
			{"apply_diff", "path", "src/x", allow, false},
		} {
			im.same(im.call(x.tool, gate.Call{}, x.key, x.path), x.want, x.narrower, "%s %s=%s", x.tool, x.key, x.path)
		}
	}
	im.enough()
}

// claudeModel decides as Claude Code does about calls that its rules are about: deny, then ask, then allow, then the mode.
type claudeModel struct {
	permissions map[string]any
	home        string
}

func (m claudeModel) matches(list, tool, value string) bool {
	for _, rule := range texts(m.permissions[list]) {
		name, spec, has := strings.Cut(strings.TrimSuffix(rule, ")"), "(")
		edits := slices.Contains(claudeEdits, tool) && name == "Edit"
		switch {
		case name != tool && !edits && !(strings.HasPrefix(name, "mcp__") && strings.Count(name, "__") == 1 && strings.HasPrefix(tool, name+"__")):
		case !has:
			return true
		case tool == "Bash" && m.command(spec, value), tool == "WebFetch" && m.host(strings.TrimPrefix(spec, "domain:"), value),
			(tool == "Read" || edits) && m.file(spec, value):
			return true
		}
	}
	return false
}

func (m claudeModel) command(spec, value string) bool {
	spec = strings.Replace(spec, ":*", " *", 1)
	if head, ok := strings.CutSuffix(spec, " *"); ok && value == head {
		return true
	}
	re := strings.ReplaceAll(regexp.QuoteMeta(spec), `\*`, ".*")
	return regexp.MustCompile("^" + re + "$").MatchString(value)
}

func (m claudeModel) host(spec, value string) bool {
	suffix, wild := strings.CutPrefix(spec, "*.")
	return value == spec || wild && strings.HasSuffix(value, "."+suffix)
}

// file matches as gitignore does. value is relative to the workspace, or absolute.
func (m claudeModel) file(spec, value string) bool {
	anchored := strings.Contains(strings.TrimSuffix(spec, "/"), "/")
	switch {
	case strings.HasPrefix(spec, "//"):
		spec = spec[1:]
	case strings.HasPrefix(spec, "~/"):
		spec = m.home + spec[1:]
	default:
		spec = strings.TrimPrefix(strings.TrimPrefix(spec, "./"), "/")
	}
	if !anchored {
		spec = "**/" + spec
	}
	re := strings.NewReplacer(`\*\*/`, "(.*/)?", `\*\*`, ".*", `\*`, "[^/]*").Replace(regexp.QuoteMeta(spec))
	return regexp.MustCompile("^" + re + "(/.*)?$").MatchString(value)
}

func (m claudeModel) decide(tool, value string) int {
	mode, _ := m.permissions["defaultMode"].(string)
	inside := !strings.HasPrefix(value, "/")
	for _, dir := range texts(m.permissions["additionalDirectories"]) {
		inside = inside || strings.HasPrefix(value, strings.Replace(dir, "~", m.home, 1)+"/")
	}
	switch edits := slices.Contains(claudeEdits, tool); {
	case m.matches("deny", tool, value):
		return deny
	case m.matches("ask", tool, value):
		return ask
	case m.matches("allow", tool, value), tool == "Read" && inside, edits && inside && mode == "acceptEdits":
		return allow
	case mode == "dontAsk":
		return deny
	}
	return ask
}

func TestClaudeCodeDecidesAsTheModel(t *testing.T) {
	for fixture, left := range map[string]int{"claude-code-project.json": 1, "claude-code-edits.json": 4, "claude-code-closed.json": 4} {
		t.Run(fixture, func(t *testing.T) {
			im := importFixture(t, "claude-code", fixture)
			if len(im.left) != left {
				t.Errorf("without an equivalent: %q", im.left)
			}
			m := claudeModel{get(im.source, "permissions").(map[string]any), im.Home}
			for _, name := range []string{"Read", "Edit", "Write"} {
				for _, p := range []string{
					"a.txt", "src/x.go", "src/x.gen.go", "src/sub/x.gen.go", ".env", ".env.local", "sub/.env", "secrets/a", "secrets/b/c", "vendor/x.go", "x/vendor/y", "yarn.lock",
					"sub/x.lock", "key.pem", "sub/key.pem", "docs/a.md", "/etc/passwd", "/root/x", im.Home + "/.ssh/id", im.Home + "/.zshrc", im.Home + "/notes/a", im.Home + "/other",
				} {
					full := p
					if !strings.HasPrefix(p, "/") {
						full = im.workspace + "/" + p
					}
					want := m.decide(name, p)
					// What would be asked about outside of the workspace, and files with credentials, are denied. A rule about paths is one about calls.
					narrower := strings.HasPrefix(p, "/") || strings.Contains(p, ".env") || strings.HasSuffix(p, ".pem") || strings.HasSuffix(p, ".gen.go") || name != "Read" && want == allow
					narrower = narrower || m.matches("deny", "Read", p) // it can't be changed, either
					if p == "/etc/passwd" && name == "Read" {
						want = max(want, verdict(!m.matches("deny", name, p))) // what each program may read is read without a question
					}
					im.same(im.call(name, gate.Call{}, "file_path", full), want, narrower, "%s %s", name, p)
				}
			}
			for _, command := range []string{
				"npm run lint", "npm run lint x", "npm run test", "npm run test -v", "npm run build", "npm install", "git diff", "git diff a b", "git status", "git status -s", "git push",
				"git push origin", "git log", "curl", "curl -s https://x.example", "ls", "ls -la", "cat a.txt", "head a.txt", "sort --version", "node --version", "date", "uname -a",
			} {
				for _, after := range []string{"", " && date", "; ls"} {
					want := min(m.decide("Bash", command), allow)
					if _, second, ok := strings.Cut(after+" ", " "); ok && strings.TrimSpace(second) != "" {
						want = min(want, m.decide("Bash", strings.TrimSpace(strings.TrimLeft(after, "&; "))))
					}
					// A program that a rule names runs with the listed arguments alone: nobody is asked about others.
					program, _, _ := strings.Cut(command, " ")
					narrower := slices.ContainsFunc(slices.Concat(texts(m.permissions["deny"]), texts(m.permissions["allow"])), func(r string) bool {
						return strings.Contains(command, "https:") || strings.HasPrefix(r, "Bash("+program) || r == "Bash(* --version)"
					})
					im.same(im.call("Bash", gate.Call{}, "command", command+after), want, narrower, "Bash %s%s", command, after)
				}
			}
			for _, host := range []string{"docs.example.com", "example.com", "www.example.org", "example.org", "evil.example"} {
				want := m.decide("WebFetch", host)
				im.same(im.call("WebFetch", gate.Call{}, "url", "https://"+host+"/x", "prompt", "sum"), want, want == ask, "WebFetch %s", host)
			}
			for _, name := range []string{
				"mcp__github__get_issue", "mcp__github__create_issue", "mcp__puppeteer__click", "mcp__puppeteer__navigate", "WebSearch", "Task", "NotebookEdit",
			} {
				want := m.decide(name, "")
				if name == "Task" {
					want = cmp.Or(deny, allow)
				}
				im.same(im.call(name, gate.Call{}), want, name == "Task" || name == "WebSearch" || name == "NotebookEdit", "%s", name)
			}
			if im.asked < 140 || im.equal*2 < im.asked {
				t.Errorf("%d questions, %d equal", im.asked, im.equal)
			}
		})
	}
}
