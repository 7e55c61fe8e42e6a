package seatbelt

import (
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
	src.Workspace, src.Home, src.Own = home+"/w", home, []string{home + "/.config/toolguard"}
	return src, map[string]string{
		home + "/w/ro/a": "file", home + "/w/secret/open": "dir", home + "/w/sub/.git/hooks": "dir", "/private/tmp/x": "dir",
	}
}

// mutation changes the forms of a profile that where finds, all at once.
type mutation struct {
	name   string
	where  func(p *finder, form string) bool
	change func(form string) string // "" removes it; nil moves it to the front
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

var sets = regexp.MustCompile(`\[([^\]])[^\]]\]`)

// unfold leaves of each pair of cases only the first.
func unfold(form string) string { return sets.ReplaceAllString(form, "$1") }

const ws = home + "/w"

var mutations = []mutation{
	{"the grant of reading in the workspace", on("allow", "file-read-data", ws), drop},
	{"the grant of attributes alone", on("allow", "file-write-xattr", ws), replace("file-write-xattr", "")},
	{"a denial", on("deny", "file-read-data", ws+"/secret"), drop},
	{"a denial, turned round", on("deny", "file-read-data", ws+"/secret"), swap},
	{"a denial, before the grant above", on("deny", "file-read-data", ws+"/secret"), nil},
	{"a grant beneath a denial, before it", on("allow", "file-read-data", ws+"/secret/open"), nil},
	{"a denial of the folder alone", on("deny", "file-read-data", ws+"/secret"), replace("(subpath ", "(literal ")},
	{"a denial of what is beneath alone", on("deny", "file-write-create", ws+"/new"), replace("(literal ", "(subpath ")},
	{"a denial of a family", on("deny", "file-read-data", ws+"/secret"), replace("file-read-data", "file-read*")},
	{"a denial of execution", on("deny", "process-exec", ws+"/secret"), drop},
	{"a read-only path", on("deny", "file-write-data", ws+"/ro"), drop},
	{"a pattern", has("deny", "file-read-data", "regex"), drop},
	{"a pattern, turned round", has("deny", "file-read-data", "regex"), swap},
	{"a pattern, before the grants", has("deny", "file-read-data", "regex"), nil},
	{"a pattern in one case", has("deny", "file-read-data", "regex"), unfold},
	{"a pattern without what is beneath", has("deny", "file-read-data", "regex"), replace("(/.*)?$", "$")},
	{"a pattern that isn't anchored at its end", has("deny", "file-read-data", "regex"), replace("(/.*)?$", "")},
	{"protect", has("deny", "file-write-data", "regex"), drop},
	{"protect, creating", has("deny", "file-write-create", "regex"), drop},
	{"unprotect", on("allow", "file-write-data", ws+"/sub/.git/hooks"), drop},
	{"unlink of the folders above a rule", on("deny", "file-write-unlink", ws), drop},
	{"toolguard's own files", on("deny", "file-write-data", home+"/.config/toolguard"), drop},
	{"links", has("deny", "file-link", ""), drop},
	{"clones", has("deny", "file-clone", ""), drop},
	{"a grant outside", on("allow", "file-write-data", "/private/tmp/x"), drop},
	{"a grant for another spelling", on("allow", "file-write-data", "/private/tmp/x"), func(form string) string {
		return regexp.MustCompile(`\(param "[^"]*"\)`).ReplaceAllString(form, `"/tmp/x"`)
	}},
	{"a program", has("allow", "process-exec", ""), drop},
	{"every program", has("allow", "process-exec", ""), func(string) string { return `(allow process-exec (subpath "/"))` }},
	{"egress", has("allow", "network-outbound", "8080"), drop},
	{"egress on every port", has("allow", "network-outbound", "8080"), replace("8080", "*")},
	{"egress on every host", has("allow", "network-outbound", "8080"), replace("localhost:8080", "*:8080")},
	{"egress by UDP", has("allow", "network-outbound", "8080"), replace("tcp", "ip")},
	{"a port of loopback", has("allow", "network-outbound", "5432"), drop},
	{"listening", has("allow", "network-bind", ":80"), drop},
	{"unix sockets", has("deny", "network-outbound", "subpath"), drop},
	{"the default", func(_ *finder, form string) bool { return form == "(deny default)" }, swap},
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
			text, changed := m.apply(&f, forms)
			if changed == 0 {
				t.Fatalf("no rule is of this kind:\n%s", p.Text)
			}
			got, err := sbpltest.Parse(text, f.params)
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

// apply returns the changed text, and how many forms were changed.
func (m *mutation) apply(f *finder, forms []string) (text string, changed int) {
	var front, rest []string
	for i, form := range forms {
		switch {
		case i < 1 || !m.where(f, form):
			rest = append(rest, form)
			continue
		case m.change == nil:
			front = append(front, form)
			changed++
			continue
		}
		if now := m.change(form); now != form {
			changed++
			rest = append(rest, now)
		}
	}
	return strings.Join(slices.Concat(rest[:2], front, rest[2:]), "\n"), changed
}
