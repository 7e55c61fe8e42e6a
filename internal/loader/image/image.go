package image

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/toolguard/toolguard/internal/policy"
)

// The image's geometry, as in bpf/lib/image.h.
const (
	LineSize  = 64
	maxWords  = 8
	maxTables = 32
	maxLayers = 10
	maxProbes = 4
	magic     = 0x74673037
	maxRules  = 1 << 18
	maxLinked = 64
	maxName   = 255
	MaxLines  = 131072 // of the images of all sessions (bpf/lib/lookup.h)

	maxArgs         = 4096
	maxCommands     = 256
	maxAlternatives = 1024
)

// The words of line 0.
const (
	hMagic = iota
	hSeed
	hNames
	hNamesMask
	hEdges
	hEdgesMask
	hNodes
	hHits
	hBitHits
	hFinals
	hFilter
	hPrefix
	hSuffix
	hLayers
	hNLayers
	hGeneration
)

// The words of the filter's first line.
const (
	filterPrefix = iota
	filterSuffix
	filterNames
	filters
)

const filterLines = 64 / maxWords // of one filter's words by byte

// Node flags.
const nodeBeneath = 1

// The flag of hard links in the header, and in edges.
const (
	seedLinks = 1 << 31
	seedExecs = 1 << 30
	linked    = 1 << 31
)

// Flags of a hit, and none.
const (
	hitGrants = 1 << 29
	hitKnown  = 1 << 30
	hitSecret = 1 << 31
	noHit     = 0xffffffff
)

// Rule returns the number of a hit's rule, -1 for no hit.
func Rule(hit uint32) int {
	if hit == noHit {
		return -1
	}
	return int(hit & (maxRules - 1))
}

// The errors for policies that don't fit in an image.
var (
	errPatterns = errors.New("the patterns have more components after their \"**\" than the kernel's matcher follows (512 in all): use fewer patterns")
	errLayers   = errors.New("the policy has more layers, with those of the outer sessions, than the kernel's matcher follows (10): nest fewer")
	errLines    = fmt.Errorf("the policy is larger than the kernel's matcher can store (%d lines): name folders instead of the files in them", MaxLines)
	errRules    = errors.New("there are more rules than the kernel's matcher counts (262144): name folders instead of the files in them")
	errLinked   = errors.New("more rules name one file, by its hard links, than the kernel's matcher follows (64): name the file once")
	errBuckets  = errors.New("no hash spreads the names of files in the rules: change one of them")
)

// Line is one line of an image.
type line [LineSize]byte

// Image is a compiled policy's fs rules in the form that the kernel follows (bpf/lib/match.h): a map's elements in order.
type Image struct{ lines []line }

// Lines returns the number of the image's lines, of 64 bytes each.
func (i *Image) Lines() int { return len(i.lines) }

// Bytes returns the image as in the map.
func (i *Image) Bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&i.lines[0])), len(i.lines)*LineSize)
}

// Generation reads an image's generation from its first line.
func Generation(line []byte) uint32 { return binary.NativeEndian.Uint32(line[4*hGeneration:]) }

// New makes the image of a policy. generation identifies the image in the session's events.
func New(c *policy.Compiled, generation uint32) (*Image, error) {
	if len(c.Rules) > maxRules {
		return nil, errRules
	}
	if len(c.Layers) > maxLayers {
		return nil, errLayers
	}
	for seed := range uint32(64) {
		b := newBuilder(seed)
		if err := b.add(c); err != nil {
			return nil, err
		}
		if len(b.nodes)/4+len(b.texts) > MaxLines {
			return nil, errLines
		}
		if img, ok := b.finish(generation); ok {
			return img, nil
		}
	}
	return nil, errBuckets
}

// writer lays lines out.
type writer struct{ lines []line }

