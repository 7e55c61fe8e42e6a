package imports

import (
	"reflect"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/gate"
)

// Input that isn't what it should be is an error, and no policy.
func TestBadInput(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	for _, x := range []struct{ from, text, want string }{
		{"", "{}", "name the format"},
		{"openclawd", "{}", `"openclaw"`},
		{"openclaw", "{tools: {deny: ['a'], deny: []}}", "given twice"},
		{"openclaw", "{tools: {deny: 'exec'}}", "tools.deny: it isn't a list"},
		{"openclaw", "{a: " + deep, "nested"},
		{"openclaw", "[]", "isn't a table"},
		{"openclaw", "{} x", "text after"},
		{"openclaw", "{a: 'b\nc'}", "line 2"},
		{"openclaw", "{a: \"\xff\"}", "UTF-8"},
		{"openclaw", "{tools: {exec: {ask: 'Always'}}}", "none of"},
		{"openclaw", "{a: [" + strings.Repeat("1,", maxValues) + "]}", "values"},
		{"openclaw", strings.Repeat(" ", MaxSize+1), "larger"},
		{"jp", "[conversation.tools.x]\nsource = 'mcp'\n", "no server"},
		{"jp", "[conversation.tools.x]\nsource = 'builtin'\naccess.fs = []\n", "local tools alone"},
		{"jp", "[conversation.tools.x]\nsource = 'local'\naccess.fs = [{ path = '../y', read = true }]\n", "in the workspace"},
		{"jp", "[conversation.tools.x]\nsource = 'local'\naccess.fs = [{ path = '/y', read = true }]\n", "in the workspace"},
		{"jp", "a = " + deep, "nested"},
		{"jp", "a = 1\na = 2\n", "line 2"},
		{"llm-proxy", "a: &x [1]\nb: *x\n", "aliases"},
		{"llm-proxy", "a: 1\na: 2\n", "twice"},
		{"llm-proxy", "a: !!binary AA==\n", "tag"},
		{"llm-proxy", "access_policies: [{model_pattern: '.*', default_policy: maybe}]\n", "none of"},
		{"agents-kt", `{"agentsKtManifestVersion":3}`, "neither"},
		{"agents-kt", `{"agentsKtManifestVersion":1,"agents":[{"name":"a"},{"name":"A"}]}`, "names of their own"},
		{"claude-code", `{"permissions":{"deny":["Bash(x"]}}`, "no rule"},
		{"claude-code", `{"permissions":{"defaultMode":"open"}}`, "none of"},
	} {
		r, err := Import(x.from, "f", []byte(x.text))
		if err == nil || r != nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s %.60q: %v, without %q", x.from, x.text, err, x.want)
		}
	}
}

func TestJSON5(t *testing.T) {
	got, err := readJSON5([]byte("// a comment\n{ a: 'it\\'s', \"b\": [1, -2, +3, 0x10, .5, 1e3,], /* c */ $c: true, d: null, e: \"\\u00e9\\x41\\\n\\ud83d\\ude00\", }"))
	childtest.Must(t, err)
	want := map[string]any{"a": "it's", "b": []any{int64(1), int64(-2), int64(3), int64(16), .5, 1000.}, "$c": true, "d": nil, "e": "éA😀"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v", got)
	}
}

func TestExpressions(t *testing.T) {
	for re, want := range map[string][2]string{ // what is allowed, and what is denied
		"read_file":        {"read_file", "*read_file*"},
		"^read_file$":      {"read_file", "read_file"},
		"search_.*":        {"search_*", "*search_*"},
		".*":               {"*", "*"},
		"^(rm|del)_.*":     {"del_* rm_*", "del_* rm_*"},
		"remove_(a|b)?c":   {"remove_ac remove_bc remove_c", "*remove_ac* *remove_bc* *remove_c*"},
		"get_\\w+":         {"", "*get_*"},
		"x[0-9]+":          {"", "*x*"},
		"a{1,2}":           {"a aa", "*a* *aa*"},
		"(":                {"", "*"},
		"\\bx\\b":          {"", "*x*"},
		"x|^y":             {"", "*x* *y*"},
		"(?i)Deploy":       {"DEPLOY", "*DEPLOY*"},
		"a b":              {"", ""},
		"(a|b|c|d|e){9}zz": {"", "*zz*"},
	} {
		e := expressionOf(re)
		if got := [2]string{strings.Join(e.whole(), " "), strings.Join(e.anywhere(), " ")}; got != want {
			t.Errorf("%s: %q, not %q", re, got, want)
		}
	}
}

