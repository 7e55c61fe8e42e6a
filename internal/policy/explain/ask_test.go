package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

func answerTo(c *policy.Compiled, q Question) Answer {
	_, a := Ask(c, policytest.Machine(), q)
	return a
}

func TestSuggestions(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{
		FS:       []policy.FSRule{policytest.Path(".", policy.Read|policy.Write), policytest.Path("src", policy.Read), policytest.Match("**/.env", 0)},
		Net:      []policy.NetRule{policytest.Host("a.com", true), {Host: "a.com", PathPrefix: "/admin"}, {Host: "b.com", Port: 443}},
		Env:      []policy.EnvRule{{Name: "A_*"}},
		Commands: []policy.CommandRule{policytest.Command("git", []string{"status"})}, TLSIntercept: true,
		Protect: policy.ProtectOn, Protected: []policy.FSRule{policytest.Match("**/.envrc", 0)}, Secrets: policy.ProtectOn, SecretFiles: []policy.FSRule{policytest.Match("/**/.netrc", 0)},
	})
	for _, x := range []struct {
		q    Question
		want string
	}{
		{Question{Resource: policy.FS, Caps: policy.Read, Target: "/etc/passwd"}, "[[access.fs]]\npath = \"/etc/passwd\"\nread = true\n"},
		{Question{Resource: policy.FS, Caps: policy.Update, Target: "src/lib.rs"}, "[[access.fs]]\npath = \"src/lib.rs\"\nread = true\nupdate = true\n"},
		{Question{Resource: policy.FS, Caps: policy.Read, Target: ".netrc"}, ""},
		{Question{Resource: policy.FS, Caps: policy.Update, Target: ".envrc"}, ""},
		{Question{Resource: policy.FS, Caps: policy.Update, Target: "/etc/toolguard/x"}, ""},
		{Question{Resource: policy.FS, Caps: policy.Read, Target: "loop"}, ""},
		{Question{Resource: policy.Net, Target: "https://c.com/"}, "[[access.net]]\nhost = \"c.com\"\nscheme = \"https\"\nallow = true\n"},
		{Question{Resource: policy.Net, Target: "https://c.com/x"}, "[[access.net]]\nhost = \"c.com\"\nscheme = \"https\"\npath_prefix = \"/x\"\nallow = true\n"},
		{Question{Resource: policy.Net, Target: "http://c.com/", Method: "GET"}, "[[access.net]]\nhost = \"c.com\"\nscheme = \"http\"\nmethods = [\"GET\"]\nallow = true\n"},
		{Question{Resource: policy.Net, Target: "http://c.com/../x"}, ""},
		{Question{Resource: policy.Net, Target: "tcp://c.com:25"}, "[[access.net]]\nhost = \"c.com\"\nport = 25\nallow = true\n"},
		{Question{Resource: policy.Net, Target: "tcp://c.com:3128", Scheme: "http"}, "[[access.net]]\nhost = \"c.com\"\nscheme = \"http\"\nport = 3128\nallow = true\n"},
		{Question{Resource: policy.Net, Target: "tcp://0.0.0.0:25"}, "[[access.net]]\nhost = \"127.0.0.1\"\nport = 25\nallow = true\n"},
		{Question{Resource: policy.Net, Target: "tcp://0.0.0.0:25", Listen: true}, "[[access.net]]\nhost = \"0.0.0.0\"\nport = 25\nlisten = true\nallow = true\n"},
		{Question{Resource: policy.Net, Target: "udp://c.com:53"}, "[[access.net]]\nhost = \"c.com\"\nport = 53\nprotocol = \"udp\"\nallow = true\n"},
		{Question{Resource: policy.Net, Target: "https://b.com/"}, "[[access.net]]\nhost = \"b.com\"\nscheme = \"https\"\nallow = true\n"},
		{Question{Resource: policy.Net, Target: "https://a.com/admin/x"}, "[[access.net]]\nhost = \"a.com\"\nscheme = \"https\"\npath_prefix = \"/admin/x\"\nallow = true\n"},
		{Question{Resource: policy.Net, Target: "https://u@c.com/"}, ""},
		{Question{Resource: policy.Env, Target: "A_B"}, "[[access.env]]\nname = \"A_B\"\nread = true\n"},
		{Question{Resource: policy.Commands, Argv: []string{"git", "push"}}, "[access.commands.\"/usr/bin/git\"]\nargs = [[\"status\"], [\"push\"]]\n"},
		{Question{Resource: policy.Commands, Argv: []string{"python3", "x"}}, "[access.commands.\"/usr/bin/python3.11\"]\nargs = [[\"x\"]]\n"},
		{Question{Resource: policy.Commands, Argv: []string{"sh", "x"}}, "[access.commands.sh]\nargs = [[\"x\"]]\n"},
		{Question{Resource: policy.Commands, Argv: []string{"/bin/sh", "x"}}, "[access.commands.\"/bin/sh\"]\nargs = [[\"x\"]]\n"},
	} {
		a := answerTo(c, x.q)
		if a.Decision != "deny" || a.Suggest != x.want {
			t.Errorf("%+v: %s %s, suggest\n%s\nwant\n%s", x.q, a.Decision, a.Reason, a.Suggest, x.want)
		}
	}
	described := Describe(c, c.CheckCommand("/usr/bin/curl", nil), Question{Resource: policy.Commands, Target: "/usr/bin/curl"}, "/usr/bin/curl")
	if want := "[access.commands.\"/usr/bin/curl\"]\n"; described.Suggest != want { // its arguments aren't known
		t.Errorf("suggest\n%s\nwant\n%s", described.Suggest, want)
	}
	// A verdict of an older policy is described without that policy.
	described = Describe(c, policy.Verdict{Layer: int16(len(c.Layers)), Rule: int32(len(c.Rules))}, Question{Resource: policy.FS, Target: "/w/x"}, "")
	if described.Rule != nil || described.Target != "/w/x" || described.Decision != "deny" {
		t.Errorf("%+v", described)
	}
	v, _ := Ask(c, policytest.Machine(), Question{Resource: policy.Net, Target: "https://c.com/"})
	if described := Describe(c, v, Question{Resource: policy.Net, Target: "https://c.com/"}, "c.com"); described.Target != "c.com" || !strings.Contains(described.Suggest, "scheme = \"https\"") {
		t.Errorf("%+v", described)
	}
	args := c.CheckCommand("/usr/bin/git", []string{"git", "push"})
	described = Describe(c, args, Question{Resource: policy.Commands, Target: "/usr/bin/renamed", Argv: []string{"git", "push"}}, "/usr/bin/renamed")
	if args.Reason != policy.ArgsNotListed || described.Suggest != "" { // the kernel's event may have the name that it was given since
		t.Errorf("%s: suggest\n%s", args.Reason, described.Suggest)
	}
}

