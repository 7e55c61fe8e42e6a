package output

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/session"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// denied returns a denial with a suggestion.
func denied(resource, capability, target string) denials.Denial {
	e := event.Event{Kind: event.Denial, Resource: resource, Capability: capability, Target: target, Reason: "no_rule", Suggest: "[[access.fs]]\n"}
	return denials.Denial{Event: e, Count: 1}
}

// shells returns the shells of this machine, into which a request may be pasted.
func shells() (found []string) {
	for _, name := range []string{"sh", "bash", "zsh", "dash"} {
		if _, err := exec.LookPath(name); err == nil {
			found = append(found, name)
		}
	}
	return found
}

// pasted runs a line in a shell in which toolguard prints its arguments, and returns the arguments of each run.
func pasted(t *testing.T, shell, line string) (runs [][]string) {
	t.Helper()
	cmd := exec.Command(shell, "-c", `toolguard() { printf '%s\0' "$@"; printf '\n\0'; }; `+line)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %s: %v: %s", shell, line, err, out)
	}
	var argv []string
	for _, word := range strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if word == "\n" {
			runs, argv = append(runs, argv), nil
			continue
		}
		argv = append(argv, word)
	}
	if argv != nil {
		t.Errorf("%s: %s prints also %q", shell, line, argv)
	}
	return runs
}

// Whatever the target is, a request can be pasted: a shell runs nothing else, and toolguard gets the target as it is.
func TestRequestsCanBePasted(t *testing.T) {
	targets := []string{
		"/x", "/x y", "/it's", "/''", "/$(touch x)", "/`touch x`", "/$HOME", "/a;touch x", "/a&b|c>d<e", `/a\`, `/a"b`, "/*?[a]{b,c}", "/!x !!",
		"/~", "/#x", "/=x", "/ü", "/-x", "/'; touch x; '", `/'\''`, "/%x",
	}
	for _, shell := range shells() {
		for _, target := range targets {
			d := denied("fs", "read+update", target)
			want := [][]string{{"request", "fs", "read", target}, {"request", "fs", "update", target}}
			if got := pasted(t, shell, requestFor(&d)); !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%s: the request for %s is %s: %q", shell, target, requestFor(&d), got)
			}
		}
	}
	for _, target := range []string{"/a\nb", "/a\x1b[201~\n", "/a\tb", "/\xff", "/\u202e", "/\u2028", "/\u009b", "/\x7f", "/\r"} {
		d := denied("fs", "read", target)
		if got := requestFor(&d); got != "" {
			t.Errorf("the request for %q is %q", target, got)
		}
	}
}

// A request asks what was denied: 'toolguard request' reads it as check does.
func TestRequests(t *testing.T) {
	method, proxy := denied("net", "connect", "https://example.com:443"), denied("net", "connect", "tcp://127.0.0.1:3128")
	method.Extra = map[string]string{"method": "POST"}
	proxy.Suggest = "[[access.net]]\nhost = \"127.0.0.1\"\nscheme = \"http\"\n"
	link, argv := denied("fs", "read", "/l"), denied("commands", "execute", "/usr/bin/git")
	link.Mechanism = "landlock:fs.readlink"
	argv.Reason, argv.Asked, argv.Suggest = "args_not_listed", "git push --force", `args = [["push", "--force"]]`
	none := denied("fs", "read", "/etc/shadow")
	none.Suggest = ""
	for _, row := range []struct {
		denial denials.Denial
		want   string
	}{
		{denied("fs", "execute", "/usr/bin/curl"), "fs execute /usr/bin/curl"},
		{denied("net", "connect", "https://example.com:443"), "net connect https://example.com:443"},
		{denied("net", "listen", "tcp://0.0.0.0:80"), "net listen tcp://0.0.0.0:80"},
		{method, "net POST https://example.com:443"},
		{proxy, "net connect http://127.0.0.1:3128"},
		{denied("env", "read", "-X"), "env read -- -X"},
		{link, "fs readlink /l"},
		{denied("commands", "execute", "/usr/bin/git"), "command run -- /usr/bin/git"},
		{argv, "command run -- git push --force"},
		{none, ""},
		{denied("fs", "rename or link", "/x"), ""},
		{denied("syscall", "ptrace", "ptrace"), ""},
		{denied("limits", "wall_time", "wall_time"), ""},
		{denied("net", "connect", "dns:example.com"), ""},
	} {
		got := requestFor(&row.denial)
		if want := "toolguard request " + row.want; got != want && (row.want != "" || got != "") {
			t.Errorf("%s %s %s: %q, not %q", row.denial.Resource, row.denial.Capability, row.denial.Target, got, want)
		}
		if words := strings.Fields(row.want); len(words) > 2 {
			q, err := explain.ParseQuestion(words[0], words[1])
			q.Target = words[len(words)-1]
			if err == nil {
				err = q.NormalizeTarget("/home/me")
			}
			if err != nil {
				t.Errorf("%s: %v", row.want, err)
			}
		}
	}
}

// A trailer is one line of printable characters, lists a bounded number of denials, and counts the others.
func TestTrailer(t *testing.T) {
	r := session.Result{Session: "s1", Summary: denials.Summary{Visible: true}}
	for range mostInTrailer + 3 {
		r.Denials = append(r.Denials, denied("fs", "read", "/a\n\x1b[2J\u202e\u009b\U000e0001<>&"))
	}
	rules := map[string]ruleRef{
		"/p/policy.toml:12:1": {ID: "fs.1", Authority: "host", File: "/p/policy.toml", Line: 12, Col: 1},
		"/a:1:b/p.toml:2:3":   {ID: "fs.1", Authority: "host", File: "/a:1:b/p.toml", Line: 2, Col: 3},
		"preset:python":       {ID: "fs.1", Authority: "host", File: "preset:python"},
		"/a:b:c":              {ID: "fs.1", Authority: "host", File: "/a:b:c"},
	}
	i := 0
	var want []ruleRef
	for place, rule := range rules {
		r.Denials[i].Rule, r.Denials[i].Authority, r.Denials[i].Place = "fs.1", "host", place
		want, i = append(want, rule), i+1
	}
	var b strings.Builder
	s := New(&b, false, false)
	childtest.Must(t, s.Trailer(r, 3))
	line, ok := strings.CutSuffix(b.String(), "\n")
	if !ok || event.Plain(line) != line || !strings.Contains(line, "<>&") {
		t.Errorf("%q", b.String())
	}
	var back trailer
	childtest.Must(t, json.Unmarshal([]byte(line), &back))
	got := back.Toolguard
	if got.Session != "s1" || got.Exit != 3 || len(got.Denials) != mostInTrailer || got.Truncated != 3 || got.Unseen != "" || got.Denials[19].Target != r.Denials[0].Target {
		t.Errorf("%+v", got)
	}
	for i, rule := range want {
		if *got.Denials[i].Rule != rule {
			t.Errorf("%+v, not %+v", *got.Denials[i].Rule, rule)
		}
	}
	if got.Denials[mostInTrailer-1].Rule != nil {
		t.Errorf("%+v", got.Denials[mostInTrailer-1].Rule)
	}
	b.Reset()
	childtest.Must(t, s.Trailer(session.Result{Session: "s1"}, 1))
	if got, want := b.String(), `{"toolguard":{"session":"s1","exit":1,"denials":[],"truncated":0,"unseen":"this user may not"}}`+"\n"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
