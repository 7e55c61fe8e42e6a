package policyfile

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/nearest"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

// maxErrors is the number of errors of one file that are listed; the rest is counted.
const maxErrors = 20

// custom is a type of the format that reads itself: a union, a size, a string with a position.
type custom interface {
	decode(d *decoder, n *tomltree.Node)
}

// checker is a table that has rules about its keys together. Its check runs after all of them were read without an error.
type checker interface {
	check(d *decoder, n *tomltree.Node)
}

var (
	customType   = reflect.TypeFor[custom]()
	checkerType  = reflect.TypeFor[checker]()
	positionType = reflect.TypeFor[policy.Position]()
	lineColsType = reflect.TypeFor[lineCols]()
)

// lineCols are where the values of a table's keys begin.
type lineCols map[string]policy.LineCol

// decoder fills the format's structs from the tree of one file.
type decoder struct {
	file  string
	src   []byte
	lines []int    // offsets at which lines begin
	path  []string // the keys above the current value, for messages
	errs  policy.Errors
	more  int // mistakes beyond maxErrors

	toolKeys []policy.Key // keys of the tool layer, which isn't enforced
}

func newDecoder(file string, src []byte) *decoder {
	d := &decoder{file: file, src: src, lines: make([]int, 1, 64)}
	for i, c := range src {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	return d
}

// position converts an offset. Columns count characters, as editors do.
func (d *decoder) position(off int) policy.Position {
	off = min(off, len(d.src))
	line := sort.SearchInts(d.lines, off+1) - 1
	return policy.Position{File: d.file, Line: line + 1, Col: utf8.RuneCount(d.src[d.lines[line]:off]) + 1}
}

// lineCol returns the position of the value of the first of keys that a table has.
func (d *decoder) lineCol(n *tomltree.Node, keys ...string) policy.LineCol {
	for _, key := range keys {
		if e := n.Get(key); e != nil {
			p := d.position(e.Node.Off)
			return policy.LineCol{Line: int32(p.Line), Col: int32(p.Col)}
		}
	}
	return policy.LineCol{}
}

func (d *decoder) fail(off int, hint, format string, args ...any) {
	d.failAt(d.position(off), hint, format, args...)
}

func (d *decoder) failAt(at policy.Position, hint, format string, args ...any) {
	if len(d.errs) == maxErrors {
		d.more++
		return
	}
	d.errs = append(d.errs, &policy.Error{Position: at, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// mistakes returns the errors in file order, with a last one that counts those left out.
func (d *decoder) mistakes() policy.Errors {
	sort.SliceStable(d.errs, func(i, j int) bool {
		a, b := d.errs[i].Position, d.errs[j].Position
		return a.Line < b.Line || a.Line == b.Line && a.Col < b.Col
	})
	if d.more > 0 {
		last := d.errs[len(d.errs)-1].Position
		return append(d.errs, &policy.Error{Position: last, Msg: fmt.Sprintf("and %d more mistakes", d.more)})
	}
	return d.errs
}

// here names the current table for messages.
func (d *decoder) here() string {
	if len(d.path) == 0 {
		return "at the top level"
	}
	return "in [" + strings.Join(d.path, ".") + "]"
}

// name is the key of the current value.
func (d *decoder) name() string {
	if len(d.path) == 0 {
		return "the file"
	}
	return shown(d.path[len(d.path)-1])
}

// shown quotes a key where TOML would have to.
func shown(key string) string {
	for _, c := range key {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return tomltree.Quote(key)
		}
	}
	if len(key) > 60 {
		return tomltree.Quote(key)
	}
	return key
}

func (d *decoder) push(key string) { d.path = append(d.path, shown(key)) }
func (d *decoder) pop()            { d.path = d.path[:len(d.path)-1] }

// wrong reports a value of the wrong type.
func (d *decoder) wrong(n *tomltree.Node, want, hint string) {
	d.fail(n.Off, hint, "%s must be %s, not %s", d.name(), want, n.Describe())
}

// value fills v, which is addressable, from n.
func (d *decoder) value(n *tomltree.Node, v reflect.Value, f *field) {
	if v.Addr().Type().Implements(customType) {
		v.Addr().Interface().(custom).decode(d, n)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), f)
	case reflect.Bool:
		d.bool(n, v)
	case reflect.Int:
		d.int(n, v, f)
	case reflect.String:
		d.string(n, v, f)
	case reflect.Slice:
		d.slice(n, v, f)
	case reflect.Map:
		d.mapping(n, v)
	case reflect.Struct:
		d.structure(n, v)
	default:
		panic("policyfile: a field of type " + v.Type().String())
	}
}

func (d *decoder) bool(n *tomltree.Node, v reflect.Value) {
	if n.Kind != tomltree.Bool {
		hint := ""
		if n.Kind == tomltree.String && (n.Text == "true" || n.Text == "false") {
			hint = "leave the quotes out"
		}
		d.wrong(n, "true or false", hint)
		return
	}
	v.SetBool(n.Bool)
}

func (d *decoder) int(n *tomltree.Node, v reflect.Value, f *field) {
	switch {
	case n.Kind != tomltree.Integer:
		d.wrong(n, "a number", "")
	default:
		if least, most := f.bounds(); n.Int < least || n.Int > most {
			d.fail(n.Off, "", "%s must be a number from %d to %d, not %d", d.name(), least, most, n.Int)
			return
		}
		v.SetInt(n.Int)
	}
}

func (d *decoder) string(n *tomltree.Node, v reflect.Value, f *field) {
	if s, ok := d.text(n); ok {
		if f != nil {
			if words := f.words(); len(words) > 0 && !d.word(n.Off, s, words) {
				return
			}
		}
		v.SetString(s)
	}
}

// text returns a string without NUL; an empty one is an error.
func (d *decoder) text(n *tomltree.Node) (string, bool) {
	switch {
	case n.Kind != tomltree.String:
		d.wrong(n, "a string", "")
	case n.Text == "":
		d.fail(n.Off, "", "%s is empty", d.name())
	case strings.Contains(n.Text, "\x00"):
		d.fail(n.Off, "", "%s contains a NUL character", d.name())
	default:
		return n.Text, true
	}
	return "", false
}

// word reports whether s is one of words, and adds an error otherwise.
func (d *decoder) word(off int, s string, words []string) bool {
	for _, w := range words {
		if s == w {
			return true
		}
	}
	d.fail(off, nearest.Hint(s, words, ""), "%s must be %s, not %s", d.name(), nearest.Choice(words), tomltree.Quote(s))
	return false
}

func (d *decoder) slice(n *tomltree.Node, v reflect.Value, f *field) {
	if n.Kind != tomltree.Array {
		d.wrong(n, "a list", d.listHint(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Items), len(n.Items))
	for i, item := range n.Items {
		d.value(item, out.Index(i), f)
	}
	v.Set(out)
}

// listHint returns how to write a list, for a value that isn't one.
func (d *decoder) listHint(n *tomltree.Node) string {
	switch {
	case n.Kind == tomltree.String:
		return "write [" + tomltree.Quote(n.Text) + "]"
	case n.Kind == tomltree.Table && n.Origin != tomltree.Inline:
		return "write [[" + strings.Join(d.path, ".") + "]] with two brackets"
	}
	return ""
}

func (d *decoder) mapping(n *tomltree.Node, v reflect.Value) {
	if n.Kind != tomltree.Table {
		d.wrong(n, "a table", "")
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(n.Keys))
	for _, e := range n.Keys {
		item := reflect.New(v.Type().Elem()).Elem()
		d.push(e.Name)
		if e.Name == "" {
			d.fail(e.Off, "", "an empty name %s", d.here())
		} else {
			d.value(e.Node, item, nil)
		}
		d.pop()
		out.SetMapIndex(reflect.ValueOf(e.Name), item)
	}
	v.Set(out)
}

func (d *decoder) structure(n *tomltree.Node, v reflect.Value) {
	if n.Kind != tomltree.Table {
		d.wrong(n, "a table", "")
		return
	}
	info := shapeOf(v.Type())
	before := len(d.errs) + d.more
	for i := range n.Keys {
		e := &n.Keys[i]
		f := info.field(e.Name)
		if f == nil {
			d.unknown(e, info)
			continue
		}
		d.push(e.Name)
		d.value(e.Node, v.Field(f.index), f)
		if f.unenforced() && (e.Node.Kind != tomltree.Bool || e.Node.Bool) {
			d.toolKeys = append(d.toolKeys, policy.Key{ID: strings.ReplaceAll(strings.Join(d.path, "."), `"`, ""), Position: d.position(e.Off)})
		}
		d.pop()
	}
	for i := range info.fields {
		if f := &info.fields[i]; f.required && n.Get(f.name) == nil {
			d.fail(n.Off, f.hint(), "%s is missing %s", f.name, d.here())
		}
	}
	if info.lineCols != -1 {
		at := make(lineCols, len(n.Keys))
		for i := range n.Keys {
			at[n.Keys[i].Name] = d.lineCol(n, n.Keys[i].Name)
		}
		v.Field(info.lineCols).Set(reflect.ValueOf(at))
	}
	if info.position != -1 {
		v.Field(info.position).Set(reflect.ValueOf(d.position(n.Off)))
	}
	if info.checks && before == len(d.errs)+d.more {
		v.Addr().Interface().(checker).check(d, n)
	}
}

func (d *decoder) unknown(e *tomltree.Entry, info *shape) {
	d.fail(e.Off, nearest.Hint(e.Name, info.names(), "the keys here are "), "unknown key %s %s", tomltree.Quote(e.Name), d.here())
}

// decode fills the format's struct that into points to.
func (d *decoder) decode(n *tomltree.Node, into any) {
	d.value(n, reflect.ValueOf(into).Elem(), nil)
}