// A suggestion grants the request and no more: an argument that would match any others isn't suggested.
func TestAnyArgsAreNotSuggested(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{Commands: []policy.CommandRule{policytest.Command("git", []string{"status"})}})
	for line, want := range map[string]bool{"git push": true, "git push **": false, "git **": false, "sh x": true, "sh **": false} {
		_, a := Ask(c, policytest.Machine(), Question{Resource: policy.Commands, Argv: strings.Fields(line)})
		if a.Decision == "allow" || (a.Suggest != "") != want {
			t.Errorf("%s: %s, suggests %q", line, a.Decision, a.Suggest)
		}
	}
}

// A table is suggested again with what was missing in it, unless it would be too long to read.
func TestLongSuggestion(t *testing.T) {
	for _, x := range []struct {
		rule      policy.CommandRule
		suggested bool
	}{
		{policy.CommandRule{Args: [][]string{{"status"}}}, true},
		{policy.CommandRule{Args: [][]string{{strings.Repeat("x", maxListed)}}}, false},
		{policy.CommandRule{Args: [][]string{slices.Repeat([]string{""}, maxListed)}}, false},
		{policy.CommandRule{Args: slices.Repeat([][]string{{}}, maxListed)}, false},
		{policy.CommandRule{Args: [][]string{{"status"}}, Envs: slices.Repeat([]string{"PATH"}, maxListed), HasEnvs: true}, false},
	} {
		x.rule.Name, x.rule.HasArgs = "git", true
		c := policytest.Compile(t, policy.SourceLayer{Commands: []policy.CommandRule{x.rule}})
		argv := []string{"git", "push"}
		v := c.CheckCommand("/usr/bin/git", argv)
		text := Describe(c, v, Question{Resource: policy.Commands, Target: "/usr/bin/git", Argv: argv}, "/usr/bin/git").Suggest
		if v.Reason != policy.ArgsNotListed || strings.Contains(text, "push") != x.suggested {
			t.Errorf("%.50v: %s: suggest\n%.200s", x.rule, v.Reason, text)
		}
	}
}

