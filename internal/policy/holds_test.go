package policy

import "testing"

// A policy holds another one's layers as long as none of them says anything else.
func TestHolds(t *testing.T) {
	outer := func(rules ...FSRule) SourceLayer { return SourceLayer{Authority: Host, FS: rules} }
	inner := SourceLayer{FS: []FSRule{p(".", Read|Write)}}
	host := compile(t, outer(p("/etc", Read), m("/**/.ssh", 0)))
	for _, x := range []struct {
		name string
		c    *Compiled
		want bool
	}{
		{"as they are", compile(t, outer(p("/etc", Read), m("/**/.ssh", 0)), inner), true},
		{"handed over", handed(t, compile(t, outer(p("/etc", Read), m("/**/.ssh", 0)), inner)), true},
		{"one more rule", compile(t, outer(p("/etc", Read), m("/**/.ssh", 0), p("/var", Read)), inner), false},
		{"one rule less", compile(t, outer(p("/etc", Read)), inner), false},
		{"more is given", compile(t, outer(p("/etc", Read|Update), m("/**/.ssh", 0)), inner), false},
		{"another authority's", compile(t, SourceLayer{Authority: Agent, FS: []FSRule{p("/etc", Read), m("/**/.ssh", 0)}}, inner), false},
		{"left out", compile(t, inner), false},
	} {
		if got := x.c.Holds(host); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
}

// It also knows all that the other one knows of other names.
func TestHoldsOtherNames(t *testing.T) {
	for name, change := range map[string]func(*Compiled){
		"":                   func(*Compiled) {},
		"no alias":           func(c *Compiled) { c.Aliases = nil },
		"one with a hole":    func(c *Compiled) { c.Aliases[0].Holes = []string{"/x"} },
		"one from elsewhere": func(c *Compiled) { c.Aliases[0].Depth++ },
		"no link":            func(c *Compiled) { c.Links = nil },
		"one of another":     func(c *Compiled) { c.Links[0].File.Inode++ },
		"one of a rule that gives more": func(c *Compiled) {
			c.Links[0].Rule = int32(len(c.Rules))
			c.Rules = append(c.Rules, &Rule{FS: &CompiledFS{Path: "/", Caps: AllCaps}})
		},
	} {
		known := func() *Compiled {
			c := compile(t, SourceLayer{Authority: Host, FS: []FSRule{p("/etc", Read)}})
			c.Aliases = []Alias{{From: "/a", To: "/etc", Depth: 1}}
			c.Links = []Link{{File: FileID{Inode: 7}}}
			return c
		}
		c := known()
		change(c)
		if got := c.Holds(known()); got != (name == "") {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What is within another policy holds it, each with a TMPDIR of its own.
func TestHoldsWhatItIsWithin(t *testing.T) {
	with := func(tmp string, rules ...FSRule) *Compiled {
		own := p(tmp, Read|Write)
		own.Place.File = "builtin:runtime"
		src := source(SourceLayer{FS: append(rules, own)})
		src.TmpDir = tmp
		c, err := Compile(src, newTree(map[string]string{"/w": "dir", tmp: "dir"}))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	outer := with("/tmp/outer", p("/etc", Read))
	in, err := with("/tmp/inner", p("/", Read)).Within(outer)
	if err != nil {
		t.Fatal(err)
	}
	if !in.Holds(outer) {
		t.Error("it doesn't hold what it's within")
	}
	if in.Holds(with("/tmp/outer", p("/var", Read))) {
		t.Error("it holds another one")
	}
}
