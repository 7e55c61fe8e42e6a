package policy

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/childtest"
)

// mounted is a tree with mounts, "ROOT AT" or "DEV ROOT AT" each, in the order in which they were made, and with files that have
// an inode number in common.
type mounted struct {
	tree
	mounts []Mount
	inodes map[string]uint64
}

func (m mounted) Mounts() ([]Mount, error) { return m.mounts, nil }

func (m mounted) File(p string) (id FileID, links uint64, err error) {
	if _, err := m.Lstat(p); err != nil {
		return id, 0, err
	}
	for _, n := range m.inodes {
		if n == m.inodes[p] {
			links++
		}
	}
	if at := naiveMount(m.mounts, p); at != nil {
		id.Dev = uint64(at.Dev)
	}
	id.Inode = m.inodes[p]
	return id, max(links, 1), nil
}

// mount makes a table in which each mount is on what was seen at its place before.
func mount(lines ...string) (all []Mount) {
	for i, line := range append([]string{"/ /"}, lines...) {
		f := strings.Fields(line)
		m := Mount{ID: 20 + i, Parent: 1, Dev: 8 << 20, Root: f[len(f)-2], At: f[len(f)-1]}
		if len(f) == 3 {
			m.Dev |= uint32(f[0][0])
		}
		if on := naiveMount(all, m.At); on != nil {
			m.Parent = on.ID
		}
		all = append(all, m)
	}
	return all
}

// naiveMount is the mount that a path leads into, found as the kernel finds it.
func naiveMount(all []Mount, p string) *Mount {
	var at *Mount
	cross := func(place string) {
		for i := 0; i < len(all); i++ {
			if all[i].At == place && (at == nil || all[i].Parent == at.ID) {
				at, i = &all[i], -1
			}
		}
	}
	cross("/")
	words := naiveWords(p)
	for n := range words {
		cross("/" + strings.Join(words[:n+1], "/"))
	}
	return at
}

// name is another name of something: how deep its file system is mounted, and how the first name and the other one begin
// before they end alike.
type name struct {
	path     string
	depth    int
	from, to string
}

// naiveNames are the other names of what is at p.
func naiveNames(all []Mount, p string) (out []name) {
	m := naiveMount(all, p)
	inside := join(m.Root, beneath(p, m.At))
	for i := range all {
		o := &all[i]
		if o.Dev != m.Dev || !within(inside, o.Root) {
			continue
		}
		q := join(o.At, beneath(inside, o.Root))
		rest := beneath(inside, o.Root)
		if len(m.Root) > len(o.Root) {
			rest = beneath(inside, m.Root)
		}
		if q != p && naiveMount(all, q) == o {
			out = append(out, name{q, len(naiveWords(o.At)), strings.TrimSuffix(p, rest), strings.TrimSuffix(q, rest)})
		}
	}
	return out
}

// counts says whether a rule that matches n components of the other name says something of the first one.
func (o name) counts(r FSRule, n int) bool {
	if r.Match == "" {
		return n >= o.depth && (naiveDepth(r, o.from) < 0 || n > len(naiveWords(o.to)))
	}
	at := strings.Index(r.Match, "**/")
	tail := len(strings.Split(r.Match[at+3:], "/"))
	both := r.Match[0] == '/' && within(o.from, "/"+strings.Trim(r.Match[:at], "/")) || r.Match[0] != '/' && within(o.from, strings.TrimSuffix(naiveAbs(r.Match[:at]), "/"))
	return n >= o.depth && !(both && n-tail >= len(naiveWords(o.to)))
}

// naiveRestricts says whether the rules about another name take something away.
func naiveRestricts(l naiveLayer, o name, want Caps) bool {
	rules := slices.DeleteFunc(slices.Clone(l.rules), naiveAdds)
	unprotect, reveal := false, false
	if w := naiveWinner(rules, o.path); w >= 0 {
		if o.counts(rules[w], naiveDepth(rules[w], o.path)) && want&^rules[w].Caps != 0 {
			return true
		}
		unprotect, reveal = rules[w].Unprotect, rules[w].Secret
	}
	w := naiveWinner(l.protect, o.path)
	if !unprotect && want&Write != 0 && w >= 0 && o.counts(l.protect[w], naiveDepth(l.protect[w], o.path)) {
		return true
	}
	w = naiveWinner(l.secrets, o.path)
	return !reveal && want&(Read|Execute) != 0 && w >= 0 && l.secrets[w].Caps == 0 && o.counts(l.secrets[w], naiveDepth(l.secrets[w], o.path))
}

