package seatbelt

import (
	"iter"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/darwin/sbpltest"
)

// survey asks every question about the paths that a policy is about, under each model, until there is a fault.
func (w *world) survey(models []sbpltest.Model) []fault {
	names := w.names()
	for _, m := range models {
		j := judge{world: w, model: m}
		for step := range j.steps(names) {
			if step(); len(j.faults) > 0 {
				return j.faults
			}
		}
	}
	return nil
}

// steps are the questions of a survey.
func (j *judge) steps(names []name) iter.Seq[func()] {
	return func(yield func(func()) bool) {
		for _, addr := range []string{"127.0.0.1", "::1", "127.0.0.2", "192.0.2.1"} {
			for _, port := range []uint16{80, 443, 5432, 8080} {
				at := netip.AddrPortFrom(netip.MustParseAddr(addr), port)
				for _, listen := range []bool{false, true} {
					if !yield(func() { j.address("tcp", at, listen); j.address("udp", at, listen) }) {
						return
					}
				}
			}
		}
		for _, n := range names {
			if !yield(func() { j.file(n) }) {
				return
			}
		}
		for _, p := range names {
			for _, q := range names {
				if p.path != p.other || p.kind == "" || q.kind != "" {
					continue
				}
				if !yield(func() { j.move(p, q) }) {
					return
				}
			}
		}
	}
}

// names returns the paths that rules are about with those around them, in two cases where nothing is there.
func (w *world) names() (all []name) {
	var paths []string
	for _, p := range w.interesting() {
		p = sbpltest.Resolve(p)
		paths = append(paths, p, path.Join(p, "c"), path.Dir(p), p+"c")
	}
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		if w.kind(p) == "SYMLINK" {
			continue
		}
		if k := w.kind(p); k != "" {
			all = append(all, name{p, p, k})
			continue
		}
		for _, k := range []string{"", "REGULAR-FILE", "DIRECTORY"} {
			all = append(all, name{p, p, k}, name{w.respell(p, strings.ToUpper), p, k})
		}
	}
	return all
}
