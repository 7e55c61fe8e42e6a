package loader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// The image's geometry: bpf/lib/image.h says what each piece is.
const (
	lineSize  = 64
	maxWords  = 8
	maxTables = 32
	maxLayers = 10
	maxProbes = 4
	magic     = 0x74673036
	maxRules  = 1 << 18
	maxLinked = 64
	maxName   = 255
	maxLines  = 131072 // of the images of all sessions (bpf/lib/lookup.h)

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
)

// Node flags.
const nodeBeneath = 1

// What marks files in the header, and their edges.
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

// Sentinels of what can't be made into an image.
var (
	errPatterns = errors.New("the patterns have more components after their \"**\" than the kernel's matcher follows (512 in all): use fewer patterns")
	errLayers   = errors.New("the policy has more layers, with those of the sessions around it, than the kernel's matcher follows (10): nest fewer")
	errLines    = fmt.Errorf("the policy takes more of the kernel's matcher than there is (%d lines): name folders instead of the files in them", maxLines)
	errRules    = errors.New("there are more rules than the kernel's matcher counts (262144): name folders instead of the files in them")
	errLinked   = errors.New("more rules name one file, by its hard links, than the kernel's matcher follows (64): name the file once")
	errBuckets  = errors.New("no hash was found that spreads the names of files: change one of them in the rules")
)

// Line is one line of an image.
type line [lineSize]byte

// Image is a compiled policy's fs rules in the form that the kernel follows (bpf/lib/match.h): a map's elements in order.
type Image struct{ lines []line }

// Lines is how many elements the image's map has, of 64 bytes each.
func (i *Image) Lines() int { return len(i.lines) }

// NewImage makes the image of a policy. generation tells one image of a session from the next, in its events.
func NewImage(c *policy.Compiled, generation uint32) (*Image, error) {
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
		if len(b.nodes)/4+len(b.texts) > maxLines {
			return nil, errLines
		}
		if img, ok := b.finish(generation); ok {
			return img, nil
		}
	}
	return nil, errBuckets
}

type bitset [maxWords]uint64

func (s *bitset) set(bit int)      { s[bit/64] |= 1 << (bit % 64) }
func (s *bitset) has(bit int) bool { return s[bit/64]>>(bit%64)&1 != 0 }

func (s *bitset) add(t *bitset) {
	for i := range s {
		s[i] |= t[i]
	}
}

// trieNode is a node of the trie of paths that rules name.
type trieNode struct {
	parent   uint32
	hits     []uint32
	starts   *bitset
	beneath  bool
	commands []command
	names    *[]uint32 // the other names from here on; nil: as above
}

// says is whether there is anything to be done where the walk comes to a node.
func (n *trieNode) says() uint32 {
	if len(n.hits) > 0 || n.starts != nil || n.names != nil {
		return 1
	}
	return 0
}

// pattern is where a pattern begins, and its bits.
type pattern struct {
	base       string
	first, end int
}

// command is what one layer says about executing the program at a node.
type command struct {
	layer, rule uint32
	args        [][]string // nil: any
	called      []string
}

type edge struct{ from, label uint32 }

type builder struct {
	seed     uint32
	names    map[string]uint32 // to their place in texts
	texts    []string
	sets     map[string]*bitset // of names
	nodes    []trieNode
	edges    map[edge]uint32
	bitHits  []uint32
	patterns []pattern
	finals   bitset
	bit      int
	affixes  []*bitset // by affix node: the patterns whose affix ends there
	affixed  map[edge]uint32
	filter   [1 + 64/maxWords]bitset // bpf/lib/image.h: of the names that patterns know
	layers   [][4]uint32
	tables   uint32
	taking   map[string]uint32 // the tables of protect and secrets, which many layers have in common, by what is in them
	others   []otherName
	linked   map[uint64][][4]uint32 // by the inode's number
	execs    bool                   // what is executed is told
}

// The roots of the two tries of affixes.
const prefixRoot, suffixRoot = 0, 1

func newBuilder(seed uint32) *builder {
	return &builder{
		seed: seed, names: map[string]uint32{}, sets: map[string]*bitset{}, nodes: make([]trieNode, 1),
		edges: map[edge]uint32{}, affixes: make([]*bitset, 2), affixed: map[edge]uint32{},
		linked: map[uint64][][4]uint32{}, taking: map[string]uint32{},
	}
}