// A suggestion grants the request and no other one.
func TestNetSuggestions(t *testing.T) {
	src := policy.SourceLayer{TLSIntercept: true, Net: []policy.NetRule{
		{Host: "a.com", Scheme: "http", PathPrefix: "/v1", Methods: []string{"GET"}, Allow: true},
		policytest.Host("b.com", true),
		{Host: "b.com", PathPrefix: "/admin"},
		{Host: "c.com", Port: 8080, PathPrefix: "/x", Scheme: "http"},
	}}
	for _, x := range []struct{ method, url, others string }{
		{"POST", "http://a.com/v1/y", "PUT http://a.com/v1/y; POST http://a.com/v1/z; POST http://a.com/; POST https://a.com/v1/y; POST http://z.com/v1/y"},
		{"GET", "http://a.com/v2", "GET http://a.com/; POST http://a.com/v2; GET http://a.com/v21"},
		{"POST", "http://a.com/", "DELETE http://a.com/; POST https://a.com/"},
		{"GET", "https://b.com/admin/a%20b/%C3%A9", "GET https://b.com/admin; GET https://b.com/admin/c; POST https://b.com/admin/a%20b/%C3%A9; GET http://b.com/admin/a%20b/%C3%A9"},
		{"", "http://b.com/admin", "GET https://b.com/admin"},
		{"GET", "ws://d.com/live", "GET ws://d.com/; GET wss://d.com/live; GET http://d.com/live"},
		{"GET", "http://c.com:8080/x", "POST http://c.com:8080/x; GET http://c.com:8080/; GET http://c.com/x"},
	} {
		c := policytest.Compile(t, src)
		v, a := ask(c, policytest.Machine(), Question{Resource: policy.Net, Target: x.url, Method: x.method})
		r, ok := suggestNet(v, c.Layers[v.Layer], &a)
		if v.Allow || !ok {
			t.Errorf("%s %s: %+v, %+v", x.method, x.url, v, r)
			continue
		}
		wider := src
		wider.Net = append(slices.Clone(src.Net), r)
		c = policytest.Compile(t, wider)
		if a := answerTo(c, Question{Resource: policy.Net, Target: x.url, Method: x.method}); a.Decision != "allow" {
			t.Errorf("%s %s isn't granted by %+v", x.method, x.url, r)
		}
		for other := range strings.SplitSeq(x.others, "; ") {
			method, url, _ := strings.Cut(other, " ")
			if a := answerTo(c, Question{Resource: policy.Net, Target: url, Method: method}); a.Decision != "deny" {
				t.Errorf("%s is granted by what is suggested for %s %s: %+v", other, x.method, x.url, r)
			}
		}
	}
}

