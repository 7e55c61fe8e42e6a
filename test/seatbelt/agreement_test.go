package seatbelt

import (
	"cmp"
	"flag"
	"net/netip"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/darwin/sbpltest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
	"github.com/toolguard/toolguard/internal/policy/written"
)

// TestProfileAgreesWithPolicy checks that a profile allows nothing that the policy denies, and denies nothing that it allows, unless the
// report says so. -rapid.checks=50000 makes more than a million decisions.
func TestProfileAgreesWithPolicy(t *testing.T) {
	checks(t, "1000")
	base := profileOf(t, policy.Deny)
	compared, excused, policies := 0, 0, 0
	rapid.Check(t, func(r *rapid.T) {
		w := drawWorld(r, t)
		w.base = base
		j := judge{world: w, model: rapid.SampledFrom(sbpltest.Models()).Draw(r, "model")}
		ask(r, &j)
		if len(j.faults) > 0 {
			r.Fatalf("%s (%+v)\n%s", j.faults[0], j.model, w.describe())
		}
		compared, excused, policies = compared+j.compared, excused+j.excused, policies+1
	})
	t.Logf("%d decisions under %d policies; the report states %d differences", compared, policies, excused)
	if compared < 20_000 || excused*5 > compared {
		t.Errorf("%d decisions, of which the report states %d differences: the test shows little", compared, excused)
	}
}

// checks sets how many policies or sets of questions are drawn, unless the flag does.
func checks(t *testing.T, n string) {
	f := flag.Lookup("rapid.checks")
	if f.Value.String() != f.DefValue {
		return
	}
	childtest.Must(t, flag.Set("rapid.checks", n))
	t.Cleanup(func() { _ = flag.Set("rapid.checks", f.DefValue) })
}

// TestBuiltinPolicies compares the built-in default policy, and each preset.
func TestBuiltinPolicies(t *testing.T) {
	checks(t, "20")
	base := profileOf(t, policy.Deny)
	for _, preset := range append(policyfile.Presets(), policyfile.Preset{}) {
		t.Run(cmp.Or(preset.Name, "default"), func(t *testing.T) {
			request := written.Request{Workspace: home + "/w", Home: home, Dir: home + "/w"}
			if preset.Name != "" {
				request.Policies = []string{preset.Name}
			}
			c, err := written.Compile(request, nil)
			childtest.Must(t, err)
			w := &world{files: mac(nil), policy: c, base: base, egress: 8080}
			childtest.Must(t, w.render(t, c))
			rapid.Check(t, func(r *rapid.T) {
				j := judge{world: w, model: rapid.SampledFrom(sbpltest.Models()).Draw(r, "model")}
				ask(r, &j)
				if len(j.faults) > 0 {
					r.Fatalf("%s (%+v)", j.faults[0], j.model)
				}
			})
		})
	}
}

// ask asks random questions.
func ask(r *rapid.T, j *judge) {
	from := j.interesting()
	var names []name
	for range rapid.SampledFrom([]int{2, 4, 6, 8}).Draw(r, "questions") {
		n := drawName(r, j, from)
		names = append(names, n)
		j.file(n)
	}
	for _, p := range names {
		for _, q := range names {
			j.move(p, q)
		}
	}
	for range 4 {
		addr := netip.MustParseAddr(someAddrs.Draw(r, "address"))
		port := uint16(rapid.SampledFrom([]int{22, 80, 443, 5432, 8080}).Draw(r, "port"))
		j.address(rapid.SampledFrom([]string{"tcp", "tcp", "udp"}).Draw(r, "protocol"), netip.AddrPortFrom(addr, port), rapid.IntRange(0, 3).Draw(r, "listen") == 3)
	}
}

var someAddrs = rapid.SampledFrom([]string{"127.0.0.1", "127.0.0.1", "::1", "127.0.0.2", "0.0.0.0", "::", "10.0.0.1", "192.0.2.1", "2001:db8::1"})

// interesting returns the paths of rules, and paths that patterns match.
func (w *world) interesting() []string {
	var all []string
	for _, r := range w.policy.Rules {
		if r.FS == nil {
			continue
		}
		p := r.FS.Path
		if r.FS.Last != "" {
			match := path.Join(strings.ReplaceAll(r.FS.Last, "*", "a"), path.Join(r.FS.Names...))
			p = path.Join(p, "b", match)
			if fspath.Within(w.policy.Workspace, r.FS.Path) {
				all = append(all, path.Join(w.policy.Workspace, match))
			}
		}
		all = append(all, p)
	}
	return append(all, w.policy.Workspace)
}

// drawName draws a path near an interesting one, in one of its spellings, and perhaps in another case.
func drawName(r *rapid.T, j *judge, from []string) name {
	p := rapid.SampledFrom(from).Draw(r, "near")
	for range rapid.IntRange(0, 1).Draw(r, "up") {
		p = path.Dir(p)
	}
	for range rapid.IntRange(0, 2).Draw(r, "down") {
		p = path.Join(p, someNames.Draw(r, "name"))
	}
	p = sbpltest.Resolve(p) // of /tmp and /private/tmp, one is a symlink
	n := name{path: p, other: p, kind: j.kind(p)}
	if n.kind == "" {
		n.kind = rapid.SampledFrom([]string{"", "REGULAR-FILE", "DIRECTORY"}).Draw(r, "now")
		if rapid.IntRange(0, 2).Draw(r, "case") == 2 {
			n.path = j.respell(p, rapid.SampledFrom(spellings).Draw(r, "how"))
		}
	}
	return n
}

// respell writes the names that don't exist in another way that is the same on APFS. Those that exist have one spelling.
func (w *world) respell(p string, how func(string) string) string {
	kept := p
	for w.kind(kept) == "" {
		kept = path.Dir(kept)
	}
	return fspath.Join(kept, how(fspath.Beneath(p, kept)))
}

// spellings are ways to write a name that APFS doesn't distinguish: by case, by the letters that Unicode folds to ASCII ones, and by its
// normal form.
var spellings = []func(string) string{
	strings.ToUpper,
	strings.NewReplacer("s", "\u017f", "k", "\u212a").Replace,
	strings.NewReplacer("\u00e9", "e\u0301").Replace,
}