func naiveAliasAllows(layers []naiveLayer, all []Mount, path string, want Caps) bool {
	for _, o := range naiveNames(all, path) {
		for _, l := range layers {
			if naiveRestricts(l, o, want) {
				return false
			}
		}
	}
	return naiveAllows(layers, path, want)
}

func genMounts(t *rapid.T) (lines []string) {
	for i := range rapid.IntRange(1, 4).Draw(t, "mounts") {
		path := func(what string) string {
			p := "/" + strings.Join(rapid.SliceOfN(someNames, 0, 2).Draw(t, what), "/")
			if rapid.IntRange(0, 3).Draw(t, what+" in the workspace") == 0 {
				p = join(ws, beneath(p, "/"))
			}
			return p
		}
		line := path(fmt.Sprint("root ", i)) + " " + path(fmt.Sprint("at ", i))
		if rapid.IntRange(0, 3).Draw(t, "another file system") == 0 {
			line = "2 " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// genAliased makes paths, most of which have other names.
func genAliased(t *rapid.T, all []Mount) []string {
	paths := []string{genPath(t, "path"), ws + genPath(t, "path")}
	for _, a := range visible(all).aliases() {
		p := genPath(t, "path")
		paths = append(paths, a.From, join(a.From, p), join(a.To, p))
	}
	return paths
}

// checks has rapid look at n cases in this test, where the default finds too little and no other number was asked for.
func checks(t *testing.T, n string) {
	f := flag.Lookup("rapid.checks")
	if f.Value.String() != f.DefValue {
		return
	}
	childtest.Must(t, flag.Set("rapid.checks", n))
	t.Cleanup(func() { _ = flag.Set("rapid.checks", f.DefValue) })
}

// The compiled form agrees with the naive evaluator about names that mounts give.
func TestAliasesAgreeWithNaive(t *testing.T) {
	sys := mounted{tree: newTree(map[string]string{"/w": "dir"})}
	restricted, compared := 0, 0
	checks(t, "5000") // two seconds
	rapid.Check(t, func(t *rapid.T) {
		layers, naive := genLayers(t)
		for i := range layers {
			if !rapid.Bool().Draw(t, "much is allowed") {
				continue
			}
			layers[i].FS = append([]FSRule{p("/", AllCaps)}, layers[i].FS...)
			naive[i].rules = naiveComplete(naiveGivesWay(layers[i].FS), naive[i].stance)
		}
		sys.mounts = mount(genMounts(t)...)
		c, err := Compile(source(layers...), sys)
		childtest.Must(t, err)
		for _, path := range genAliased(t, sys.mounts) {
			want := Caps(rapid.IntRange(1, int(AllCaps)).Draw(t, "want"))
			got, should := c.CheckFS(path, want), naiveAliasAllows(naive, sys.mounts, path, want)
			if got.Allow != should {
				t.Fatalf("%s %s: compiled %+v, naive %v\n%+v\n%s", want, path, got, should, sys.mounts, rulesOf(c))
			}
			if (want&^c.Caps(path) == 0) != got.Allow {
				t.Fatalf("%s %s: CheckFS %v, Caps %s", want, path, got.Allow, c.Caps(path))
			}
			compared++
			if !got.Allow && naiveAllows(naive, path, want) {
				restricted++
			}
		}
	})
	t.Logf("%d denials because of another name in %d comparisons", restricted, compared)
	if restricted < 200 {
		t.Errorf("%d denials because of another name in %d comparisons: the test shows little", restricted, compared)
	}
}

// Other names never allow more.
func TestAliasesNeverWiden(t *testing.T) {
	sys := mounted{tree: newTree(map[string]string{"/w": "dir"})}
	narrower := 0
	checks(t, "1000")
	rapid.Check(t, func(t *rapid.T) {
		layers, _ := genLayers(t)
		for i := range layers {
			if rapid.Bool().Draw(t, "much is allowed") {
				layers[i].FS = append([]FSRule{p("/", AllCaps)}, layers[i].FS...)
			}
		}
		without, err := Compile(source(layers...), sys.tree)
		childtest.Must(t, err)
		sys.mounts = mount(genMounts(t)...)
		c, err := Compile(source(layers...), sys)
		childtest.Must(t, err)
		for _, path := range genAliased(t, sys.mounts) {
			caps, before := c.Caps(path), without.Caps(path)
			if caps&^before != 0 {
				t.Fatalf("%s: with other names %s more\n%+v\n%s", path, caps&^before, sys.mounts, rulesOf(c))
			}
			if caps != before {
				narrower++
			}
		}
	})
	if narrower == 0 {
		t.Error("no mount made a difference: nothing was tested")
	}
}
