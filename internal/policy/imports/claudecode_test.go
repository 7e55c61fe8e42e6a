package imports

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/tool/gate"
)

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
	value = strings.ToLower(value) // as in a parsed URL
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
		inside = inside || strings.HasPrefix(value+"/", strings.Replace(dir, "~", m.home, 1)+"/")
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
			for _, name := range []string{"Read", "Edit", "Write", "MultiEdit"} {
				for _, p := range []string{
					"a.txt", "src/x.go", "src/x.gen.go", "src/sub/x.gen.go", ".env", ".env.local", "sub/.env", "secrets/a", "secrets/b/c", "vendor/x.go", "x/vendor/y", "yarn.lock",
					"sub/x.lock", "key.pem", "sub/key.pem", "docs/a.md", "/etc/passwd", "/root/x", im.Home + "/.ssh/id", im.Home + "/.zshrc", im.Home + "/notes/a", im.Home + "/other",
					"src", "src/y.gen.go.txt", "secrets", "secrets2/a", "docs", "docs/sub/b.md", "vendor", "vendored/x", "README", "a.lock/b", im.Home + "/notes", im.Home + "/notes2/a", "/etc",
				} {
					full := p
					if !strings.HasPrefix(p, "/") {
						full = im.workspace + "/" + p
					}
					want := m.decide(name, p)
					// What would be asked about outside of the workspace, and files with credentials, are denied. A rule about paths is one about calls.
					narrower := strings.HasPrefix(p, "/") || strings.Contains(p, ".env") || strings.HasSuffix(p, ".pem") || strings.HasSuffix(p, ".gen.go") || name != "Read" && want == allow
					narrower = narrower || m.matches("deny", "Read", p)      // it can't be changed, either
					narrower = narrower || m.matches("deny", "Read", p+"/x") // a rule for what is in a folder is for the folder, too
					if p == "/etc/passwd" && name == "Read" {
						want = max(want, verdict(!m.matches("deny", name, p))) // what each program may read is read without a question
					}
					im.same(im.call(name, gate.Call{}, "file_path", full), want, narrower, "%s %s", name, p)
				}
			}
			for _, command := range []string{
				"npm run lint", "npm run lint x", "npm run test", "npm run test -v", "npm run build", "npm install", "git diff", "git diff a b", "git status", "git status -s", "git push",
				"git push origin", "git log", "curl", "curl -s https://x.example", "ls", "ls -la", "cat a.txt", "head a.txt", "sort --version", "node --version", "date", "uname -a",
				"npm", "npm run", "npm run lint2", "npm run testing", "npm test", "git", "git diff", "git difftool", "git pushx", "git push --force origin x", "lsblk", "curl --version", "git --version",
				"wc a.txt", "cat --version", "ls --version",
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
			for _, host := range []string{"docs.example.com", "example.com", "www.example.org", "example.org", "evil.example", "a.b.example.org", "docs.example.com.evil.example", "xexample.org", "DOCS.example.com"} {
				want := m.decide("WebFetch", host)
				im.same(im.call("WebFetch", gate.Call{}, "url", "https://"+host+"/x", "prompt", "sum"), want, want == ask, "WebFetch %s", host)
			}
			for _, name := range []string{
				"mcp__github__get_issue", "mcp__github__create_issue", "mcp__puppeteer__click", "mcp__puppeteer__navigate", "mcp__github2__get_issue", "mcp__github__get_issues",
				"mcp__puppeteer__navigates", "mcp__puppeteers__click", "WebSearch", "Task", "NotebookEdit",
			} {
				want := m.decide(name, "")
				if name == "Task" {
					want = cmp.Or(deny, allow)
				}
				im.same(im.call(name, gate.Call{}), want, name == "Task" || name == "WebSearch" || name == "NotebookEdit", "%s", name)
			}
			im.enough(50)
		})
	}
}