// Any input has an error or a policy of printable lines, whose comments and values can't become keys.
func FuzzImport(f *testing.F) {
	for i, text := range []string{
		"[conversation.tools.'a\"b']\nsource = 'local'\naccess.fs = [{ path = 'a', read = true }]\n",
		"{tools: {deny: ['a\\nversion = 2'], byProvider: {'x\\ny': {allow: []}}}}", "{}", `{"agentsKtManifestVersion":1,"agents":[{"name":"a\nb","tools":[{"name":"x"}]}]}`,
		"access_policies: [{model_pattern: 'a:b', default_policy: deny, allowed_patterns: ['a.*']}]\n", `{"permissions":{"deny":["Read(a\nb)"],"allow":["Bash(ls:*)"]}}`,
	} {
		f.Add(uint8(i), text)
	}
	f.Fuzz(func(t *testing.T, n uint8, text string) {
		format := formats[int(n)%len(formats)]
		r, err := Import(format.name, "a\nfile", []byte(text))
		if err != nil {
			return
		}
		if _, err := readTOML(r.Policy); err != nil {
			t.Errorf("%s %q: %s\n%s", format.name, text, err, r.Policy)
		}
	})
}

// OpenClaw and Claude Code ask about a command line that they don't read. Here, it's read, and what it does decides.
func TestCommandLinesAreRead(t *testing.T) {
	for _, x := range []struct {
		from, fixture, tool, agent, listed, other string
		unlisted                                  int
	}{
		{"openclaw", "openclaw-approvals.json", "exec", "main", "/bin/ls src", "head src/a", ask},
		{"claude-code", "claude-code-project.json", "Bash", "", "git diff x", "curl x", deny},
	} {
		t.Run(x.from, func(t *testing.T) {
			im := importFixture(t, x.from, x.fixture)
			for line, want := range map[string]int{
				x.listed + " $(" + x.listed + ")": allow, x.listed + " > src/b": allow, x.listed + "\n" + x.listed: allow,
				x.listed + " $(" + x.other + ")": x.unlisted, x.listed + " > /root/b": deny, x.listed + "\n" + x.other: x.unlisted,
			} {
				if got := im.call(x.tool, gate.Call{Agent: x.agent}, "command", line); got != want {
					t.Errorf("%q: %d, not %d", line, got, want)
				}
			}
		})
	}
}

// A rule for each command makes rules for some of them unnecessary, in either order, unless one denies or asks.
func TestEachCommand(t *testing.T) {
	for list, want := range map[string]string{
		`"allow":["Bash","Bash(git status)"]`:               `security = "full"`,
		`"allow":["Bash(git status)","Bash"]`:               `security = "full"`,
		`"allow":["Bash"],"deny":["Bash(git push:*)"]`:      `security = "allowlist"`,
		`"allow":["Bash"],"ask":["Bash"]`:                   `security = "allowlist"`,
		`"defaultMode":"bypassPermissions"`:                 `security = "full"`,
		`"defaultMode":"bypassPermissions","ask":["Bash"]`:  `security = "allowlist"`,
		`"defaultMode":"acceptEdits","allow":["Bash(ls)"]`:  `security = "allowlist"`,
		`"defaultMode":"dontAsk","allow":["Bash(ls:*)"]`:    `security = "allowlist"`,
		`"allow":["Bash(git:*)"],"deny":["Bash(git push)"]`: "args = []",
	} {
		r, err := Import("claude-code", "f", []byte(`{"permissions":{`+list+"}}"))
		childtest.Must(t, err)
		if !strings.Contains(string(r.Policy), want) {
			t.Errorf("%s: no %s in\n%s", list, want, r.Policy)
		}
	}
}
