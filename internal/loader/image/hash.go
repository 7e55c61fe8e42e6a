package image

import (
	"encoding/binary"
	"math/bits"
)

// buckets is a hash table of lines with four entries each.
type buckets struct{ lines [][][4]uint32 }

// newBuckets has buckets for n entries, doubled spare times.
func newBuckets(n int, spare uint32) *buckets {
	return &buckets{make([][][4]uint32, 1<<(bits.Len(uint(n)/2)+int(spare)))}
}

func (b *buckets) mask() uint32 { return uint32(len(b.lines) - 1) }

// add fails if there is no free slot within maxProbes, or if an entry with the same key exists.
func (b *buckets) add(hash uint32, e [4]uint32) bool {
	for probe := range uint32(maxProbes) {
		l := &b.lines[(hash+probe)&b.mask()]
		for _, other := range *l {
			if other[0] == e[0] && other[1] == e[1] {
				return false
			}
		}
		if len(*l) < 4 {
			*l = append(*l, e)
			return true
		}
	}
	return false
}

func (b *buckets) words() []uint32 {
	words := make([]uint32, 0, 16*len(b.lines))
	for _, l := range b.lines {
		for i := range 4 {
			var e [4]uint32
			if i < len(l) {
				e = l[i]
			}
			words = append(words, e[:]...)
		}
	}
	return words
}

// Multipliers of hashes: fractions of the golden ratio and of the root of two, whose multiples are evenly spread.
const (
	golden = 0x9E3779B97F4A7C15
	root2  = 0x6A09E667F3BCC909
)

// HashName is read_name's.
func HashName(s string, header uint32) uint32 {
	h := uint64(header) + uint64(len(s))
	for len(s) > 0 {
		var word [8]byte
		s = s[copy(word[:], s):]
		h = hashWord(h, binary.NativeEndian.Uint64(word[:]))
	}
	return hashEnd(h)
}

// hashEdge is edge_hash.
func hashEdge(from, label, header uint32) uint32 {
	return hashEnd(uint64(from)*(golden^uint64(header)<<50) + uint64(label)*root2)
}

// hashFile is file_hash.
func hashFile(number uint64, header uint32) uint32 {
	return hashEnd(hashWord(hashWord(uint64(header), number), 0))
}

func hashWord(h, word uint64) uint64 {
	h = (h ^ word) * golden
	return h ^ h>>29
}

func hashEnd(h uint64) uint32 { return uint32(bits.ReverseBytes64(h)) }
