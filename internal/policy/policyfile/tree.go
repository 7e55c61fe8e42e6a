package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Limits of one file. They are far above any real policy and far below what could do harm.
const (
	maxFile    = 1 << 20 // bytes
	maxNesting = 24      // brackets within brackets
	maxDots    = 24      // parts of a dotted key
)

// kind is the type of a value.
type kind uint8

const (
	aTable kind = iota
	aList
	aString
	aBool
	anInteger
	aFloat
	aDate
)

func (k kind) String() string {
	return [...]string{"a table", "a list", "a string", "true or false", "a number", "a fraction", "a date"}[k]
}

// origin is how a table or list came to be; TOML lets only some of them be extended later in the file.
type origin uint8

const (
	byHeader origin = iota // [a.b], or [[a.b]] for a list
	implied                // the a of [a.b]
	byDots                 // the a of a.b = 1
	inline                 // written as a value
)

// node is a value of the file with its position.
type node struct {
	kind   kind
	origin origin
	off    int // of the value, or of the header or key that made the table
	text   string
	num    int64
	yes    bool
	items  []*node // of a list
	keys   []entry // of a table, in file order
	index  map[string]int
}

// entry is one key of a table.
type entry struct {
	name string
	off  int
	node *node
}

// get finds a key of a table.
func (n *node) get(name string) *entry {
	if n.index != nil {
		if i, ok := n.index[name]; ok {
			return &n.keys[i]
		}
		return nil
	}
	for i := range n.keys {
		if n.keys[i].name == name {
			return &n.keys[i]
		}
	}
	return nil
}

// add appends a key that isn't there yet. Large tables get an index, so that hostile ones don't cost quadratic time.
func (n *node) add(name string, off int, child *node) *node {
	n.keys = append(n.keys, entry{name, off, child})
	switch {
	case n.index != nil:
		n.index[name] = len(n.keys) - 1
	case len(n.keys) > 24:
		n.index = make(map[string]int, 2*len(n.keys))
		for i, e := range n.keys {
			n.index[e.name] = i
		}
	}
	return child
}

// syntaxError is a mistake in the TOML itself.
type syntaxError struct {
	off       int
	msg, hint string
}

func (e *syntaxError) Error() string { return e.msg }

func syntax(off int, format string, args ...any) *syntaxError {
	return &syntaxError{off: off, msg: fmt.Sprintf(format, args...)}
}

// parse reads a whole file into a tree. It checks what TOML demands of tables and keys itself, because the parser's AST
// doesn't, and because an error is of use only with the position of both definitions.
func parse(src []byte) (root *node, err *syntaxError) {
	if err := plausible(src); err != nil {
		return nil, err
	}
	b := builder{src: src, root: &node{}}
	defer func() {
		// The parser is written for well-meant input; if it panics on hostile bytes, they are rejected too.
		if r := recover(); r != nil {
			root, err = nil, syntax(b.last, "not valid TOML near here")
		}
	}()
	b.p.Reset(src)
	b.table = b.root
	for b.p.NextExpression() {
		if err := b.expression(b.p.Expression()); err != nil {
			return nil, err
		}
	}
	if err := b.p.Error(); err != nil {
		return nil, b.syntaxError(err)
	}
	return b.root, nil
}

// plausible rejects what no parser should see.
func plausible(src []byte) *syntaxError {
	if len(src) > maxFile {
		return &syntaxError{0, fmt.Sprintf("the file is larger than %d KiB", maxFile>>10), "is it really a policy?"}
	}
	if i := bytes.IndexByte(src, 0); i != -1 {
		return &syntaxError{i, "a NUL byte", "a policy is a text file"}
	}
	if bytes.HasPrefix(src, []byte("\ufeff")) {
		return &syntaxError{0, "a byte order mark", "save the file as UTF-8 without it"}
	}
	if !utf8.Valid(src) {
		return &syntaxError{invalidUTF8(src), "not UTF-8", "save the file as UTF-8"}
	}
	if i := tooDeep(src, maxNesting); i != -1 {
		return syntax(i, "brackets nested deeper than %d", maxNesting)
	}
	return nil
}

