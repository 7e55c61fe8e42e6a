package policyfile

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
)

// field is one key of a table, from its struct tags:
//
//	key       its name in the file
//	doc       what it is, for the schema
//	words     the closed list of its values
//	range     "min max" of a number
//	required  "true"
//	like      an example, for the schema and for hints
//	enforced  "no" for a key that is only read and checked
type field struct {
	name     string
	tag      reflect.StructTag
	index    int
	required bool
	typ      reflect.Type
}

func (f *field) like() string     { return f.tag.Get("like") }
func (f *field) unenforced() bool { return f.tag.Get("enforced") == "no" }

// doc is the schema's description of a key.
func (f *field) doc() string {
	if f.unenforced() {
		return f.tag.Get("doc") + map[bool]string{true: " exec doesn't enforce it, and doesn't start unless --allow-degraded names the key.", false: " It's about the calls that a host submits."}[f.name == "enter"]
	}
	return f.tag.Get("doc")
}

// words is the closed list; empty for any text.
func (f *field) words() []string { return strings.Fields(f.tag.Get("words")) }

// bounds returns the least and the greatest value of a number.
func (f *field) bounds() (least, most int64) {
	most = 1<<63 - 1
	if r := f.tag.Get("range"); r != "" {
		if _, err := fmt.Sscan(r, &least, &most); err != nil {
			panic("policyfile: bad range of " + f.name)
		}
	}
	return least, most
}

func (f *field) hint() string {
	if f.like() == "" {
		return ""
	}
	return "for example " + f.name + " = " + f.like()
}

// shape describes a struct for the decoder and the schema.
type shape struct {
	fields   []field
	position int // index of the field for the table's position, or -1
	lineCols int // index of the field that takes where the keys are, or -1
	checks   bool
}

func (s *shape) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

func (s *shape) names() []string {
	names := make([]string, len(s.fields))
	for i := range s.fields {
		names[i] = s.fields[i].name
	}
	return names
}

var shapes sync.Map // of reflect.Type to *shape

func shapeOf(t reflect.Type) *shape {
	if s, ok := shapes.Load(t); ok {
		return s.(*shape)
	}
	s := &shape{position: -1, lineCols: -1, checks: reflect.PointerTo(t).Implements(checkerType)}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == positionType {
			s.position = i
		} else if f.Type == lineColsType {
			s.lineCols = i
		}
		if name := f.Tag.Get("key"); name != "" {
			s.fields = append(s.fields, field{name, f.Tag, i, f.Tag.Get("required") == "true", f.Type})
		}
	}
	shapes.Store(t, s)
	return s
}
