package seatbelt

import (
	"fmt"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/darwin"
	"github.com/toolguard/toolguard/internal/darwin/sbpltest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

const home = "/Users/u"

// world is a policy, what it says on a Mac, and the profile for it.
type world struct {
	files   fspathtest.Tree
	policy  *policy.Compiled // with the Mac's files
	profile *sbpltest.Profile
	base    *sbpltest.Profile // of a policy that grants nothing
	rows    map[string]policy.Enforceability
	egress  int
	text    string
}

// mac returns the files of a Mac with some more.
func mac(more map[string]string) fspathtest.Tree {
	all := map[string]string{
		"/tmp": "-> private/tmp", "/var": "-> private/var", "/etc": "-> private/etc", "/private/tmp/tg": "dir", "/private/var/x": "dir",
		"/private/etc/passwd": "file", "/System/Volumes/Data/Users": "-> /Users", "/System/Volumes/Data/private": "-> /private",
		"/System/Volumes/Data/opt": "-> /opt", home + "/w": "dir", "/usr/bin/git": "program", "/bin/sh": "program", "/opt/tool": "program",
	}
	for p, kind := range more {
		if _, ok := all[p]; !ok {
			all[p] = kind
		}
	}
	return fspathtest.New(all)
}

// newWorld compiles and renders a policy. If it reads no files, nothing that rules name exists for the generator.
func newWorld(t testing.TB, src *policy.Source, files fspathtest.Tree, reads bool, egress int) (*world, error) {
	w := &world{files: files, egress: egress}
	var err error
	if w.policy, err = policy.Compile(src, files); err != nil {
		return nil, err
	}
	seen := w.policy
	if !reads {
		if seen, err = policy.Compile(src, mac(nil)); err != nil {
			return nil, err
		}
	}
	return w, w.render(t, seen)
}

func (w *world) render(t testing.TB, c *policy.Compiled) error {
	p, err := darwin.Render(c, darwin.Options{Home: home, EgressPort: w.egress})
	if err != nil {
		return err
	}
	w.profile, w.text = read(t, p), fmt.Sprintf("%s%v", p.Text, p.Params)
	w.rows = map[string]policy.Enforceability{}
	for _, row := range p.Report {
		row.Stricter = row.Stricter || row.Rule != nil && row.Rule.Authority == policy.Builtin // the folders above toolguard's own files stay
		if old, ok := w.rows[row.ID]; !ok || worse(row, old) {
			w.rows[row.ID] = row
		}
	}
	return nil
}

func worse(a, b policy.Enforceability) bool {
	return a.Status < b.Status || a.Status == b.Status && a.Stricter && !b.Stricter
}

// read parses a profile.
func read(t testing.TB, p *darwin.Profile) *sbpltest.Profile {
	t.Helper()
	params := map[string]string{}
	for _, v := range p.Params {
		params[v.Name] = v.Value
	}
	got, err := sbpltest.Parse(p.Text, params)
	if err != nil {
		t.Fatalf("%v\n%s\n%v", err, p.Text, p.Params)
	}
	return got
}

// Few names, so that rules and questions meet; none in upper case, so that such a one is always another spelling.
var someNames = rapid.SampledFrom([]string{"a", "b", "ab", ".env", "x.pem", ".git", "hooks", "a b", `é"(`, "*", `\`})

// someRoots are where the paths of rules begin.
var someRoots = rapid.SampledFrom([]string{
	"", "", "", "./", "~/", home + "/", "/System/Volumes/Data" + home + "/", "/tmp/", "/private/tmp/", "/var/", "/private/etc/", "/etc/", "/opt/", "/",
})

func drawPath(t *rapid.T, label string) string {
	p := someRoots.Draw(t, label+" root") + strings.Join(rapid.SliceOfN(someNames, 0, 3).Draw(t, label), "/")
	switch p = strings.TrimSuffix(strings.TrimPrefix(p, "./"), "/"); {
	case p == "":
		return rapid.SampledFrom([]string{".", "/"}).Draw(t, label+" top")
	default:
		return p
	}
}

func drawCaps(t *rapid.T, label string) policy.Caps {
	usual := []policy.Caps{0, policy.Read, policy.Read | policy.Execute, policy.Read | policy.Write, policy.AllCaps}
	if rapid.IntRange(0, 3).Draw(t, label+" odd") == 3 {
		return policy.Caps(rapid.IntRange(0, int(policy.AllCaps)).Draw(t, label))
	}
	return rapid.SampledFrom(usual).Draw(t, label)
}

// drawMatch draws a pattern for names of someNames.
func drawMatch(t *rapid.T, label string) string {
	last := rapid.SampledFrom([]string{"a", "ab", ".env", "*.pem", ".en*", "a*", "*b", ".git", "é*"}).Draw(t, label+" last")
	base := rapid.SampledFrom([]string{"", "", "/", "a/", "/tmp/", home + "/"}).Draw(t, label+" base")
	names := rapid.SliceOfN(rapid.SampledFrom([]string{"hooks", "b"}), 0, 1).Draw(t, label+" names")
	return base + "**/" + strings.Join(append([]string{last}, names...), "/")
}

func drawRule(t *rapid.T, label string) policy.FSRule {
	r := policy.FSRule{Caps: drawCaps(t, label+" caps")}
	if rapid.IntRange(0, 4).Draw(t, label+" pattern") == 4 {
		r.Match = drawMatch(t, label)
		if rapid.Bool().Draw(t, label+" denies") {
			r.Caps = 0
		}
	} else {
		r.Path = drawPath(t, label)
	}
	if rapid.IntRange(0, 3).Draw(t, label+" exempt") == 3 {
		r.Unprotect, r.Secret = rapid.Bool().Draw(t, label+" unprotect"), rapid.Bool().Draw(t, label+" secret")
	}
	if r.Match == "" && rapid.IntRange(0, 5).Draw(t, label+" built in") == 5 {
		r.Position.File = "preset:x"
	}
	return r
}

func drawLayer(t *rapid.T, a policy.Authority) policy.SourceLayer {
	l := policy.SourceLayer{Authority: a}
	for i := range rapid.SampledFrom([]int{0, 1, 2, 3, 4, 6, 8}).Draw(t, "rules") {
		l.FS = append(l.FS, drawRule(t, string(rune('a'+i))))
	}
	l.Defaults[policy.FS] = rapid.SampledFrom([]policy.DefaultAction{policy.Undeclared, policy.Undeclared, policy.Deny, policy.Allow}).Draw(t, "default")
	if rapid.IntRange(0, 2).Draw(t, "protects") == 2 {
		l.Protect = policy.ProtectOn
		l.Protected = []policy.FSRule{{Match: "/**/.git/hooks"}, {Match: drawMatch(t, "protect")}}
	}
	if rapid.IntRange(0, 2).Draw(t, "hides") == 2 {
		l.Secrets = policy.ProtectOn
		l.SecretFiles = []policy.FSRule{{Match: "/**/.env"}, {Match: drawMatch(t, "secrets"), Caps: policy.Read * policy.Caps(rapid.IntRange(0, 1).Draw(t, "exception"))}}
	}
	if rapid.IntRange(0, 3).Draw(t, "net") == 3 {
		for range rapid.IntRange(1, 3).Draw(t, "net rules") {
			l.Net = append(l.Net, policytest.GenNet(t))
		}
		l.Defaults[policy.Net] = rapid.SampledFrom([]policy.DefaultAction{policy.Undeclared, policy.Deny, policy.Allow}).Draw(t, "net default")
	}
	if rapid.IntRange(0, 3).Draw(t, "commands") == 3 {
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"git", "sh", "/opt/tool"}), 1, 2, rapid.ID).Draw(t, "programs") {
			l.Commands = append(l.Commands, policy.CommandRule{Name: name})
		}
	}
	return l
}

// drawFiles draws some files beneath the folders that rules are about.
func drawFiles(t *rapid.T) map[string]string {
	out := map[string]string{}
	dirs := []string{home + "/w", home + "/w", home, "/private/tmp", "/opt"}
	for range rapid.SampledFrom([]int{0, 2, 4, 8}).Draw(t, "files") {
		p := path.Join(rapid.SampledFrom(dirs).Draw(t, "in"), someNames.Draw(t, "name"))
		if _, ok := out[p]; ok || p == home+"/w" {
			continue
		}
		out[p] = rapid.SampledFrom([]string{"dir", "dir", "file", "program"}).Draw(t, "kind")
		if out[p] == "dir" {
			dirs = append(dirs, p)
		}
	}
	return out
}

// drawWorld draws a world; nil where its policy isn't valid.
func drawWorld(t *rapid.T, tb testing.TB) *world {
	layers := []policy.SourceLayer{drawLayer(t, policy.Session)}
	if rapid.IntRange(0, 3).Draw(t, "host") == 3 {
		layers = append([]policy.SourceLayer{drawLayer(t, policy.Host)}, layers...)
	}
	src := policytest.Source(layers...)
	src.Workspace, src.Home = rapid.SampledFrom([]string{home + "/w", home + "/w", "/tmp/tg"}).Draw(t, "workspace"), home
	if rapid.Bool().Draw(t, "TMPDIR") {
		src.TmpDir = "/private/tmp/tg"
	}
	egress := 8080 * rapid.IntRange(0, 1).Draw(t, "egress")
	w, err := newWorld(tb, src, mac(drawFiles(t)), rapid.Bool().Draw(t, "reads files") || src.TmpDir != "", egress)
	if err != nil {
		t.Skip(err)
	}
	return w
}

// kind returns the vnode-type of a path; "" if nothing is there.
func (w *world) kind(p string) string {
	switch k, err := w.files.Lstat(p); {
	case err != nil:
		return ""
	case k == fspath.Dir:
		return "DIRECTORY"
	case k == fspath.Symlink:
		return "SYMLINK"
	}
	return "REGULAR-FILE"
}
