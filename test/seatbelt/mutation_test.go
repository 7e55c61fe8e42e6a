package seatbelt

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/darwin"
	"github.com/toolguard/toolguard/internal/darwin/sbpltest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// mutated is a policy with every kind of rule.
func mutated() (*policy.Source, map[string]string) {
	const r, rw = policy.Read, policy.Read | policy.Write
	protect := policy.Position{File: "builtin:protect"}
	src := policytest.Source(policy.SourceLayer{
		FS: []policy.FSRule{
			policytest.Path(".", policy.AllCaps), policytest.Path("ro", r), policytest.Path("new", r), policytest.Path("secret", 0),
			policytest.Path("secret/open", rw), policytest.Path("/tmp/x", rw), policytest.Path("/opt/tool", r|policy.Execute),
			policytest.Match("**/.env", 0), policytest.Unprotected(policytest.Path("sub/.git/hooks", rw)),
		},
		Protect: policy.ProtectOn, Protected: []policy.FSRule{{Match: "/**/.git/hooks", Position: protect}},
		Secrets: policy.ProtectOn, SecretFiles: []policy.FSRule{{Match: "/**/*.pem", Position: policy.Position{File: "builtin:secrets"}}},
		Net: []policy.NetRule{
			{Host: "localhost", Port: 5432, Protocol: "tcp", Allow: true},
			{Host: "api.example.com", Allow: true},
			{Host: "localhost", Port: 80, Listen: true, Allow: true},
		},
		Commands: []policy.CommandRule{{Name: "/opt/tool"}, {Name: "git"}},
	})
	src.Workspace, src.Home, src.Own = home+"/w", home, []string{home + "/w/.toolguard"}
	return src, map[string]string{
		home + "/w/ro/a": "file", home + "/w/secret/open": "dir", home + "/w/sub/.git/hooks": "dir", "/private/tmp/x": "dir",
	}
}

// mutation changes the forms of a profile that where finds, all at once.
type mutation struct {
	name   string
	where  func(p *finder, form string) bool
	change func(form string) string // "" removes it; nil moves it to the front
	values bool                     // change is of the values of the forms' parameters instead
}

// finder finds forms by the paths of their parameters.
type finder struct{ params map[string]string }

func (f *finder) about(form, path string) bool {
	for name, value := range f.params {
		if value == path && strings.Contains(form, `(param "`+name+`")`) {
			return true
		}
	}
	return strings.Contains(form, `"`+path+`"`)
}

// has finds forms that begin with an action, name an operation and contain text.
func has(action, op, text string) func(*finder, string) bool {
	return func(_ *finder, form string) bool {
		return strings.HasPrefix(form, "("+action+" ") && words(form, op) && strings.Contains(form, text)
	}
}

// on is has, for a form about a path.
func on(action, op, path string) func(*finder, string) bool {
	return func(f *finder, form string) bool { return has(action, op, "")(f, form) && f.about(form, path) }
}

// matching finds forms that aren't about a path, and in which a regular expression matches an example.
func matching(action, op, example string) func(*finder, string) bool {
	return func(f *finder, form string) bool {
		if !has(action, op, "(regex ")(f, form) {
			return false
		}
		for name, value := range f.params {
			if strings.Contains(form, `(regex (param "`+name+`"))`) && regexp.MustCompile(value).MatchString(example) {
				return true
			}
		}
		return false
	}
}

func words(form, op string) bool {
	return slices.Contains(strings.Fields(strings.NewReplacer("(", " ", ")", " ").Replace(form)), op)
}

func drop(string) string { return "" }

func swap(form string) string {
	if rest, ok := strings.CutPrefix(form, "(deny "); ok {
		return "(allow " + rest
	}
	return "(deny " + strings.TrimPrefix(form, "(allow ")
}

func replace(old, new string) func(string) string {
	return func(form string) string { return strings.ReplaceAll(form, old, new) }
}

// only leaves of the filters of a form those of one kind.
func only(kind string) func(string) string {
	return func(form string) string {
		return regexp.MustCompile(`\((literal|subpath|regex) \(param "[^"]*"\)\)`).ReplaceAllStringFunc(form, func(f string) string {
			if strings.HasPrefix(f, "("+kind+" ") {
				return f
			}
			return ""
		})
	}
}

var sets = regexp.MustCompile(`\[([^\]])[^\]]\]`)

// unfold leaves of each pair of cases only the first.
func unfold(form string) string { return sets.ReplaceAllString(form, "$1") }

const ws = home + "/w"