// words adds 32-bit words from the beginning of a line and returns its number.
func (w *writer) words(words []uint32) uint32 {
	at := uint32(len(w.lines))
	for len(words) > 0 {
		var l line
		n := min(len(words), LineSize/4)
		for i, v := range words[:n] {
			binary.NativeEndian.PutUint32(l[4*i:], v)
		}
		w.lines = append(w.lines, l)
		words = words[n:]
	}
	return at
}

// links lays out the rules about one file with several hard links.
func (w *writer) links(rules [][4]uint32) uint32 {
	record := make([]uint32, LineSize/4)
	record[0] = uint32(len(rules))
	for _, r := range rules {
		record = append(record, r[:]...)
	}
	return w.words(record)
}

func (w *writer) text(s string) uint32 {
	at := uint32(len(w.lines))
	for len(s) > 0 {
		var l line
		s = s[copy(l[:], s):]
		w.lines = append(w.lines, l)
	}
	return at
}

// finish lays the image out. It fails if the seed doesn't spread the names or the edges. The tables grow with the seed: they are half
// empty at first, and 4 times as large in the end.
func (b *builder) finish(generation uint32) (*Image, bool) {
	w := &writer{lines: make([]line, 1)}
	text, hash := make([]uint32, len(b.texts)), make([]uint32, len(b.texts))
	roomy := min(b.seed/2, 2)
	names := newBuckets(len(b.sets), roomy)
	for i, s := range b.texts {
		text[i], hash[i] = w.text(s), HashName(s, b.header())
		set := w.set(b.sets[s])
		if set != 0 && !names.add(hash[i], [4]uint32{hash[i], uint32(len(s)), text[i], set}) {
			return nil, false
		}
	}
	edges := newBuckets(len(b.edges)+len(b.affixed)+len(b.linked), roomy)
	affix := func(n uint32) uint32 { return uint32(len(b.nodes)) + n }
	for e, to := range b.edges {
		what := b.nodes[to].hasContent() | uint32(min(len(b.texts[e.label]), maxName+1))<<1 | text[e.label]<<15
		if !edges.add(hashEdge(e.from, hash[e.label], b.header()), [4]uint32{e.from, hash[e.label], to, what}) {
			return nil, false
		}
	}
	for e, to := range b.affixed {
		from := affix(e.from)
		if !edges.add(hashEdge(from, e.label, b.header()), [4]uint32{from, e.label, affix(to), w.set(b.affixes[to])}) {
			return nil, false
		}
	}
	for number, rules := range b.linked {
		high, low := linked|uint32(number>>32), uint32(number)
		if !edges.add(hashFile(number, b.header()), [4]uint32{high, low, w.links(rules), 0}) {
			return nil, false
		}
	}
	var head [16]uint32
	head[hMagic], head[hSeed], head[hGeneration] = magic, b.header(), generation
	head[hNames], head[hNamesMask] = w.words(names.words()), names.mask()
	head[hEdges], head[hEdgesMask] = w.words(edges.words()), edges.mask()
	b.layNodes(w, &head)
	head[hBitHits], head[hFinals] = w.words(b.bitHits), w.set(&b.finals)
	head[hFilter], head[hPrefix], head[hSuffix] = uint32(len(w.lines)), affix(prefixRoot), affix(suffixRoot)
	for i := range b.filter {
		w.set(&b.filter[i])
	}
	var layers []uint32
	for _, l := range b.layers {
		layers = append(layers, l[:]...)
	}
	head[hLayers], head[hNLayers] = w.words(layers), uint32(len(b.layers))
	for i, v := range head {
		binary.NativeEndian.PutUint32(w.lines[0][4*i:], v)
	}
	return &Image{w.lines}, true
}

// header returns the seed of the hashes, the number of words in use, and the flags for hard links and for reporting executed programs.
func (b *builder) header() uint32 {
	h := b.seed<<8 | uint32((b.bit+63)/64)
	if len(b.linked) > 0 {
		h |= seedLinks
	}
	if b.execs {
		h |= seedExecs
	}
	return h
}
