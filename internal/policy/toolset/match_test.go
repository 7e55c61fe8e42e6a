package toolset

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// The patterns of reference 003: all, exact, and with * for any run of characters.
func TestGlob(t *testing.T) {
	for _, row := range []struct {
		pattern, yes, no string
	}{
		{"*", "a exec fs:read", ""},
		{"exec", "exec", "exec2 xexec fs:exec"},
		{"fs:*", "fs:read fs:", "fs xfs:read"},
		{"*test*", "test mytests", "tes"},
		{"a*b*c", "abc aXbYc abbc", "ab acb abcd"},
		{"a.c", "a.c", "abc"},
	} {
		for _, name := range strings.Fields(row.yes) {
			if !Glob(row.pattern, name) {
				t.Errorf("%s doesn't match %s", row.pattern, name)
			}
		}
		for _, name := range strings.Fields(row.no) {
			if Glob(row.pattern, name) {
				t.Errorf("%s matches %s", row.pattern, name)
			}
		}
	}
}

// The entry of the list is found, also through a group, and what is wide only where that's asked for.
func TestMatcher(t *testing.T) {
	l := &Layer{Groups: map[string][]Entry{"fs": {{Text: "read"}, {Text: "group:write"}}, "write": {{Text: "wr*"}}}, Aliases: map[string]string{"cat": "read"}}
	list := []Entry{{Text: "group:fs"}, {Text: "Web-Fetch"}, {Text: "group:contacts"}, {Text: "*_x"}}
	m := l.Matcher(list)
	for _, row := range []struct {
		target       Target
		narrow, wide string
	}{
		{Target{Name: "read"}, "group:fs", "group:fs"},
		{Target{Name: "write"}, "group:fs", "group:fs"},
		{Target{Name: "web_fetch"}, "Web-Fetch", "Web-Fetch"},
		{Target{Name: "rea"}, "", ""},
		{Target{Name: "wait"}, "", ""},
		{Target{Name: "a_x"}, "*_x", "*_x"},
		{Target{Name: "mcp__s__read", Given: "mcp__s__read", Bare: "read"}, "", "group:fs"},
		{Target{Name: "bash", Given: "wrap"}, "", "group:fs"},
		{Target{Name: "a", Plugin: "contacts"}, "group:contacts", "group:contacts"},
		{Target{Name: "a", BarePlugin: "contacts"}, "", "group:contacts"},
		{Target{Name: "a", Plugin: "other"}, "", ""},
	} {
		for wide, want := range map[bool]string{false: row.narrow, true: row.wide} {
			got := ""
			if e := m.Find(&row.target, wide); e != nil {
				got = e.Text
			}
			if got != want {
				t.Errorf("%+v, wide %t: %q, want %q", row.target, wide, got, want)
			}
		}
	}
	for pattern, yes := range map[string]bool{"group:plugins": true, "group:all": true, "cat": false} {
		m := l.Matcher([]Entry{{Text: pattern}})
		if got := m.Find(&Target{Name: "a", Plugin: "x"}, false) != nil; got != yes {
			t.Errorf("%s: %t", pattern, got)
		}
	}
	if m := l.Matcher([]Entry{{Text: "cat"}}); m.Find(&Target{Name: "read"}, false) == nil {
		t.Error("an alias doesn't stand for its tool")
	}
	if m := l.Matcher([]Entry{{Text: "group:plugins"}}); m.Find(&Target{Name: "a"}, true) != nil {
		t.Error("a tool without a plugin is in group:plugins")
	}
}

func FuzzGlob(f *testing.F) {
	f.Add("a*b", "axxb")
	f.Add("**", "")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(name) {
			return // no regular expression
		}
		want := regexp.MustCompile(`(?s)^` + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + `$`).MatchString(name)
		l := &Layer{}
		if got := Glob(pattern, name); got != want {
			t.Errorf("%q, %q: %t, want %t", pattern, name, got, want)
		}
		if !ValidName(name) || pattern == "" || strings.HasPrefix(pattern, GroupPrefix) {
			return
		}
		m := l.Matcher([]Entry{{Text: pattern}})
		if got := m.Find(&Target{Name: Normal(name)}, false) != nil; got != Glob(Normal(pattern), Normal(name)) {
			t.Errorf("the matcher of %q answers %t for %q", pattern, got, name)
		}
	})
}

func TestCompare(t *testing.T) {
	order := []string{"group:fs", "*", "a*", "*bc", "abc*", "x", "exec", "long_name"}
	for i := range order {
		for j := i + 1; j < len(order); j++ {
			if Compare(order[i], order[j]) > 0 {
				t.Errorf("%s comes after %s", order[i], order[j])
			}
		}
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"exec": true, "mcp__fs__read-file": true, "fs:read": true, "a/b@1.0": true, strings.Repeat("a", 128): true,
		"": false, "a b": false, "group:fs": false, "a\n": false, "ä": false, strings.Repeat("a", 129): false, "a*": false,
	} {
		if ValidName(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
}