// invalidUTF8 is where src, which isn't UTF-8, stops being it.
func invalidUTF8(src []byte) int {
	for i := 0; ; {
		r, n := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
}

// builder turns the parser's expressions into the tree.
type builder struct {
	src   []byte
	p     unstable.Parser
	root  *node
	table *node // the one that the last header opened
	last  int   // offset of the last key seen
	parts []part
}

func (b *builder) syntaxError(err error) *syntaxError {
	off := b.last
	var pe *unstable.ParserError
	if errors.As(err, &pe) {
		off = int(b.p.Range(pe.Highlight).Offset)
	}
	return syntax(off, "not valid TOML: %s", err.Error())
}

// part is one part of a dotted key.
type part struct {
	name string
	off  int
}

// key is the parts of a key, until the next call.
func (b *builder) key(it unstable.Iterator) ([]part, *syntaxError) {
	parts := b.parts[:0]
	for it.Next() {
		n := it.Node()
		parts = append(parts, part{string(n.Data), int(n.Raw.Offset)})
		b.last = int(n.Raw.Offset)
		if len(parts) > maxDots {
			return nil, syntax(b.last, "a key of more than %d parts", maxDots)
		}
	}
	b.parts = parts
	return parts, nil
}

func (b *builder) expression(n *unstable.Node) *syntaxError {
	if n.Kind == unstable.KeyValue {
		return b.keyValue(b.table, n)
	}
	parts, err := b.key(n.Key())
	if err != nil {
		return err
	}
	parent := b.root
	for _, p := range parts[:len(parts)-1] {
		if parent, err = descend(parent, p, implied); err != nil {
			return err
		}
	}
	last := parts[len(parts)-1]
	if n.Kind == unstable.ArrayTable {
		b.table, err = openItem(parent, last)
	} else {
		b.table, err = openTable(parent, last)
	}
	if err == nil {
		b.table.off = bytes.LastIndexByte(b.src[:parts[0].off], '\n') + 1
	}
	return err
}

// descend goes one part down, making the table if need be. Headers pass through anything but values; dotted keys only
// through what dotted keys of the same table made.
func descend(t *node, p part, how origin) (*node, *syntaxError) {
	e := t.get(p.name)
	if e == nil {
		return t.add(p.name, p.off, &node{origin: how, off: p.off}), nil
	}
	n := e.node
	if n.kind == aList && n.origin == byHeader && how == implied {
		n = n.items[len(n.items)-1]
	}
	if n.kind != aTable || n.origin == inline || how == byDots && n.origin != byDots {
		return nil, syntax(p.off, "key %s is already defined as %s", quote(p.name), n.kind)
	}
	return n, nil
}

func openTable(parent *node, p part) (*node, *syntaxError) {
	e := parent.get(p.name)
	if e == nil {
		return parent.add(p.name, p.off, &node{origin: byHeader, off: p.off}), nil
	}
	if e.node.kind != aTable || e.node.origin != implied {
		return nil, &syntaxError{p.off, fmt.Sprintf("table %s is defined twice", quote(p.name)), ""}
	}
	e.node.origin, e.off = byHeader, p.off
	return e.node, nil
}

func openItem(parent *node, p part) (*node, *syntaxError) {
	e := parent.get(p.name)
	if e == nil {
		parent.add(p.name, p.off, &node{kind: aList, origin: byHeader, off: p.off})
		e = parent.get(p.name)
	}
	if e.node.kind != aList || e.node.origin != byHeader {
		return nil, syntax(p.off, "key %s is already defined as %s, so it can't be a list of tables too",
			quote(p.name), e.node.kind)
	}
	item := &node{origin: byHeader, off: p.off}
	e.node.items = append(e.node.items, item)
	return item, nil
}

func (b *builder) keyValue(t *node, n *unstable.Node) *syntaxError {
	parts, err := b.key(n.Key())
	if err != nil {
		return err
	}
	for _, p := range parts[:len(parts)-1] {
		if t, err = descend(t, p, byDots); err != nil {
			return err
		}
	}
	last := parts[len(parts)-1]
	if t.get(last.name) != nil {
		return syntax(last.off, "key %s is given twice", quote(last.name))
	}
	v, err := b.value(n.Value(), last.off)
	if err != nil {
		return err
	}
	t.add(last.name, last.off, v)
	return nil
}

// value converts a value; at is where to point when the parser doesn't say where the value begins.
func (b *builder) value(n *unstable.Node, at int) (*node, *syntaxError) {
	v := &node{off: at, origin: inline}
	if n.Raw.Length > 0 {
		v.off = int(n.Raw.Offset)
	}
	var err *syntaxError
	switch n.Kind {
	case unstable.String:
		v.kind, v.text = aString, string(n.Data)
	case unstable.Bool:
		v.kind, v.yes, v.off = aBool, n.Data[0] == 't', int(b.p.Range(n.Data).Offset)
	case unstable.Integer:
		v.kind = anInteger
		v.num, err = integer(string(n.Data), v.off)
	case unstable.Float:
		v.kind, v.text = aFloat, string(n.Data)
	case unstable.Array:
		v.kind = aList
		err = b.list(v, n)
	case unstable.InlineTable:
		it := n.Children()
		for it.Next() && err == nil {
			err = b.keyValue(v, it.Node())
		}
	default:
		v.kind, v.text, v.off = aDate, string(n.Data), int(b.p.Range(n.Data).Offset)
		// The parser lets a malformed time with a blank run over the end of its line. No key takes a date, so this much
		// of its form has to be checked and no more.
		if i := strings.IndexByte(v.text, ' '); i != -1 && (i != len("2006-01-02") || len(v.text) < len("2006-01-02 15:04:05")) ||
			strings.ContainsAny(v.text, "\r\n") {
			err = syntax(v.off, "%s isn't a date", quote(v.text))
		}
	}
	return v, err
}

func (b *builder) list(v *node, n *unstable.Node) *syntaxError {
	it := n.Children()
	for it.Next() {
		item, err := b.value(it.Node(), v.off)
		if err != nil {
			return err
		}
		v.items = append(v.items, item)
	}
	return nil
}

// integer reads a TOML integer: digits with single underscores between them, no leading zero, or 0x, 0o, 0b.
func integer(s string, off int) (int64, *syntaxError) {
	body, base := strings.TrimLeft(s, "+-"), 10
	if len(body) > 1 && body[0] == '0' {
		switch base = map[byte]int{'x': 16, 'o': 8, 'b': 2}[body[1]]; {
		case base == 0:
			return 0, syntax(off, "number %s begins with a zero", s)
		case len(body) < len(s):
			return 0, syntax(off, "number %s has a sign before its base", s)
		}
		body = body[2:]
	}
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign = "-"
	}
	if len(s)-len(body) > 1 && base == 10 || body == "" || body[0] == '_' || body[len(body)-1] == '_' ||
		strings.Contains(body, "__") || strings.ContainsAny(body, "+-") {
		return 0, syntax(off, "%s isn't a number", quote(s))
	}
	n, err := strconv.ParseInt(sign+strings.ReplaceAll(body, "_", ""), base, 64)
	if err != nil {
		return 0, syntax(off, "number %s is out of range", s)
	}
	return n, nil
}

// quote makes a name safe for a message: hostile names contain control characters, and may be long.
func quote(s string) string {
	const longest = 60
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return strconv.Quote(s)
}
