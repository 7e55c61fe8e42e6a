package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/loader/loadertest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// A policy may have very many rules, whose names are very much alike.
func TestManyRules(t *testing.T) {
	for _, name := range []string{
		"%d", "folder%d", "%08d", "%016d", "file%d.txt", "%x", "a_longer_name_with_a_number_%d_in_it", "%[1]d%[1]d%[1]d",
	} {
		for n, most := range map[int]int{10000: MaxLines / 2, 30000: MaxLines} {
			var rules []string
			for i := range n {
				rules = append(rules, "/srv/"+fmt.Sprintf(name, i)+" read")
			}
			img, err := New(loadertest.Compile(t, rules...), 1)
			if err != nil {
				t.Errorf("%d of %s: %v", n, name, err)
				continue
			}
			if lines := img.Lines(); lines > most {
				t.Errorf("%d of %s: %d lines", n, name, lines)
			}
		}
	}
}

// A policy that is too large is rejected at once, before it's laid out.
func TestTooManyLines(t *testing.T) {
	var rules []string
	for i := range 60000 {
		rules = append(rules, fmt.Sprintf("/srv/%d/a/b/c/d/e/f/g/h/i read", i))
	}
	if _, err := New(loadertest.Compile(t, rules...), 1); !errors.Is(err, errLines) {
		t.Errorf("%v", err)
	}
}

// The numbers of files are very much alike in some file systems: XFS has those of a group in their high bits.
func TestManyLinks(t *testing.T) {
	for shift := range 57 {
		c := *loadertest.Compile(t, "/srv read")
		for i := range uint64(100) {
			c.Links = append(c.Links, policy.Link{File: fspath.FileID{Inode: i<<shift | 128}})
		}
		if _, err := New(&c, 1); err != nil {
			t.Errorf("numbers %d apart: %v", uint64(1)<<shift, err)
		}
	}
}

// A policy with more layers than the programs follow is rejected, as is one with more rules than they count, or more rules about one file.
func TestManyLayers(t *testing.T) {
	taking := loadertest.Compile(t, "/**/"+strings.Repeat("x/", 199)+"x").Layers[1].FS // once for all layers: there's no space for each to have its own
	for c := loadertest.Compile(t, "/srv read"); len(c.Layers) < maxLayers+2; {
		all := *c
		all.Layers = nil
		for _, l := range c.Layers {
			own := *l
			own.Protect, own.Secrets = taking, taking
			all.Layers = append(all.Layers, &own)
		}
		if _, err := New(&all, 1); (err != nil) != (len(c.Layers) > maxLayers) {
			t.Errorf("%d layers: %v", len(c.Layers), err)
		}
		var err error
		if c, err = loadertest.Compile(t, fmt.Sprintf("/srv/%d read", len(c.Layers))).Within(c); err != nil {
			t.Fatal(err)
		}
	}
	for more := range 2 {
		c := *loadertest.Compile(t, "/srv read")
		c.Rules = append(c.Rules, make([]*policy.Rule, maxRules-len(c.Rules)+more)...)
		if _, err := New(&c, 1); errors.Is(err, errRules) != (more > 0) {
			t.Errorf("%d rules: %v", len(c.Rules), err)
		}
		c = *loadertest.Compile(t, "/srv read")
		c.Links = make([]policy.Link, maxLinked+more)
		if _, err := New(&c, 1); errors.Is(err, errLinked) != (more > 0) {
			t.Errorf("%d rules of one file: %v", len(c.Links), err)
		}
		c = *loadertest.Compile(t, "/srv/**/"+strings.Repeat("x/", maxWords*64-1+more)+"x read")
		if _, err := New(&c, 1); errors.Is(err, errPatterns) != (more > 0) {
			t.Errorf("%d components of patterns: %v", maxWords*64+more, err)
		}
	}
}

