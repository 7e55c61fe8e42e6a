package seatbelt

import (
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/darwin/sbpltest"
)

// survey asks every question about the paths that a policy is about, under each model, until limit faults are found.
func (w *world) survey(models []sbpltest.Model, limit int) []fault {
	names := w.names()
	var found []fault
	for _, m := range models {
		j := judge{world: w, model: m}
		for _, n := range names {
			j.file(n)
		}
		for _, p := range names {
			for _, q := range names {
				if p.path == p.other && q.kind != "DIRECTORY" && path.Base(q.path) != "d" {
					j.move(p, q)
				}
			}
		}
		for _, addr := range []string{"127.0.0.1", "::1", "127.0.0.2", "192.0.2.1"} {
			for _, port := range []uint16{80, 443, 5432, 8080} {
				at := netip.AddrPortFrom(netip.MustParseAddr(addr), port)
				for _, protocol := range []string{"tcp", "udp"} {
					j.address(protocol, at, false)
					j.address(protocol, at, true)
				}
			}
		}
		if found = append(found, j.faults...); len(found) >= limit {
			break
		}
	}
	return found
}

// names returns the paths that rules are about with those around them, in two cases where nothing is there.
func (w *world) names() (all []name) {
	var paths []string
	for _, p := range w.interesting() {
		p = sbpltest.Resolve(p)
		paths = append(paths, p, path.Join(p, "c"), path.Join(p, "c", "d"), path.Dir(p), path.Join(path.Dir(p), "c"), p+"c")
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
