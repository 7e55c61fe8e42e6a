package fspath

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// entries reads one entry for each text: a path, or "BASE/**/LAST/NAME…".
func entries(texts ...string) (all []*Entry) {
	for _, text := range texts {
		base, pattern, ok := strings.Cut(text, "/**/")
		e := &Entry{Path: rooted(base)}
		if ok {
			parts := strings.Split(pattern, "/")
			e.Last, e.Names = parts[0], parts[1:]
		}
		all = append(all, e)
	}
	return all
}

func TestFind(t *testing.T) {
	table, err := NewTable(entries(
		"/w", "/w/src", "/**/.env", "/w/**/*.pem", "/w/**/.git/hooks", "/w/src/**/key*", "/w/src/key", "/w/src", "/w/**/*.pem",
	))
	childtest.Must(t, err)
	for _, x := range []struct {
		path  string
		entry int32
		depth int
	}{
		{"/", NoMatch, 0},
		{"/x", NoMatch, 0},
		{"/w", 0, 1},
		{"/wx", NoMatch, 0},
		{"/w/a/b", 0, 1},
		{"/w/src/x", 7, 2}, // the later of two
		{"/x/.env", 2, 2},
		{"/x/.env/y/z", 2, 2}, // with all beneath it
		{"/x/.environment", NoMatch, 0},
		{"/w/a.pem", 8, 2},
		{"/x/a.pem", NoMatch, 0}, // outside its BASE
		{"/w/.git", 0, 1},
		{"/w/.git/hooks", 4, 3},
		{"/w/a/.git/hooks/x", 4, 4},
		{"/w/.git/x/hooks", 0, 1},
		{"/w/src/keys", 5, 3},
		{"/w/src/key", 6, 3}, // a path before a pattern
		{"/w/src/key/.env", 2, 4},
		{"/w/src/a.pem/.env/b.pem", 8, 5},
	} {
		if entry, depth := table.Find(x.path); entry != x.entry || depth != x.depth {
			t.Errorf("%s: entry %d at %d, want %d at %d", x.path, entry, depth, x.entry, x.depth)
		}
		if strings.Count(x.path, "/") > 1 {
			cut := strings.LastIndexByte(x.path, '/')
			if entry, depth := table.FindBeneath(x.path[:cut], x.path[cut:]); entry != x.entry || depth != x.depth {
				t.Errorf("%s beneath %s: entry %d at %d", x.path[cut:], x.path[:cut], entry, depth)
			}
		}
	}
}

// Trace has every match, and Find's is the last of the deepest but for a path, which comes before patterns.
func TestTrace(t *testing.T) {
	table, err := NewTable(entries("/", "/w", "/**/a", "/w/**/a", "/w/a", "/w/a", "/x"))
	childtest.Must(t, err)
	for path, want := range map[string]string{
		"/":      "[{0 0}]",
		"/w/a":   "[{0 0} {1 1} {4 2} {5 2} {2 2} {3 2}]",
		"/a/a":   "[{0 0} {2 1} {2 2}]",
		"/w/b/a": "[{0 0} {1 1} {2 3} {3 3}]",
		"/b":     "[{0 0}]",
	} {
		if got := fmt.Sprint(table.Trace(path)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestBeneath(t *testing.T) {
	all := entries("/a/b", "/a/c/**/x/y", "/a/b/c", "/**/p*/q/r")
	all = append(all, nil) // takes no part
	table, err := NewTable(all)
	childtest.Must(t, err)
	for _, x := range []struct {
		path                  string
		literal, base, partOf int32
	}{
		{"/", 0, 1, NoMatch},
		{"/a", 0, 1, NoMatch},
		{"/a/b", 2, NoMatch, NoMatch},
		{"/a/b/c", NoMatch, NoMatch, NoMatch},
		{"/a/c", NoMatch, NoMatch, NoMatch},
		{"/z", NoMatch, NoMatch, NoMatch},
		{"/a/c/x", NoMatch, NoMatch, 1},
		{"/a/c/x/y", NoMatch, NoMatch, NoMatch}, // all of it
		{"/x", NoMatch, NoMatch, NoMatch},       // outside its BASE
		{"/d/pp", NoMatch, NoMatch, 3},
		{"/d/pp/q", NoMatch, NoMatch, 3},
		{"/d/pp/q/r", NoMatch, NoMatch, NoMatch},
	} {
		if l, b, p := table.LiteralBeneath(x.path), table.BaseBeneath(x.path), table.PartOf(x.path); l != x.literal || b != x.base || p != x.partOf {
			t.Errorf("%s: %d %d %d, want %d %d %d", x.path, l, b, p, x.literal, x.base, x.partOf)
		}
	}
}

func TestTooManyPatterns(t *testing.T) {
	var texts []string
	for i := range MaxPatternParts / 2 {
		texts = append(texts, fmt.Sprintf("/**/n%d/x", i))
	}
	table, err := NewTable(entries(texts...))
	childtest.Must(t, err)
	last := int32(len(texts) - 1)
	if entry, depth := table.Find(fmt.Sprintf("/w/n%d/x/y", last)); entry != last || depth != 3 {
		t.Errorf("the last pattern: entry %d at %d", entry, depth)
	}
	if _, err := NewTable(entries(append(texts, "/**/y")...)); err == nil || !strings.Contains(err.Error(), "follows at most 2048") {
		t.Error(err)
	}
}

func TestIsCanonical(t *testing.T) {
	for path, want := range map[string]bool{
		"/": true, "/a": true, "/a/b": true, "/...": true, "/.a": true, "/..a": true, "/a.": true,
		"": false, "a": false, "/a/": false, "//": false, "//a": false, "/a//b": false, "/.": false, "/a/./b": false, "/..": false, "/a/..": false, "/a\x00": false,
		strings.Repeat("/a", MaxDepth): true, strings.Repeat("/a", MaxDepth+1): false,
		"/" + strings.Repeat("a", MaxPath-1): true, "/" + strings.Repeat("a", MaxPath): false,
	} {
		if IsCanonical(path) != want {
			t.Errorf("%.30q of %d bytes: %v", path, len(path), !want)
		}
	}
}