// A program's rules about arguments are laid out at its node once, for every layer with such rules, and at most as many as the programs follow.
func TestCommands(t *testing.T) {
	dir := loadertest.Scene(t)
	name := strings.Repeat("t", maxName)
	tool, other := dir+"/"+name, dir+"/other"
	childtest.Must(t, errors.Join(os.WriteFile(tool, nil, 0o755), os.Symlink(tool, other)))
	free := policy.CommandRule{Name: tool}
	args := func(name string, list ...[]string) policy.CommandRule {
		return policy.CommandRule{Name: name, HasArgs: true, Args: list}
	}
	words := func(n int) [][]string { return slices.Repeat([][]string{{"x"}}, n) }
	for _, c := range []struct {
		what   string
		rules  []policy.CommandRule
		layers int
		lists  []int // how many alternatives each of the node's commands has, -1 for any; nil: it's more than is looked at
	}{
		{"any arguments", []policy.CommandRule{free}, 1, []int{-1}},
		{"none", []policy.CommandRule{args(tool)}, 1, []int{0}},
		{"two names", []policy.CommandRule{args(tool, words(1)...), args(other, words(2)...)}, 1, []int{2, 1}},
		{"one that isn't there", []policy.CommandRule{args(tool), {Name: dir + "/none"}}, 1, []int{0}},
		{"as many alternatives as it may", []policy.CommandRule{args(tool, words(maxAlternatives-1)...)}, 1, []int{maxAlternatives - 1}},
		{"one more", []policy.CommandRule{args(tool, words(maxAlternatives)...)}, 1, nil},
		{"as long as it may", []policy.CommandRule{args(tool, []string{"", strings.Repeat("x", maxArgs-2), policy.ArgsRest})}, 1, []int{1}},
		{"one byte more", []policy.CommandRule{args(tool, []string{"", strings.Repeat("x", maxArgs-1), policy.ArgsRest})}, 1, nil},
		{"as many layers as may", []policy.CommandRule{free}, maxCommands, slices.Repeat([]int{-1}, maxCommands)},
		{"one more layer", []policy.CommandRule{free}, maxCommands + 1, nil},
	} {
		compiled, err := policy.Compile(&policy.Source{
			Name: "test", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{{Authority: policy.Session, Commands: c.rules}},
		}, loadertest.Tree{})
		childtest.Must(t, err)
		layer := &policy.Layer{Commands: compiled.Layers[len(compiled.Layers)-1].Commands}
		compiled.Layers = slices.Repeat([]*policy.Layer{layer}, c.layers)
		b := newBuilder(0)
		err = b.add(compiled)
		var lists []int
		for _, command := range b.nodes[b.path(tool)].commands {
			n := len(command.args)
			if command.args == nil {
				n = -1
			}
			lists = append(lists, n)
		}
		if (err == nil) != (c.lists != nil) || err == nil && !slices.Equal(lists, c.lists) {
			t.Errorf("%s: %v, %v", c.what, lists, err)
		}
		if err == nil {
			b.reads(t, tool, name)
		}
	}
	for _, c := range []struct {
		args []string
		text string
		n    uint32
		rest bool
	}{
		{nil, "", 0, false},
		{[]string{"a", ""}, "a\x00\x00", 2, false},
		{[]string{"a", policy.ArgsRest}, "a\x00", 1, true},
		{[]string{policy.ArgsRest, "a"}, policy.ArgsRest + "\x00a\x00", 2, false},
		{[]string{policy.ArgsRest}, "", 0, true},
	} {
		if text, n, rest := argsText(c.args); text != c.text || n != c.n || rest != c.rest {
			t.Errorf("%q: %q, %d, %v", c.args, text, n, rest)
		}
	}
}

// reads compares a program's record with bpf/lib/image.h.
func (b *builder) reads(t *testing.T, tool, name string) {
	t.Helper()
	img, ok := b.finish(1)
	if !ok {
		t.Fatal("it isn't laid out")
	}
	words := func(line uint32) (all []uint32) {
		for _, l := range img.lines[line:] {
			for i := 0; i < LineSize; i += 4 {
				all = append(all, binary.NativeEndian.Uint32(l[i:]))
			}
		}
		return all
	}
	text := func(line, n uint32) string {
		var all []byte
		for _, l := range img.lines[line:] {
			all = append(all, l[:]...)
		}
		return string(all[:n])
	}
	n := b.path(tool)
	record := words(words(words(0)[hNodes])[4*n+3] >> 8)
	if record[0] != uint32(len(b.nodes[n].commands)) {
		t.Errorf("%d commands", record[0])
	}
	for i, c := range b.nodes[n].commands {
		entry := record[16+4*i:]
		if entry[0] != c.layer || entry[1] != c.rule || entry[2] == 0 != (c.args == nil) {
			t.Errorf("%d of layer %d with arguments in line %d for %+v", entry[1], entry[0], entry[2], c)
		}
		if c.args == nil {
			continue
		}
		list := words(entry[2])
		called := words(list[1])
		if list[0] != uint32(len(c.args)) || called[0] != uint32(len(c.called)) || c.called[0] == name && text(called[2], called[1]) != name+"\x00" {
			t.Errorf("%d alternatives and %d names", list[0], called[0])
		}
		for j, args := range c.args[:min(len(c.args), 3)] {
			is := words(list[2+j])
			if want, n, rest := argsText(args); is[0] != n || is[1] == 1 != rest || text(is[3], is[2]) != want {
				t.Errorf("%.20q: %d arguments, more %d", args, is[0], is[1])
			}
		}
	}
}

// No rule grants the hidden folders: toolguard's own table decides about them, and grants nothing.
func TestHiddenInImage(t *testing.T) {
	b := newBuilder(0)
	childtest.Must(t, b.add(loadertest.Compile(t, "/ read+update")))
	for _, p := range HiddenFolders {
		hits := b.nodes[b.path(p)].hits
		if len(hits) != 1 || hits[0]>>18 != 0 {
			t.Errorf("%s: %#x", p, hits)
		}
	}
}

// A rule of every kind that there is, in every layer, is at the node that all of them name.
func TestLaidOutHits(t *testing.T) {
	path := loadertest.Scene(t, "file") + "/file"
	b := newBuilder(0)
	childtest.Must(t, b.add(loadertest.ManyHits(t, path)))
	kinds := map[uint32]bool{} // by table, and whether they just grant
	for _, hit := range b.nodes[b.path(path)].hits {
		kinds[hit>>24] = true
	}
	if n := len(b.nodes[b.path(path)].hits); n != 4*(maxLayers-1)+1 || len(kinds) != n {
		t.Fatalf("%d hits of %d kinds", n, len(kinds))
	}
}