// A suggestion, appended to the layer that denied, makes that layer allow; one after another they allow the whole.
func TestSuggestionsWork(t *testing.T) {
	sys := fspathtest.New(map[string]string{"/w": "dir"})
	rapid.Check(t, func(t *rapid.T) {
		layers, _ := policytest.GenLayers(t)
		q := Question{Resource: policy.FS, Target: policytest.GenPath(t, "path"), Caps: policy.Caps(rapid.IntRange(1, int(policy.AllCaps)).Draw(t, "want"))}
		for range 2*len(layers) + 1 {
			c := policytest.CompileOn(t, sys, layers...)
			v, a := ask(c, sys, q)
			if v.Allow {
				return
			}
			l := c.Layers[v.Layer]
			r, ok := suggestFS(c, v, l, &a)
			if !ok {
				t.Fatalf("%+v: nothing is suggested", v)
			}
			lift := v.Reason == policy.Protected
			r.Unprotect, r.Secret = r.Unprotect || lift, r.Secret || lift // which takes more than a suggestion
			layers[v.Layer-1].FS = append(slices.Clone(layers[v.Layer-1].FS), r)
		}
		t.Fatal("the suggestions don't lead to an allow")
	})
}

// Explain agrees with Ask, and its candidates with those of the naive evaluator.
func TestExplainAgrees(t *testing.T) {
	sys := fspathtest.New(map[string]string{"/w": "dir"})
	rapid.Check(t, func(t *rapid.T) {
		layers, naive := policytest.GenLayers(t)
		c := policytest.CompileOn(t, sys, layers...)
		q := Question{Resource: policy.FS, Target: policytest.GenPath(t, "path"), Caps: policy.Caps(rapid.IntRange(1, int(policy.AllCaps)).Draw(t, "want"))}
		e := Explain(c, sys, q)
		if _, a := Ask(c, sys, q); a != e.Answer {
			t.Fatalf("explain %+v, ask %+v", e.Answer, a)
		}
		allow := true
		for _, x := range e.Layers {
			allow = allow && x.Allow
			if x.Authority == policy.Builtin {
				continue
			}
			n := naive[x.Authority-policy.Host]
			want := 0
			for _, r := range n.Rules {
				if policytest.NaiveDepth(r, q.Target) >= 0 {
					want++
				}
			}
			for _, cand := range x.Candidates {
				if strings.HasPrefix(cand.Grade, "protect") || strings.HasPrefix(cand.Grade, "secrets") {
					want++
				}
				if cand.Why == "" {
					t.Fatalf("%s: no reason", cand.Rule.ID)
				}
			}
			if want != len(x.Candidates) {
				t.Fatalf("%s: %d candidates, want %d", x.Authority, len(x.Candidates), want)
			}
		}
		if allow != (e.Answer.Decision == "allow") {
			t.Fatalf("the layers say %v, the answer %+v", allow, e.Answer)
		}
	})
}

// The text of a completed built-in rule shows that; toolguard's own rules are never completed.
func TestExplainBuiltinRules(t *testing.T) {
	null := policytest.Optional(policytest.Path("/dev/null", policy.Read|policy.Update))
	null.Position.File = "builtin:runtime"
	sys := policytest.Machine()
	sys["/dev/null"] = "file"
	c := policytest.CompileOn(t, sys, policy.SourceLayer{Runtime: []policy.FSRule{null}, FS: []policy.FSRule{policytest.Path("/", policy.Read|policy.Execute)}})
	for target, want := range map[string]string{
		"/dev/null":      "the most specific match; a built-in rule, it adds to what there is without it",
		"/w/x":           "the most specific match; its capabilities apply in full",
		"/etc/toolguard": "the most specific match; its capabilities apply in full",
	} {
		e := Explain(c, sys, Question{Resource: policy.FS, Caps: policy.Update, Target: target})
		if len(e.Layers) == 0 || !slices.ContainsFunc(e.Layers[0].Candidates, func(c Candidate) bool { return c.Won && c.Why == want }) {
			t.Errorf("%s: %+v", target, e)
		}
	}
}

