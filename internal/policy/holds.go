package policy

import (
	"crypto/sha256"
	"slices"
)

// Holds says whether c has every layer of outer but toolguard's own, as it is there, and knows the other names and the
// files that it knows.
func (c *Compiled) Holds(outer *Compiled) bool {
	for _, want := range outer.Layers {
		has := func(l *Layer) bool {
			return meaning(l, c.TmpDir, outer.TmpDir) == meaning(want, c.TmpDir, outer.TmpDir)
		}
		if want.Authority != Builtin && !slices.ContainsFunc(c.Layers, has) {
			return false
		}
	}
	for _, want := range outer.Aliases {
		if !slices.ContainsFunc(c.Aliases, func(a Alias) bool {
			return a.From == want.From && a.To == want.To && a.Depth == want.Depth && slices.Equal(a.Holes, want.Holes)
		}) {
			return false
		}
	}
	for _, want := range outer.Links {
		if !slices.ContainsFunc(c.Links, func(k Link) bool {
			return k.File == want.File && k.Dev == want.Dev && c.Rules[k.Rule].FS.Caps&^outer.Rules[want.Rule].FS.Caps == 0
		}) {
			return false
		}
	}
	return true
}

// meaning is the part of the digest that is about one layer.
func meaning(l *Layer, tmpDirs ...string) string {
	d := digester{h: sha256.New()}
	d.layer(l, tmpDirs...)
	return string(d.h.Sum(nil))
}
