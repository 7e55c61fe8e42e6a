package image

import (
	"encoding/binary"
	"strings"
)

type bitset [maxWords]uint64

func (s *bitset) set(bit int)      { s[bit/64] |= 1 << (bit % 64) }
func (s *bitset) has(bit int) bool { return s[bit/64]>>(bit%64)&1 != 0 }

func (s *bitset) add(t *bitset) {
	for i := range s {
		s[i] |= t[i]
	}
}

// pattern is where a pattern begins, and its bits.
type pattern struct {
	base       string
	first, end int
}

// The roots of the two tries of affixes.
const prefixRoot, suffixRoot = 0, 1

func (b *builder) nameSet(s string) *bitset {
	b.name(s)
	if b.sets[s] == nil {
		b.sets[s] = &bitset{}
		b.addFilter(filterNames, s[0], 1<<fold(s[len(s)-1]))
	}
	return b.sets[s]
}

// fold returns a byte's bit in the filter. Upper and lower case have the same.
func fold(c byte) int { return int(c&31 | c>>1&32) }

// pair returns the bit of two bytes in a filter.
func pair(a, b byte) int { return (fold(a) + 7*fold(b)) % 64 }

// addFilter adds a name's first or last byte to a filter, with the bits of its other bytes.
func (b *builder) addFilter(filter int, c byte, others uint64) {
	f := fold(c)
	b.filter[0][filter] |= 1 << f
	b.filter[1+filter*filterLines+f/maxWords][f%maxWords] |= others
}

// lastSet returns the set of the patterns with this LAST.
func (b *builder) lastSet(lastSet string) *bitset {
	if p, ok := strings.CutSuffix(lastSet, "*"); ok {
		return b.affix(prefixRoot, []byte(p))
	}
	if s, ok := strings.CutPrefix(lastSet, "*"); ok {
		back := make([]byte, 0, len(s))
		for i := len(s) - 1; i >= 0; i-- {
			back = append(back, s[i])
		}
		return b.affix(suffixRoot, back)
	}
	return b.nameSet(lastSet)
}

func (b *builder) affix(root uint32, text []byte) *bitset {
	others := ^uint64(0)
	if len(text) > 2 {
		others = 1 << pair(text[1], text[2])
	}
	b.addFilter(filterPrefix+int(root), text[0], others)
	at := root
	for _, c := range text {
		e := edge{at, uint32(c)}
		next, ok := b.affixed[e]
		if !ok {
			next = uint32(len(b.affixes))
			b.affixes = append(b.affixes, nil)
			b.affixed[e] = next
		}
		at = next
	}
	if b.affixes[at] == nil {
		b.affixes[at] = &bitset{}
	}
	return b.affixes[at]
}

func (w *writer) set(s *bitset) uint32 {
	if s == nil {
		return 0
	}
	var l line
	for i, v := range s {
		binary.NativeEndian.PutUint64(l[8*i:], v)
	}
	w.lines = append(w.lines, l)
	return uint32(len(w.lines) - 1)
}