func TestExplain(t *testing.T) {
	c := policytest.Compile(t,
		policy.SourceLayer{Authority: policy.Host, FS: []policy.FSRule{policytest.Path("/", policy.Read)}, Env: []policy.EnvRule{{Name: "*", Read: true}}},
		policy.SourceLayer{
			FS:  []policy.FSRule{policytest.Path(".", policy.Read|policy.Write), policytest.Path("src", policy.Read|policy.Write), policytest.Match("**/lib.rs", 0), policytest.Path("src/lib.rs", policy.Read), policytest.Path("src/lib.rs", policy.Read|policy.Write)},
			Net: []policy.NetRule{policytest.Host("*.a.com", false), policytest.Host("x.a.com", true), {Host: "x.a.com", Port: 8443, Allow: true}},
			Env: []policy.EnvRule{{Name: "A*"}, {Name: "AB", Read: true}}, Commands: []policy.CommandRule{policytest.Command("git", []string{"x"}), policytest.Command("/usr/bin/git")},
		})
	for _, x := range []struct {
		q    Question
		want string
	}{
		{Question{Resource: policy.FS, Caps: policy.Update, Target: "link/lib.rs"}, `deny rule_denies host.fs.1
host false rule_denies
  * host.fs.1 depth 0, literal: the most specific match; its capabilities apply in full
session true rule_allows
    fs.1 depth 1, literal: it matches less deep than fs.5
    fs.2 depth 2, literal: it matches less deep than fs.5
    fs.3 depth 3, pattern: at the same depth the literal fs.5 beats a pattern
    fs.4 depth 3, literal: it's as specific and comes earlier than fs.5
  * fs.5 depth 3, literal: the most specific match; its capabilities apply in full
`},
		{Question{Resource: policy.Net, Target: "https://x.a.com/"}, `allow rule_allows net.2
session true rule_allows
    net.1 0 parts, wildcard: its host is less specific than net.2
  * net.2 0 parts, exact host: the most specific match
    net.3 1 part, exact host: the host matches, but not the port
`},
		{Question{Resource: policy.Env, Target: "AB"}, `allow rule_allows env.2
host true rule_allows
  * host.env.1 0 bytes, prefix: the longest match
session true rule_allows
    env.1 1 byte, prefix: it's shorter than env.2
  * env.2 2 bytes, exact: the longest match
`},
		{Question{Resource: policy.FS, Caps: policy.Read, Target: "loop"}, "deny path_unresolved -\n"},
	} {
		e := Explain(c, policytest.Machine(), x.q)
		if got := explained(e); got != x.want {
			t.Errorf("%+v:\n%s\nwant\n%s", x.q, got, x.want)
		}
	}
	own := Explain(c, policytest.Machine(), Question{Resource: policy.FS, Caps: policy.Update, Target: "/etc/toolguard/x"}) // toolguard's word comes first
	if l := own.Layers[0]; own.Answer.Reason != policy.Protected || l.Authority != policy.Builtin || l.Allow || l.Reason != policy.Protected || !l.Candidates[0].Won || l.Candidates[0].Rule != own.Answer.Rule {
		t.Errorf("its own files: %s", explained(own))
	}
	e := Explain(c, policytest.Machine(), Question{Resource: policy.Commands, Argv: []string{"git", "y"}})
	if n := len(e.Layers[0].Candidates); n != 2 || !e.Layers[0].Candidates[1].Won {
		t.Errorf("commands: %s", explained(e))
	}
}

func explained(e Explanation) string {
	var b strings.Builder
	id := "-"
	if e.Answer.Rule != nil {
		id = e.Answer.Rule.ID
	}
	fmt.Fprintln(&b, e.Answer.Decision, e.Answer.Reason, id)
	for _, l := range e.Layers {
		fmt.Fprintln(&b, l.Authority, l.Allow, l.Reason)
		for _, c := range l.Candidates {
			mark := "   "
			if c.Won {
				mark = "  *"
			}
			fmt.Fprintf(&b, "%s %s %s: %s\n", mark, c.Rule.ID, c.Grade, c.Why)
		}
	}
	return b.String()
}
