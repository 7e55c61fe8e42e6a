package policy

import (
	"reflect"
	"slices"
)

// Includes reports whether c has every layer, every alias and every hard link of outer, unchanged, and records what outer records.
func (c *Compiled) Includes(outer *Compiled) bool {
	if outer.Audit.Exec && !c.Audit.Exec {
		return false
	}
	for _, want := range outer.Layers {
		if !slices.ContainsFunc(c.Layers, func(l *Layer) bool { return same(l, want) }) {
			return false
		}
	}
	for _, want := range outer.Aliases {
		if !slices.ContainsFunc(c.Aliases, want.Same) {
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

// same reports whether two layers are equal in everything, their positions included: the meaning of a rule depends on the file that it
// comes from, too.
func same(a, b *Layer) bool {
	return reflect.DeepEqual(bare(a), bare(b)) &&
		alike(a.FS.Rules(), b.FS.Rules()) && alike(a.Protect.Rules(), b.Protect.Rules()) && alike(a.Secrets.Rules(), b.Secrets.Rules()) && alike(a.Net.Rules(), b.Net.Rules()) &&
		alike(a.Env.Rules(), b.Env.Rules()) && alike(a.Commands.Rules(), b.Commands.Rules())
}

// bare is a layer without its tables.
func bare(l *Layer) Layer {
	b := *l
	b.FS, b.Protect, b.Secrets, b.Net, b.Env, b.Commands, b.narrowing = nil, nil, nil, nil, nil, nil, nil
	return b
}

func alike(a, b []*Rule) bool {
	return slices.EqualFunc(a, b, func(r, q *Rule) bool {
		x, y := *r, *q
		x.Index, y.Index = 0, 0
		return reflect.DeepEqual(x, y)
	})
}
