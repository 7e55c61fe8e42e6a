package policy

import (
	"crypto/sha256"
	"slices"
)

// Holds says whether c has every layer of outer but toolguard's own, as it is there, and knows the other names that it knows.
func (c *Compiled) Holds(outer *Compiled) bool {
	for _, want := range outer.Layers {
		has := func(l *Layer) bool { return c.meaning(l) == outer.meaning(want) }
		if want.Authority != Builtin && !slices.ContainsFunc(c.Layers, has) {
			return false
		}
	}
	for _, want := range outer.Aliases {
		if !slices.ContainsFunc(c.Aliases, func(a Alias) bool { return a.From == want.From && a.To == want.To }) {
			return false
		}
	}
	return true
}

// meaning is the part of the digest that is about one layer.
func (c *Compiled) meaning(l *Layer) string {
	d := digester{h: sha256.New()}
	d.layer(c, l)
	return string(d.h.Sum(nil))
}
