package fspath

import "slices"

// Alias says that what is at From, with what is beneath it, is also what is at To: a bind mount, or a file system that is
// mounted twice. Each of two such names has an Alias for the other one.
type Alias struct {
	From, To string
	Depth    int      // of the mount point of To's file system: folders above it aren't part of the file system
	Holes    []string `json:",omitempty"` // what follows either name where something else is mounted: "/proc"
}

// Same reports whether two aliases are equal.
func (a Alias) Same(b Alias) bool {
	return a.From == b.From && a.To == b.To && a.Depth == b.Depth && slices.Equal(a.Holes, b.Holes)
}

// Rest is what follows From in path, and whether path is another name of something beneath To.
func (a *Alias) Rest(path string) (rest string, ok bool) {
	if !Within(path, a.From) {
		return "", false
	}
	rest = Beneath(path, a.From)
	for _, hole := range a.Holes {
		if Within(rest, hole) {
			return "", false
		}
	}
	return rest, true
}

// Other returns the path that a path has by the alias; ok is false if it has none.
func (a *Alias) Other(path string) (other string, ok bool) {
	rest, ok := a.Rest(path)
	return Join(a.To, rest), ok
}

// Counts reports whether an entry that matches at a depth of the name beneath To says something about the same thing's name beneath
// From. It doesn't when it's about what is around the file system, nor when it matches in the same way under both names: as a
// folder that both places are in, or as a pattern beneath both. There it has been considered already, and may have lost.
func (a *Alias) Counts(e *Entry, depth int) bool {
	switch {
	case depth < a.Depth:
		return false
	case !Within(a.From, e.Path):
		return true
	case e.Last == "":
		return depth > Depth(a.To)
	}
	return depth-len(e.Names) <= Depth(a.To)
}
