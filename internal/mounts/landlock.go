package mounts

import (
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// hierarchy is what Landlock permits by the grants of one layer: on each path those of its own rule and of all rules above.
type hierarchy struct {
	layer  *policy.Layer
	byPath map[string]policy.Caps // of the literal rule that counts at a path
}

// hierarchies returns those of the layers that restrict fs.
func hierarchies(c *policy.Compiled) (all []hierarchy) {
	for _, l := range c.Layers {
		if !restrictsFS(l) {
			continue
		}
		h := hierarchy{l, map[string]policy.Caps{}}
		for _, r := range l.FS.Literals() {
			if !r.FS.Symlink {
				h.byPath[r.FS.Path] = r.FS.Caps
			}
		}
		all = append(all, h)
	}
	return all
}

// restrictsFS reports whether Landlock has a ruleset for what a layer grants.
func restrictsFS(l *policy.Layer) bool {
	return l.Authority != policy.Builtin && l.Defaults[policy.FS] == policy.Deny
}

// at returns the capabilities that Landlock permits on a path under that name.
func (h *hierarchy) at(path string) (caps policy.Caps) {
	for {
		caps |= h.byPath[path]
		if path == "/" {
			return caps
		}
		path = parent(path)
	}
}

// permitted returns the capabilities that Landlock permits on a path by the grants of all layers.
func (b *builder) permitted(path string) policy.Caps { return permitted(b.c, b.trees, path) }

func permitted(c *policy.Compiled, trees []hierarchy, path string) policy.Caps {
	caps := policy.AllCaps
	for i := range trees {
		caps &= trees[i].under(c, path)
	}
	return caps
}

// under returns the capabilities that Landlock permits on a path, under every name that it has.
func (h *hierarchy) under(c *policy.Compiled, path string) policy.Caps {
	caps := h.at(path)
	for i := range c.Aliases {
		if other, ok := c.Aliases[i].Other(path); ok {
			caps |= h.at(other)
		}
	}
	return caps
}

// names returns a rule's path and the paths that it also has by aliases.
func names(c *policy.Compiled, path string) []string {
	all := []string{path}
	for i := range c.Aliases {
		a := &c.Aliases[i]
		back := fspath.Alias{From: a.To, To: a.From, Holes: a.Holes}
		if other, ok := back.Other(path); ok {
			all = append(all, other)
		} else if fspath.Within(a.To, path) {
			all = append(all, a.From)
		}
	}
	return all
}

func parent(path string) string {
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			return path[:i]
		}
	}
	return "/"
}