var mutations = []mutation{
	{name: "the grant of reading in the workspace", where: on("allow", "file-read-data", ws), change: drop},
	{name: "the grant of attributes alone", where: on("allow", "file-write-xattr", ws), change: replace("file-write-xattr", "")},
	{name: "a denial", where: on("deny", "file-read-data", ws+"/secret"), change: drop},
	{name: "a denial, turned round", where: on("deny", "file-read-data", ws+"/secret"), change: swap},
	{name: "a denial, before the grant above", where: on("deny", "file-read-data", ws+"/secret"), change: nil},
	{name: "a denial of the folder alone", where: on("deny", "file-read-data", ws+"/secret"), change: only("literal")},
	{name: "a denial of what is beneath alone", where: on("deny", "file-write-create", ws+"/new"), change: only("subpath")},
	{name: "a denial of a family", where: on("deny", "file-read-data", ws+"/secret"), change: replace("file-read-data", "file-read*")},
	{name: "a denial of execution", where: on("deny", "file-map-executable", ws+"/secret"), change: drop},
	{name: "a read-only path", where: on("deny", "file-write-data", ws+"/ro"), change: drop},
	{name: "a pattern", where: matching("deny", "file-read-data", ws+"/c/.env"), change: drop},
	{name: "a pattern, turned round", where: matching("deny", "file-read-data", ws+"/c/.env"), change: swap},
	{name: "a pattern, before the grants", where: matching("deny", "file-read-data", ws+"/c/.env"), change: nil},
	{name: "a pattern in one case", where: matching("deny", "file-read-data", ws+"/c/.env"), change: unfold, values: true},
	{name: "a pattern without what is beneath", where: matching("deny", "file-read-data", ws+"/c/.env"), change: replace("(/|$)", "$"), values: true},
	{name: "a pattern that isn't anchored at its end", where: matching("deny", "file-read-data", ws+"/c/.env"), change: replace("(/|$)", ""), values: true},
	{name: "a pattern that isn't anchored at its beginning", where: matching("deny", "file-read-data", ws+"/c/.env"), change: replace("^", ""), values: true},
	{name: "secrets", where: matching("deny", "file-read-data", ws+"/c/d.pem"), change: drop},
	{name: "protect", where: matching("deny", "file-write-data", ws+"/.git/hooks"), change: drop},
	{name: "protect, creating", where: matching("deny", "file-write-create", ws+"/.git/hooks"), change: drop},
	{name: "unlink of the folders above a rule", where: on("deny", "file-write-unlink", ws), change: drop},
	{name: "toolguard's own files", where: on("deny", "file-write-data", ws+"/.toolguard"), change: drop},
	{name: "links", where: has("deny", "file-link", ""), change: drop},
	{name: "clones", where: has("deny", "file-clone", ""), change: drop},
	{name: "a grant outside", where: on("allow", "file-write-data", "/private/tmp/x"), change: drop},
	{name: "a grant for another spelling", where: on("allow", "file-write-data", "/private/tmp/x"), change: func(form string) string {
		return regexp.MustCompile(`\(param "[^"]*"\)`).ReplaceAllString(form, `"/tmp/x"`)
	}},
	{name: "a program", where: has("allow", "process-exec", ""), change: drop},
	{name: "every program", where: has("allow", "process-exec", ""), change: func(string) string { return `(allow process-exec (subpath "/"))` }},
	{name: "egress", where: has("allow", "network-outbound", "8080"), change: drop},
	{name: "egress on every port", where: has("allow", "network-outbound", "8080"), change: replace("8080", "*")},
	{name: "egress on every host", where: has("allow", "network-outbound", "8080"), change: replace("localhost:8080", "*:8080")},
	{name: "egress by UDP", where: has("allow", "network-outbound", "8080"), change: replace("tcp", "ip")},
	{name: "a port of loopback", where: has("allow", "network-outbound", "5432"), change: drop},
	{name: "listening", where: has("allow", "network-bind", ":80"), change: drop},
	{name: "unix sockets", where: has("deny", "network-outbound", "subpath"), change: drop},
	{name: "the default", where: func(_ *finder, form string) bool { return form == "(deny default)" }, change: swap},
}

// TestMutations checks that the comparison notices when a profile is wrong.
func TestMutations(t *testing.T) {
	src, files := mutated()
	c, err := policy.Compile(src, mac(files))
	childtest.Must(t, err)
	p, err := darwin.Render(c, darwin.Options{Home: home, EgressPort: 8080})
	childtest.Must(t, err)
	w := world{files: mac(files), policy: c, base: profileOf(t, policy.Deny), egress: 8080}
	childtest.Must(t, w.render(t, c))
	forms, err := sbpltest.Forms(p.Text)
	childtest.Must(t, err)
	f := finder{params: map[string]string{}}
	for _, v := range p.Params {
		f.params[v.Name] = v.Value
	}
	models := []sbpltest.Model{{}, {SubpathIsDirectory: true, FoldPaths: true, FoldRegex: true}}
	if found := w.survey(models); len(found) > 0 {
		t.Fatalf("%s\n%s", found[0], w.describe())
	}
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			text, params, changed := m.apply(&f, forms)
			if changed == 0 {
				t.Fatalf("no rule is of this kind:\n%s", p.Text)
			}
			got, err := sbpltest.Parse(text, params)
			if err != nil {
				t.Log(err)
				return
			}
			other := w
			other.profile = got
			found := other.survey(models)
			if len(found) == 0 {
				t.Fatalf("%d changed rules aren't noticed:\n%s", changed, text)
			}
			t.Log(found[0])
		})
	}
}

// apply returns the changed text and parameters, and how many forms or values were changed.
func (m *mutation) apply(f *finder, forms []string) (text string, params map[string]string, changed int) {
	var front, rest []string
	params = maps.Clone(f.params)
	for i, form := range forms {
		switch {
		case i < 1 || !m.where(f, form):
			rest = append(rest, form)
		case m.change == nil:
			front = append(front, form)
			changed++
		case m.values:
			rest = append(rest, form)
			for name, value := range f.params {
				if strings.Contains(form, `(param "`+name+`")`) && m.change(value) != value {
					params[name] = m.change(value)
					changed++
				}
			}
		default:
			if rest = append(rest, m.change(form)); rest[len(rest)-1] != form {
				changed++
			}
		}
	}
	return strings.Join(slices.Concat(rest[:2], front, rest[2:]), "\n"), params, changed
}