func (b *builder) add(c *policy.Compiled) error {
	b.execs = c.Audit.Exec
	for i, l := range c.Layers {
		fs, err := b.table(l.FS, true)
		if err != nil {
			return err
		}
		protect, err := b.takes(l.Protect)
		if err != nil {
			return err
		}
		secrets, err := b.takes(l.Secrets)
		if err != nil {
			return err
		}
		if l.Authority == policy.Builtin {
			b.hide(l.FS, fs-1)
		}
		b.layers = append(b.layers, [4]uint32{fs, protect | secrets<<8, uint32(l.Stance[policy.FS]), uint32(l.Stance[policy.Commands])})
		if err := b.commands(uint32(i), l.Commands); err != nil {
			return err
		}
	}
	if err := b.links(c); err != nil {
		return err
	}
	return b.otherNames(c.Aliases)
}

// links adds what rules say of files whatever their names are.
func (b *builder) links(c *policy.Compiled) error {
	for _, k := range c.Links {
		hit := uint32(k.Rule) | uint32(c.Rules[k.Rule].FS.Caps)<<18
		n := k.File.Inode
		if b.linked[n] = append(b.linked[n], [4]uint32{k.Dev, uint32(k.Layer), hit}); len(b.linked[n]) > maxLinked {
			return fmt.Errorf("%s: %w", c.Rules[k.Rule].ID, errLinked)
		}
	}
	return nil
}

// hide takes everything away from the hidden folders, in toolguard's own table: no session may hold up others by a lock on their
// files, and each proves itself by what it can't open.
func (b *builder) hide(t *policy.FSTable, table uint32) {
	for _, p := range hidden {
		if r := t.Deciding(p); r != nil {
			n := b.path(p)
			b.nodes[n].hits = replaceHit(b.nodes[n].hits, uint32(r.Index)|table<<24)
		}
	}
}

// commands adds what a layer says about programs. Their nodes are no rules about files: nothing lies "beneath" for them.
func (b *builder) commands(layer uint32, t *policy.CommandTable) error {
	for _, r := range t.Rules() {
		program := r.Command.Program
		if of := t.Of(program); len(of) == 0 || of[0] != r { // all of a program's are said at the first of them
			continue
		}
		n := b.path(program)
		for _, r := range t.Of(program) {
			c := command{layer: layer, rule: uint32(r.Index)}
			if !r.Command.AnyArgs() {
				c.args, c.called = append([][]string{}, r.Command.Args...), r.Command.Called()
				if err := followable(c.args); err != nil {
					return fmt.Errorf("%s: %w", r.ID, err)
				}
			}
			if len(b.nodes[n].commands) >= maxCommands {
				return fmt.Errorf("%s: %s has more than %d rules; the kernel's matcher looks at no more", r.ID, program, maxCommands)
			}
			b.nodes[n].commands = append(b.nodes[n].commands, c)
		}
	}
	return nil
}

// followable says whether the kernel can compare arguments with these.
func followable(args [][]string) error {
	if len(args) >= maxAlternatives {
		return fmt.Errorf("args has %d alternatives; the kernel's matcher follows at most %d", len(args), maxAlternatives-1)
	}
	for _, a := range args {
		if text, _, _ := argsText(a); len(text) > maxArgs {
			return fmt.Errorf("an alternative of args is %d bytes long; the kernel's matcher follows at most %d", len(text), maxArgs)
		}
	}
	return nil
}

// argsText is arguments as they lie in a process's memory, how many they are, and whether others may follow.
func argsText(args []string) (text string, n uint32, rest bool) {
	if k := len(args) - 1; k >= 0 && args[k] == policy.ArgsRest {
		args, rest = args[:k], true
	}
	var b strings.Builder
	for _, a := range args {
		b.WriteString(a)
		b.WriteByte(0)
	}
	return b.String(), uint32(len(args)), rest
}

// takes adds the rules of protect, or of secrets, as table does: the same ones once for all layers, of which the first is named in a denial.
func (b *builder) takes(t *policy.FSTable) (uint32, error) {
	var key strings.Builder
	for _, r := range t.Rules() {
		for _, s := range append([]string{r.FS.Path, r.FS.Last, string(rune(r.FS.Caps))}, r.FS.Names...) {
			key.WriteString(s)
			key.WriteByte(0) // which is in no name
		}
		key.WriteByte(0)
	}
	if n, ok := b.taking[key.String()]; ok {
		return n, nil
	}
	n, err := b.table(t, false)
	b.taking[key.String()] = n
	return n, err
}

