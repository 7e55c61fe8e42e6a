package tomltree

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
	MaxSize    = 1 << 20 // bytes
	maxNesting = 24      // brackets within brackets
	maxDots    = 24      // parts of a dotted key
)

// kind is the type of a value.
type kind uint8

const (
	Table kind = iota
	Array
	String
	Bool
	Integer
	Float
	Date
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
	Inline                 // written as a value
)

// Node is a value of the file with its position.
type Node struct {
	Kind   kind
	Origin origin
	Off    int // of the value, or of the header or key that made the table
	Text   string
	Int    int64
	Bool   bool
	Items  []*Node // of a list
	Keys   []Entry // of a table, in file order
	index  map[string]int
}

// Entry is one key of a table.
type Entry struct {
	Name string
	Off  int
	Node *Node
}

// Get finds a key of a table.
func (n *Node) Get(name string) *Entry {
	if n.index != nil {
		if i, ok := n.index[name]; ok {
			return &n.Keys[i]
		}
		return nil
	}
	for i := range n.Keys {
		if n.Keys[i].Name == name {
			return &n.Keys[i]
		}
	}
	return nil
}

// Add appends a key that isn't there yet. Large tables get an index, so that hostile ones don't cost quadratic time.
func (n *Node) Add(name string, off int, child *Node) *Node {
	n.Keys = append(n.Keys, Entry{name, off, child})
	switch {
	case n.index != nil:
		n.index[name] = len(n.Keys) - 1
	case len(n.Keys) > 24:
		n.index = make(map[string]int, 2*len(n.Keys))
		for i, e := range n.Keys {
			n.index[e.Name] = i
		}
	}
	return child
}

// syntaxError is a mistake in the TOML itself.
type syntaxError struct {
	Off       int
	Msg, Hint string
}

func (e *syntaxError) Error() string { return e.Msg }

func syntax(off int, format string, args ...any) *syntaxError {
	return &syntaxError{Off: off, Msg: fmt.Sprintf(format, args...)}
}

// Parse reads a whole file into a tree. It checks what TOML demands of tables and keys itself, because the parser's AST
// doesn't, and because an error is of use only with the position of both definitions.
func Parse(src []byte) (root *Node, err *syntaxError) {
	if err := plausible(src); err != nil {
		return nil, err
	}
	b := builder{src: src, root: &Node{}}
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
	if len(src) > MaxSize {
		return &syntaxError{0, fmt.Sprintf("the file is larger than %d KiB", MaxSize>>10), "is it really a policy?"}
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
	root  *Node
	table *Node // the one that the last header opened
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
		b.table.Off = bytes.LastIndexByte(b.src[:parts[0].off], '\n') + 1
	}
	return err
}

// descend goes one part down, making the table if need be. Headers pass through anything but values; dotted keys only
// through what dotted keys of the same table made.
func descend(t *Node, p part, how origin) (*Node, *syntaxError) {
	e := t.Get(p.name)
	if e == nil {
		return t.Add(p.name, p.off, &Node{Origin: how, Off: p.off}), nil
	}
	n := e.Node
	if n.Kind == Array && n.Origin == byHeader && how == implied {
		n = n.Items[len(n.Items)-1]
	}
	if n.Kind != Table || n.Origin == Inline || how == byDots && n.Origin != byDots {
		return nil, syntax(p.off, "key %s is already defined as %s", Quote(p.name), n.Kind)
	}
	return n, nil
}

func openTable(parent *Node, p part) (*Node, *syntaxError) {
	e := parent.Get(p.name)
	if e == nil {
		return parent.Add(p.name, p.off, &Node{Origin: byHeader, Off: p.off}), nil
	}
	if e.Node.Kind != Table || e.Node.Origin != implied {
		return nil, &syntaxError{p.off, fmt.Sprintf("table %s is defined twice", Quote(p.name)), ""}
	}
	e.Node.Origin, e.Off = byHeader, p.off
	return e.Node, nil
}

func openItem(parent *Node, p part) (*Node, *syntaxError) {
	e := parent.Get(p.name)
	if e == nil {
		parent.Add(p.name, p.off, &Node{Kind: Array, Origin: byHeader, Off: p.off})
		e = parent.Get(p.name)
	}
	if e.Node.Kind != Array || e.Node.Origin != byHeader {
		return nil, syntax(p.off, "key %s is already defined as %s, so it can't be a list of tables too",
			Quote(p.name), e.Node.Kind)
	}
	item := &Node{Origin: byHeader, Off: p.off}
	e.Node.Items = append(e.Node.Items, item)
	return item, nil
}

func (b *builder) keyValue(t *Node, n *unstable.Node) *syntaxError {
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
	if t.Get(last.name) != nil {
		return syntax(last.off, "key %s is given twice", Quote(last.name))
	}
	v, err := b.value(n.Value(), last.off)
	if err != nil {
		return err
	}
	t.Add(last.name, last.off, v)
	return nil
}

// value converts a value; at is where to point when the parser doesn't say where the value begins.
func (b *builder) value(n *unstable.Node, at int) (*Node, *syntaxError) {
	v := &Node{Off: at, Origin: Inline}
	if n.Raw.Length > 0 {
		v.Off = int(n.Raw.Offset)
	}
	var err *syntaxError
	switch n.Kind {
	case unstable.String:
		v.Kind, v.Text = String, string(n.Data)
	case unstable.Bool:
		v.Kind, v.Bool, v.Off = Bool, n.Data[0] == 't', int(b.p.Range(n.Data).Offset)
	case unstable.Integer:
		v.Kind = Integer
		v.Int, err = integer(string(n.Data), v.Off)
	case unstable.Float:
		v.Kind, v.Text = Float, string(n.Data)
	case unstable.Array:
		v.Kind = Array
		err = b.list(v, n)
	case unstable.InlineTable:
		it := n.Children()
		for it.Next() && err == nil {
			err = b.keyValue(v, it.Node())
		}
	default:
		v.Kind, v.Text, v.Off = Date, string(n.Data), int(b.p.Range(n.Data).Offset)
		// The parser lets a malformed time with a blank run over the end of its line. No key takes a date, so this much
		// of its form has to be checked and no more.
		if i := strings.IndexByte(v.Text, ' '); i != -1 && (i != len("2006-01-02") || len(v.Text) < len("2006-01-02 15:04:05")) ||
			strings.ContainsAny(v.Text, "\r\n") {
			err = syntax(v.Off, "%s isn't a date", Quote(v.Text))
		}
	}
	return v, err
}

func (b *builder) list(v *Node, n *unstable.Node) *syntaxError {
	it := n.Children()
	for it.Next() {
		item, err := b.value(it.Node(), v.Off)
		if err != nil {
			return err
		}
		v.Items = append(v.Items, item)
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
		return 0, syntax(off, "%s isn't a number", Quote(s))
	}
	n, err := strconv.ParseInt(sign+strings.ReplaceAll(body, "_", ""), base, 64)
	if err != nil {
		return 0, syntax(off, "number %s is out of range", s)
	}
	return n, nil
}

// Quote makes a name safe for a message: hostile names contain control characters, and may be long.
func Quote(s string) string {
	const longest = 60
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "…"
	}
	return strconv.Quote(s)
}

// Describe is the value as it appears in a message.
func (n *Node) Describe() string {
	switch n.Kind {
	case String:
		return "the string " + Quote(n.Text)
	case Bool:
		return fmt.Sprint(n.Bool)
	case Integer:
		return fmt.Sprintf("the number %d", n.Int)
	}
	return n.Kind.String()
}
