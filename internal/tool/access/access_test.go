package access

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// reader is a tool's check of itself, by the document alone: written from the package's description, as slow and plain as it can be.
type reader struct{ Context }

func (r *reader) words(p string) []string {
	if !strings.HasPrefix(p, "/") {
		p = path.Join(r.Root, p)
	}
	return strings.FieldsFunc(p, func(c rune) bool { return c == '/' })
}

// depth is the number of components up to the end of the deepest match; -1 for none.
func (r *reader) depth(base string, match, target []string) int {
	begin := r.words(base)
	if len(target) < len(begin) || !slices.Equal(target[:len(begin)], begin) {
		return -1
	}
	if len(match) == 0 {
		return len(begin)
	}
	for at := len(target) - len(match); at >= len(begin); at-- {
		first, rest := target[at], target[at+1:at+len(match)]
		ok := first == match[0]
		if p, star := strings.CutSuffix(match[0], "*"); star {
			ok = strings.HasPrefix(first, p)
		} else if s, star := strings.CutPrefix(match[0], "*"); star {
			ok = strings.HasSuffix(first, s)
		}
		if ok && slices.Equal(rest, match[1:]) {
			return at + len(match)
		}
	}
	return -1
}

// allows reports whether a tool may do this with a path.
func (r *reader) allows(target string, capability string) bool {
	to, best := r.words(target), -1
	var caps Caps
	lifts := map[string]bool{}
	for _, p := range r.Patterns.FS {
		if d := r.depth(p.Base, p.Match, to); d >= 0 && d >= best {
			best, caps, lifts = d, p.Caps, map[string]bool{"unprotect": p.Unprotect, "secret": p.Secret}
		}
	}
	for _, f := range r.Access.FS {
		if d := r.depth(f.Path, nil, to); d >= 0 && d >= best {
			best, caps, lifts = d, f.Caps, map[string]bool{"unprotect": f.Unprotect, "secret": f.Secret}
		}
	}
	for _, removal := range r.Patterns.Removed {
		deepest, literal, removes := -1, false, []string(nil)
		for _, e := range removal.Rules {
			d, own := r.depth(e.Base, e.Match, to), len(e.Match) == 0
			if d >= 0 && (d > deepest || d == deepest && (own || !literal)) {
				deepest, literal, removes = d, own, e.Removes
			}
		}
		if !lifts[removal.Unless] && slices.Contains(removes, capability) {
			return false
		}
	}
	return map[string]bool{"read": caps.Read, "create": caps.Create, "update": caps.Update, "delete": caps.Delete, "execute": caps.Execute}[capability]
}

// of is what a tool reads of its policy.
func of(t interface {
	Helper()
	Fatalf(string, ...any)
}, c *policy.Compiled,
) *reader {
	t.Helper()
	text, err := New(c, "x").JSON()
	if err != nil {
		t.Fatalf("%v", err)
	}
	var r reader
	if err := json.Unmarshal(text, &r.Context); err != nil {
		t.Fatalf("%v", err)
	}
	return &r
}

var capabilities = map[string]policy.Caps{
	"read": policy.Read, "create": policy.Create, "update": policy.Update, "delete": policy.Delete, "execute": policy.Execute,
}

// A tool that checks itself by the document decides as the policy does. Where several authorities have rules, it may be stricter about patterns, and is
// never wider.
func TestFilesAsThePolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers, _ := policytest.GenLayers(t)
		c, err := policy.Compile(policytest.Source(layers...), policytest.Machine())
		if err != nil {
			t.Skip(err.Error())
		}
		r := of(t, c)
		for range 30 {
			p := policytest.NaiveAbs(policytest.GenPath(t, "target"))
			for name, caps := range capabilities {
				got, want := r.allows(p, name), c.CheckFS(p, caps).Allow
				if got && !want || got != want && len(layers) == 1 {
					t.Fatalf("%s %s: the tool decides %t, the policy %t", name, p, got, want)
				}
			}
		}
	})
}