// table adds the rules of a table and returns its number plus one, or 0 when there is none. In what takes away none of them only adds.
func (b *builder) table(t *policy.FSTable, adds bool) (uint32, error) {
	if t == nil {
		return 0, nil
	}
	if b.tables == maxTables {
		return 0, fmt.Errorf("the policy has more than %d tables of rules: nest fewer", maxTables)
	}
	for _, r := range t.Rules() {
		hit := uint32(r.Index) | uint32(r.FS.Caps)<<18 | b.tables<<24
		if r.FS.Unprotect {
			hit |= 1 << 23
		}
		if r.FS.Secret {
			hit |= hitSecret
		}
		if adds && r.Grants() {
			hit |= hitGrants
		}
		if err := b.rule(r.FS, hit); err != nil {
			return 0, fmt.Errorf("%s: %w", r.ID, err)
		}
	}
	b.tables++
	return b.tables, nil
}

func (b *builder) rule(fs *policy.CompiledFS, hit uint32) error {
	n := b.path(fs.Path)
	b.hold(n)
	if fs.Last == "" {
		b.nodes[n].hits = replaceHit(b.nodes[n].hits, hit)
		return nil
	}
	if b.bit+1+len(fs.Names) > maxWords*64 {
		return errPatterns
	}
	if b.nodes[n].starts == nil {
		b.nodes[n].starts = &bitset{}
	}
	b.patterns = append(b.patterns, pattern{fs.Path, b.bit, b.bit + 1 + len(fs.Names)})
	b.nodes[n].starts.set(b.bit)
	b.last(fs.Last).set(b.bit)
	for _, name := range fs.Names {
		b.bitHits = append(b.bitHits, 0)
		b.bit++
		b.nameSet(name).set(b.bit)
	}
	b.bitHits = append(b.bitHits, hit)
	b.finals.set(b.bit)
	b.bit++
	return nil
}

// hold has every path above a node know that it isn't to be moved.
func (b *builder) hold(n uint32) {
	for n != 0 {
		n = b.nodes[n].parent
		b.nodes[n].beneath = true
	}
}

// replaceHit adds a hit of a later rule: of one table only the last counts, but the last that doesn't just grant does for other
// names.
func replaceHit(hits []uint32, hit uint32) []uint32 {
	hits = slices.DeleteFunc(hits, func(h uint32) bool {
		return h>>24&(maxTables-1) == hit>>24&(maxTables-1) && (h&hitGrants != 0 || hit&hitGrants == 0)
	})
	return append(hits, hit)
}

// path is the node of a clean absolute path.
func (b *builder) path(p string) uint32 {
	at := uint32(0)
	if p == "/" {
		return at
	}
	for name := range strings.SplitSeq(p[1:], "/") {
		e := edge{at, b.name(name)}
		next, ok := b.edges[e]
		if !ok {
			next = uint32(len(b.nodes))
			b.nodes = append(b.nodes, trieNode{parent: at})
			b.edges[e] = next
		}
		at = next
	}
	return at
}

func (b *builder) name(s string) uint32 {
	id, ok := b.names[s]
	if !ok {
		id = uint32(len(b.texts))
		b.names[s] = id
		b.texts = append(b.texts, s)
	}
	return id
}

func (b *builder) nameSet(s string) *bitset {
	b.name(s)
	if b.sets[s] == nil {
		b.sets[s] = &bitset{}
		f := fold(s[0])
		b.filter[0][filterNames] |= 1 << f
		b.filter[1+f/8][f%8] |= 1 << fold(s[len(s)-1])
	}
	return b.sets[s]
}

// fold is a byte's bit in the filter: capitals have those of small letters.
func fold(c byte) int { return int(c&31 | c>>1&32) }

// last is the set of the patterns whose LAST this is.
func (b *builder) last(last string) *bitset {
	if p, ok := strings.CutSuffix(last, "*"); ok {
		return b.affix(prefixRoot, []byte(p))
	}
	if s, ok := strings.CutPrefix(last, "*"); ok {
		back := make([]byte, 0, len(s))
		for i := len(s) - 1; i >= 0; i-- {
			back = append(back, s[i])
		}
		return b.affix(suffixRoot, back)
	}
	return b.nameSet(last)
}

