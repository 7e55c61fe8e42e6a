package backend

import (
	"fmt"
	"testing"
)

func TestOffersAndSteps(t *testing.T) {
	probe := func(name, needs string, r Tri) Probe {
		return Probe{Name: name, Needs: needs, Result: r, Fix: "fix " + name}
	}
	net, audit, cgroups := probe(probedNet, "", No), probe(probedAudit, "", No), probe(probedCgroup, "", Yes)
	lsm, load := probe("lsm", needsBPF, No), probe("load", needsBPF, No)
	for _, x := range []struct {
		m      Machine
		offers string // yes or no, in order
		steps  string
	}{
		{Machine{}, "[false false false false false]", "[]"},
		{Machine{Auto: "landlock", Probes: []Probe{net, audit, cgroups, lsm, load}, Instead: "have toolguardd decide"}, "[true false false true false]", "[have toolguardd decide network programs: fix network programs]"},
		{Machine{Auto: "landlock", Probes: []Probe{cgroups, lsm, load}, Instead: "use bpf: 'toolguard doctor' says how"}, "[true false false true false]", "[lsm: fix lsm]"},
		{Machine{Auto: "bpf", Probes: []Probe{audit, cgroups, probe(probedNet, "", Yes)}}, "[true true true true true]", "[]"},
	} {
		var offers []bool
		for _, o := range x.m.Offers() {
			if offers = append(offers, o.Yes); o.Yes == (o.Note != "") {
				t.Errorf("%+v", o)
			}
		}
		if fmt.Sprint(offers) != x.offers || fmt.Sprint(x.m.Steps()) != x.steps {
			t.Errorf("%+v: %v, %v", x.m, offers, x.m.Steps())
		}
	}
}
