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
