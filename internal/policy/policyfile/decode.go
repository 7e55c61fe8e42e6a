package policyfile

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/policy"
)

// maxErrors is the number of errors of one file that are listed; the rest is counted.
const maxErrors = 20

// custom is a type of the format that reads itself: a union, a size, a string with a position.
type custom interface {
	decode(d *decoder, n *node)
}

// checker is a table that has rules about its keys together. Its check runs after all of them were read without an error.
type checker interface {
	check(d *decoder, n *node)
}

var (
	customType  = reflect.TypeFor[custom]()
	checkerType = reflect.TypeFor[checker]()
	placeType   = reflect.TypeFor[policy.Position]()
)

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
func (d *decoder) lineCol(n *node, keys ...string) policy.LineCol {
	for _, key := range keys {
		if e := n.get(key); e != nil {
			p := d.position(e.node.off)
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
			return quote(key)
		}
	}
	if len(key) > 60 {
		return quote(key)
	}
	return key
}

func (d *decoder) push(key string) { d.path = append(d.path, shown(key)) }
func (d *decoder) pop()            { d.path = d.path[:len(d.path)-1] }

// wrong reports a value of the wrong type.
func (d *decoder) wrong(n *node, want, hint string) {
	d.fail(n.off, hint, "%s must be %s, not %s", d.name(), want, n.describe())
}

// describe is the value as it appears in a message.
func (n *node) describe() string {
	switch n.kind {
	case aString:
		return "the string " + quote(n.text)
	case aBool:
		return fmt.Sprint(n.yes)
	case anInteger:
		return fmt.Sprintf("the number %d", n.num)
	}
	return n.kind.String()
}

// value fills v, which is addressable, from n.
func (d *decoder) value(n *node, v reflect.Value, f *field) {
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

func (d *decoder) bool(n *node, v reflect.Value) {
	if n.kind != aBool {
		hint := ""
		if n.kind == aString && (n.text == "true" || n.text == "false") {
			hint = "leave the quotes out"
		}
		d.wrong(n, "true or false", hint)
		return
	}
	v.SetBool(n.yes)
}

func (d *decoder) int(n *node, v reflect.Value, f *field) {
	switch {
	case n.kind != anInteger:
		d.wrong(n, "a number", "")
	default:
		if least, most := f.bounds(); n.num < least || n.num > most {
			d.fail(n.off, "", "%s must be a number from %d to %d, not %d", d.name(), least, most, n.num)
			return
		}
		v.SetInt(n.num)
	}
}

func (d *decoder) string(n *node, v reflect.Value, f *field) {
	if s, ok := d.text(n); ok {
		if f != nil {
			if words := f.words(); words != nil && !d.word(n.off, s, words) {
				return
			}
		}
		v.SetString(s)
	}
}

// text returns a string without NUL; an empty one is an error.
func (d *decoder) text(n *node) (string, bool) {
	switch {
	case n.kind != aString:
		d.wrong(n, "a string", "")
	case n.text == "":
		d.fail(n.off, "", "%s is empty", d.name())
	case strings.Contains(n.text, "\x00"):
		d.fail(n.off, "", "%s contains a NUL character", d.name())
	default:
		return n.text, true
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
	d.fail(off, didYouMean(s, words, ""), "%s must be %s, not %s", d.name(), choice(words), quote(s))
	return false
}

func (d *decoder) slice(n *node, v reflect.Value, f *field) {
	if n.kind != aList {
		d.wrong(n, "a list", d.listHint(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.items), len(n.items))
	for i, item := range n.items {
		d.value(item, out.Index(i), f)
	}
	v.Set(out)
}

// listHint returns how to write a list, for a value that isn't one.
func (d *decoder) listHint(n *node) string {
	switch {
	case n.kind == aString:
		return "write [" + quote(n.text) + "]"
	case n.kind == aTable && n.origin != inline:
		return "write [[" + strings.Join(d.path, ".") + "]] with two brackets"
	}
	return ""
}

func (d *decoder) mapping(n *node, v reflect.Value) {
	if n.kind != aTable {
		d.wrong(n, "a table", "")
		return
	}
	out := reflect.MakeMapWithSize(v.Type(), len(n.keys))
	for _, e := range n.keys {
		item := reflect.New(v.Type().Elem()).Elem()
		d.push(e.name)
		if e.name == "" {
			d.fail(e.off, "", "an empty name %s", d.here())
		} else {
			d.value(e.node, item, nil)
		}
		d.pop()
		out.SetMapIndex(reflect.ValueOf(e.name), item)
	}
	v.Set(out)
}

func (d *decoder) structure(n *node, v reflect.Value) {
	if n.kind != aTable {
		d.wrong(n, "a table", "")
		return
	}
	info := shapeOf(v.Type())
	before := len(d.errs) + d.more
	for i := range n.keys {
		e := &n.keys[i]
		f := info.field(e.name)
		if f == nil {
			d.unknown(e, info)
			continue
		}
		d.push(e.name)
		d.value(e.node, v.Field(f.index), f)
		if f.unenforced() && (e.node.kind != aBool || e.node.yes) {
			d.toolKeys = append(d.toolKeys, policy.Key{ID: strings.ReplaceAll(strings.Join(d.path, "."), `"`, ""), Position: d.position(e.off)})
		}
		d.pop()
	}
	for i := range info.fields {
		if f := &info.fields[i]; f.required && n.get(f.name) == nil {
			d.fail(n.off, f.hint(), "%s is missing %s", f.name, d.here())
		}
	}
	if info.position != -1 {
		v.Field(info.position).Set(reflect.ValueOf(d.position(n.off)))
	}
	if info.checks && before == len(d.errs)+d.more {
		v.Addr().Interface().(checker).check(d, n)
	}
}

func (d *decoder) unknown(e *entry, info *shape) {
	d.fail(e.off, didYouMean(e.name, info.names(), "the keys here are "), "unknown key %s %s", quote(e.name), d.here())
}

// decode fills the format's struct that into points to.
func (d *decoder) decode(n *node, into any) {
	d.value(n, reflect.ValueOf(into).Elem(), nil)
}
