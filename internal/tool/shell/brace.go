package shell

import (
	"slices"
	"strconv"
)

// braces expands the braces of a word, as bash and zsh do before all else. It isn't ok where the outcome isn't certain or large: braces
// without a pair, and ranges other than of numbers and letters.
func (a *analyzer) braces(atoms []atom) (words [][]atom, ok bool) {
	if !mayBrace(atoms) {
		return [][]atom{atoms}, true
	}
	words, rest, ok := a.alternatives(atoms, false, 0)
	return words, ok && len(rest) == 0
}

// mayBrace reports whether the braces of a word have any meaning: without a comma or two dots between a pair, they're letters.
func mayBrace(atoms []atom) bool {
	open := slices.IndexFunc(atoms, func(t atom) bool { return t.is('{') })
	if open < 0 || !slices.ContainsFunc(atoms[open:], func(t atom) bool { return t.is('}') }) {
		return false
	}
	for i := open; i < len(atoms); i++ {
		if atoms[i].is(',') || atoms[i].is('.') && i+1 < len(atoms) && atoms[i+1].is('.') {
			return true
		}
	}
	return false
}

// alternatives expands atoms up to the comma or brace that ends an element.
func (a *analyzer) alternatives(atoms []atom, inner bool, depth int) (words [][]atom, rest []atom, ok bool) {
	words = [][]atom{nil}
	for len(atoms) > 0 {
		switch t := atoms[0]; {
		case inner && (t.is(',') || t.is('}')):
			return words, atoms, true
		case t.is('}'):
			return nil, nil, false
		case t.is('{'):
			group, after, ok := a.group(atoms[1:], depth+1)
			if !ok || len(words)*len(group) > maxBraceWords {
				return nil, nil, false
			}
			if words, ok = a.product(words, group); !ok {
				return nil, nil, false
			}
			atoms = after
		default:
			for i := range words {
				words[i] = append(words[i], t)
			}
			if a.expanded += len(words) - 1; a.expanded > maxExpanded {
				return nil, nil, false
			}
			atoms = atoms[1:]
		}
	}
	return words, nil, !inner
}

func (a *analyzer) product(words, group [][]atom) (all [][]atom, ok bool) {
	for _, w := range words {
		for _, g := range group {
			if a.expanded += len(w) + len(g); a.expanded > maxExpanded {
				return nil, false
			}
			all = append(all, slices.Concat(w, g))
		}
	}
	return all, true
}

// group expands what follows an opening brace.
func (a *analyzer) group(atoms []atom, depth int) (words [][]atom, rest []atom, ok bool) {
	if depth > 8 {
		return nil, nil, false
	}
	if words, rest, ok = numberRange(atoms); ok {
		return words, rest, true
	}
	elements := 0
	for {
		element, after, ok := a.alternatives(atoms, true, depth)
		if !ok || slices.ContainsFunc(element, dotted) {
			return nil, nil, false
		}
		elements++
		words = append(words, element...)
		if after[0].is('}') {
			return words, after[1:], elements > 1
		}
		atoms = after[1:]
	}
}

// dotted reports whether an element contains two dots, with which bash may take it for a range.
func dotted(atoms []atom) bool {
	for i := range max(len(atoms)-1, 0) {
		if atoms[i].is('.') && atoms[i+1].is('.') {
			return true
		}
	}
	return false
}

// numberRange expands 1..3} and a..c}, with neither a step nor leading zeros.
func numberRange(atoms []atom) (words [][]atom, rest []atom, ok bool) {
	end := slices.IndexFunc(atoms, func(t atom) bool { return t.is('}') })
	if end < 4 || end > 20 {
		return nil, nil, false
	}
	var bounds [2]string
	n := 0
	for i := 0; i < end; i++ {
		switch t := atoms[i]; {
		case t.part != nil || t.quoted:
			return nil, nil, false
		case t.b == '.' && n == 0 && i+1 < end && atoms[i+1].is('.'):
			n, i = 1, i+1
		default:
			bounds[n] += string(t.b)
		}
	}
	if words, ok = letterRange(bounds[0], bounds[1]); ok {
		return words, atoms[end+1:], true
	}
	from, err1 := strconv.Atoi(bounds[0])
	to, err2 := strconv.Atoi(bounds[1])
	if err1 != nil || err2 != nil || strconv.Itoa(from) != bounds[0] || strconv.Itoa(to) != bounds[1] || max(from-to, to-from) >= maxBraceWords {
		return nil, nil, false
	}
	step := 1
	if from > to {
		step = -1
	}
	for i := from; ; i += step {
		words = append(words, appendBytes(strconv.Itoa(i)))
		if i == to {
			return words, atoms[end+1:], true
		}
	}
}

// letterRange expands a..c, with both letters of one case.
func letterRange(from, to string) (words [][]atom, ok bool) {
	if len(from) != 1 || len(to) != 1 || !sameCase(from[0], to[0]) {
		return nil, false
	}
	step := 1
	if from[0] > to[0] {
		step = -1
	}
	for c := int(from[0]); ; c += step {
		words = append(words, []atom{{b: byte(c)}})
		if byte(c) == to[0] {
			return words, true
		}
	}
}

func sameCase(x, y byte) bool {
	lower := func(c byte) bool { return 'a' <= c && c <= 'z' }
	upper := func(c byte) bool { return 'A' <= c && c <= 'Z' }
	return lower(x) && lower(y) || upper(x) && upper(y)
}

func appendBytes(text string) (atoms []atom) {
	for i := range len(text) {
		atoms = append(atoms, atom{b: text[i]})
	}
	return atoms
}