// With paths alone, several authorities are one list.
func TestAuthoritiesAreOneList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers, _ := policytest.GenLayers(t)
		for i := range layers {
			layers[i].FS = slices.DeleteFunc(layers[i].FS, func(r policy.FSRule) bool { return r.Match != "" })
			layers[i].Protect, layers[i].Secrets = policy.ProtectOff, policy.ProtectOff
		}
		c, err := policy.Compile(policytest.Source(layers...), policytest.Machine())
		if err != nil {
			t.Skip(err.Error())
		}
		r := of(t, c)
		if len(r.Patterns.FS)+len(r.Patterns.Removed) > 0 {
			t.Fatalf("%+v", r.Patterns)
		}
		for range 30 {
			p := policytest.NaiveAbs(policytest.GenPath(t, "target"))
			for name, caps := range capabilities {
				if got, want := r.allows(p, name), c.CheckFS(p, caps).Allow; got != want {
					t.Fatalf("%s %s: the tool decides %t, the policy %t", name, p, got, want)
				}
			}
		}
	})
}

// The document has the reference's fields, and lists in place of what isn't declared.
func TestDocument(t *testing.T) {
	session := policy.SourceLayer{
		Authority: policy.Session,
		FS:        []policy.FSRule{policytest.Path(".", policy.Read), policytest.Path("gen", policy.Read|policy.Write)},
		Net: []policy.NetRule{
			{Host: "api.github.com", Allow: true},
			{Host: "api.github.com", PathPrefix: "/admin", Allow: false},
			{Host: "deb.example", Scheme: "http", Port: 8080, Allow: true},
			{Host: "localhost", Port: 9, Listen: true, Allow: true},
		},
		Env:          []policy.EnvRule{{Name: "AWS_*", Read: true}, {Name: "AWS_SECRET", Read: false}},
		Commands:     []policy.CommandRule{policytest.Command("git", []string{"status", "**"}), policytest.Command("ls")},
		TLSIntercept: true,
	}
	text := marshal(t, New(policytest.Compile(t, session), "search").Access)
	for _, want := range []string{
		`{"path":".","read":true,"create":false,"update":false,"delete":false,"execute":false}`,
		`{"path":"gen","read":true,"create":true,"update":true,"delete":true,"execute":false}`,
		`"net":[{"host":"api.github.com","allow":true},{"host":"deb.example","scheme":"http","port":8080,"allow":true},` +
			`{"host":"api.github.com","path_prefix":"/admin","allow":false}]`,
		`"env":[{"name":"AWS_*","read":true},{"name":"AWS_SECRET","read":false}]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nisn't in\n%s", want, text)
		}
	}
	for _, layers := range [][]policy.SourceLayer{nil, {{Authority: policy.Session, Defaults: [policy.NumResources]policy.DefaultAction{policy.Deny, policy.Deny, policy.Deny, policy.Deny}}}} {
		text := marshal(t, New(policytest.Compile(t, layers...), "search").Access)
		want := `"net":[{"host":"*","allow":true}],"env":[{"name":"*","read":true}],"commands":{"*":{"args":[["**"]]}}`
		if layers != nil {
			want = `"net":[],"env":[],"commands":{}}`
		}
		if !strings.Contains(text, want) || strings.Contains(text, `:null`) {
			t.Errorf("%s\nisn't in\n%s", want, text)
		}
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	childtest.Must(t, err)
	return string(text)
}

// What an authority denies, no other one grants.
func TestSeveralAuthorities(t *testing.T) {
	host := policy.SourceLayer{
		Authority:    policy.Host,
		Net:          []policy.NetRule{{Host: "a.example", Allow: true}, {Host: "a.example", PathPrefix: "/admin", Allow: false}},
		Env:          []policy.EnvRule{{Name: "A*", Read: true}, {Name: "B", Read: true}},
		Commands:     []policy.CommandRule{policytest.Command("git", []string{"status", "**"}, []string{"diff"}), policytest.Command("ls")},
		TLSIntercept: true,
	}
	session := policy.SourceLayer{
		Authority:    policy.Session,
		Net:          []policy.NetRule{{Host: "a.example", Scheme: "https", Port: 443, Allow: true}, {Host: "b.example", Allow: true}},
		Env:          []policy.EnvRule{{Name: "AB*", Read: false}, {Name: "*", Read: true}},
		Commands:     []policy.CommandRule{policytest.Command("git", []string{"status", "-s"}, []string{"log", "**"})},
		TLSIntercept: true,
	}
	got := New(policytest.Compile(t, host, session), "x").Access
	for _, n := range []Net{
		{Host: "a.example", Scheme: "https", Port: 443, Allow: true},
		{Host: "a.example", Scheme: "https", Port: 443, PathPrefix: "/admin"},
		{Host: "b.example"},
	} {
		if !slices.Contains(got.Net, n) {
			t.Errorf("%+v isn't in %+v", n, got.Net)
		}
	}
	if want := []Env{{"*", false}, {"A*", true}, {"AB*", false}, {"B", true}}; !slices.Equal(got.Env, want) {
		t.Errorf("%+v", got.Env)
	}
	if text := marshal(t, got.Commands); text != `{"git":{"args":[["status","-s"]]}}` {
		t.Error(text)
	}
}

func TestMeet(t *testing.T) {
	for _, row := range []struct{ a, b, want string }{
		{"**", "**", "**"},
		{"**", "a b", "a b"},
		{"a **", "a b **", "a b **"},
		{"a **", "a", "a"},
		{"a", "a **", "a"},
		{"a", "a", "a"},
		{"a", "a b", ""},
		{"a **", "b", ""},
		{"a b", "a **", "a b"},
	} {
		out, ok := meetOne(strings.Fields(row.a), strings.Fields(row.b))
		if got := strings.Join(out, " "); got != row.want || ok != (row.want != "") {
			t.Errorf("%s and %s: %q", row.a, row.b, got)
		}
	}
}

// A denial names what is granted, the workspace first, and never more than 20 entries.
func TestGrants(t *testing.T) {
	l := policy.SourceLayer{Authority: policy.Session}
	for i := range 30 {
		l.FS = append(l.FS, policytest.Path("/d"+string(rune('a'+i)), policy.Read))
	}
	l.FS = append(l.FS, policytest.Path("gen", policy.Read|policy.Update), policytest.Path("none", 0), policytest.Match("**/x", policy.Read))
	x := New(policytest.Compile(t, l), "x")
	list := x.Grants(policy.FS)
	if len(list) != 20 || list[0] != "read+update gen" || list[1] != "read **/x" || !strings.HasSuffix(list[19], "more") {
		t.Errorf("%q", list)
	}
	if got := x.Grants(policy.Commands); !slices.Equal(got, []string{"run *"}) {
		t.Errorf("%q", got)
	}
}

// What isn't a document of toolguard's is an error.
func TestParse(t *testing.T) {
	text, err := New(policytest.Compile(t), "x").JSON()
	childtest.Must(t, err)
	x, err := Parse(text)
	childtest.Must(t, err)
	if x.Tool != "x" || x.Policy.Digest != policytest.Compile(t).Digest {
		t.Errorf("%+v", x)
	}
	for name, text := range map[string]string{"empty": "", "no policy": "{}", "another policy": strings.Replace(string(text), `"Digest":"`, `"Digest":"0`, 1), "too large": strings.Repeat(" ", MaxSize) + "{}"} {
		if _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, value := range []string{"", "/etc/passwd", "/proc/self/fd/../../1/environ", "/proc/self/fd/x", "/proc/self/fd/99999"} {
		if _, err := Open(value); err == nil || !strings.Contains(err.Error(), Variable) {
			t.Errorf("%q: %v", value, err)
		}
	}
}