func (b *builder) affix(root uint32, text []byte) *bitset {
	b.filter[0][filterPrefix+int(root)] |= 1 << fold(text[0])
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

// writer lays lines out.
type writer struct{ lines []line }

// words adds 32-bit words from the beginning of a line and returns its number.
func (w *writer) words(words []uint32) uint32 {
	at := uint32(len(w.lines))
	for len(words) > 0 {
		var l line
		n := min(len(words), lineSize/4)
		for i, v := range words[:n] {
			binary.NativeEndian.PutUint32(l[4*i:], v)
		}
		w.lines = append(w.lines, l)
		words = words[n:]
	}
	return at
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

// commands lays out a program's record (bpf/lib/image.h).
func (w *writer) commands(commands []command) uint32 {
	if len(commands) == 0 {
		return 0
	}
	record := make([]uint32, lineSize/4)
	record[0] = uint32(len(commands))
	for _, c := range commands {
		record = append(record, c.layer, c.rule, w.args(c), 0)
	}
	return w.words(record)
}

func (w *writer) args(c command) uint32 {
	if c.args == nil {
		return 0
	}
	names := []uint32{0}
	for _, name := range c.called {
		if len(name) <= maxName { // no file is called anything longer
			names[0]++
			names = append(names, uint32(len(name)+1), w.text(name+"\x00"))
		}
	}
	list := []uint32{uint32(len(c.args)), w.words(names)}
	for _, a := range c.args {
		text, n, rest := argsText(a)
		alternative := []uint32{n, 0, uint32(len(text)), w.text(text)}
		if rest {
			alternative[1] = 1
		}
		list = append(list, w.words(alternative))
	}
	return w.words(list)
}

// links lays out what rules say of one file.
func (w *writer) links(rules [][4]uint32) uint32 {
	record := make([]uint32, lineSize/4)
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

// finish lays the image out; ok is false when the seed doesn't spread the names, or what is found by them. From seed to seed it has more
// room: the tables are half empty at first, and it's 4 times as much in the end.
func (b *builder) finish(generation uint32) (*Image, bool) {
	w := &writer{lines: make([]line, 1)}
	text, hash := make([]uint32, len(b.texts)), make([]uint32, len(b.texts))
	roomy := min(b.seed/2, 2)
	names := newBuckets(len(b.sets), roomy)
	for i, s := range b.texts {
		text[i], hash[i] = w.text(s), hashName(s, b.header())
		set := w.set(b.sets[s])
		if set != 0 && !names.add(hash[i], [4]uint32{hash[i], uint32(len(s)), text[i], set}) {
			return nil, false
		}
	}
	edges := newBuckets(len(b.edges)+len(b.affixed)+len(b.linked), roomy)
	affix := func(n uint32) uint32 { return uint32(len(b.nodes)) + n }
	for e, to := range b.edges {
		what := b.nodes[to].says() | uint32(min(len(b.texts[e.label]), maxName+1))<<1 | text[e.label]<<15
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

// header is the seed of the hashes, the number of words in use, whether there are files to be held, and whether what is executed is told.
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

func (b *builder) layNodes(w *writer, head *[16]uint32) {
	names := w.otherNames(b.others)
	var nodes, hits []uint32
	for _, n := range b.nodes {
		flags := uint32(0)
		if n.beneath {
			flags |= nodeBeneath
		}
		flags |= w.commands(n.commands) << 8
		nodes = append(nodes, uint32(len(hits)), uint32(len(n.hits))|w.list(n.names, names)<<8, w.set(n.starts), flags)
		hits = append(hits, n.hits...)
	}
	head[hNodes], head[hHits] = w.words(nodes), w.words(hits)
}

// buckets is a hash table of lines with four entries each.
type buckets struct{ lines [][][4]uint32 }

// newBuckets are for n entries, with as many doublings of what they would be.
func newBuckets(n int, roomy uint32) *buckets {
	return &buckets{make([][][4]uint32, 1<<(bits.Len(uint(n)/2)+int(roomy)))}
}

func (b *buckets) mask() uint32 { return uint32(len(b.lines) - 1) }

// add fails when there is no room within reach, or when what find compares isn't unique.
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

// Multipliers of hashes: fractions of the golden ratio and of the root of two, whose multiples lie evenly.
const (
	golden = 0x9E3779B97F4A7C15
	root2  = 0x6A09E667F3BCC909
)

// hashName is read_name's.
func hashName(s string, header uint32) uint32 {
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
