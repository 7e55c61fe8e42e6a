package darwin

import (
	"regexp"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// A name's regular expression matches that name and no other, or also those that differ in case and composition alone.
func TestNamesRegex(t *testing.T) {
	name := rapid.StringOfN(rapid.RuneFrom([]rune("aZ.*+?()[]{}^$|\\\" ;\n-é\u0301ßñΣς日k")), 1, 8, -1)
	fold := func(s string) string { return strings.ToLower(norm.NFC.String(s)) }
	rapid.Check(t, func(t *rapid.T) {
		a, b := name.Draw(t, "a"), name.Draw(t, "b")
		for _, anyCase := range []bool{false, true} {
			re := regexp.MustCompile("^" + namesRegex(a, anyCase) + "$")
			if !re.MatchString(a) {
				t.Errorf("%q doesn't match %q", re, a)
			}
			if same := a == b || anyCase && strings.EqualFold(fold(a), fold(b)); !same && re.MatchString(b) {
				t.Errorf("%q matches %q", re, b)
			}
		}
		if re := regexp.MustCompile("^" + namesRegex(a, true) + "$"); !re.MatchString(norm.NFD.String(a)) || !re.MatchString(norm.NFC.String(a)) {
			t.Errorf("%q doesn't match both compositions of %q", re, a)
		}
	})
}

// What a pattern's suffixes match beneath a point is what the table of package fspath matches there, deeper than the point.
func TestSuffixes(t *testing.T) {
	names := rapid.SampledFrom([]string{"a", "b", "ab", "ba"})
	rapid.Check(t, func(t *rapid.T) {
		path := func(label string, least, most int) string {
			return "/" + strings.Join(rapid.SliceOfN(names, least, most).Draw(t, label), "/")
		}
		e := fspath.Entry{Path: strings.TrimSuffix(path("base", 0, 1), " "), Last: rapid.SampledFrom([]string{"a", "a*", "*a"}).Draw(t, "last"), Names: rapid.SliceOfN(names, 0, 2).Draw(t, "names")}
		point := e.Path + strings.TrimSuffix(path("point", 0, 3), "/")
		if e.Path == "/" {
			point = path("point of all", 1, 3)
		}
		at := point + path("at", 1, 4)
		table, err := fspath.NewTable([]*fspath.Entry{&e})
		if err != nil {
			t.Fatal(err)
		}
		_, depth := table.Find(at)
		want, got := depth > fspath.Depth(point), false
		for _, re := range newLinks(false, suffixesOf(&e, point)).regexes(point, false) {
			got = got || regexp.MustCompile(re).MatchString(at)
		}
		if got != want {
			t.Errorf("%v beneath %s: %s: %v", e, point, at, got)
		}
	})
}
