package schema

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolguard/toolguard/internal/tool/strictjson"
)

// The bounds of JSON texts.
const (
	maxSchema    = 256 << 10 // bytes
	maxArguments = 8 << 20
)

// value is a value of JSON.
type value struct {
	kind    jsontext.Kind // n, t, f, ", 0, {, [
	text    string        // of a string; of a number as it's written
	items   []*value
	members []member // in their order
}

type member struct {
	name  string
	value *value
}

func (v *value) get(name string) *value {
	for i := range v.members {
		if v.members[i].name == name {
			return v.members[i].value
		}
	}
	return nil
}

// parseJSON reads one value that has one meaning only.
func parseJSON(text []byte, size int) (*value, error) {
	if len(text) > size {
		return nil, fmt.Errorf("it's larger than %d KiB", size>>10)
	}
	if err := strictjson.Check(text); err != nil {
		return nil, err
	}
	return read(jsontext.NewDecoder(bytes.NewReader(text)))
}

// read reads a value of text that strictjson has checked.
func read(d *jsontext.Decoder) (*value, error) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	v := &value{kind: t.Kind()}
	switch v.kind {
	case '"', '0':
		v.text = t.String()
	case '{', '[':
		for end := v.kind + 2; d.PeekKind() != end; { // } and ] follow { and [ by two in ASCII
			var name string
			if v.kind == '{' {
				key, err := d.ReadToken()
				if err != nil {
					return nil, err
				}
				name = key.String()
			}
			item, err := read(d)
			if err != nil {
				return nil, err
			}
			if v.kind == '{' {
				v.members = append(v.members, member{name, item})
			} else {
				v.items = append(v.items, item)
			}
		}
		_, err = d.ReadToken()
	}
	return v, err
}

// describe returns what a value is, for messages.
func (v *value) describe() string {
	switch v.kind {
	case 'n':
		return "null"
	case 't':
		return "true"
	case 'f':
		return "false"
	case '"':
		if len(v.text) > 40 {
			return fmt.Sprintf("%.40q…", v.text)
		}
		return strconv.Quote(v.text)
	case '0':
		return v.text
	case '[':
		return "a list"
	default:
		return "an object"
	}
}

// is reports whether a value has a type of JSON Schema.
func (v *value) is(kind string) bool {
	switch kind {
	case "null":
		return v.kind == 'n'
	case "boolean":
		return v.kind == 't' || v.kind == 'f'
	case "string":
		return v.kind == '"'
	case "number":
		return v.kind == '0'
	case "integer":
		if v.kind != '0' {
			return false
		}
		if !strings.ContainsAny(v.text, ".eE") {
			return true
		}
		f, ok := v.float()
		return ok && f == math.Trunc(f)
	case "array":
		return v.kind == '['
	case "object":
		return v.kind == '{'
	}
	return false
}

func (v *value) float() (f float64, ok bool) {
	f, err := strconv.ParseFloat(v.text, 64)
	return f, err == nil
}

// compare orders two numbers. Integers of 64 bits are compared exactly.
func compare(a, b *value) int {
	i, errA := strconv.ParseInt(a.text, 10, 64)
	j, errB := strconv.ParseInt(b.text, 10, 64)
	if errA == nil && errB == nil {
		switch {
		case i < j:
			return -1
		case i > j:
			return 1
		}
		return 0
	}
	f, _ := a.float() // beyond the range it's infinite, with the right sign
	g, _ := b.float()
	switch {
	case f < g:
		return -1
	case f > g:
		return 1
	}
	return 0
}

func equal(a, b *value) bool {
	if a.kind != b.kind || len(a.items) != len(b.items) || len(a.members) != len(b.members) {
		return false
	}
	if a.kind == '0' {
		return compare(a, b) == 0
	}
	if a.text != b.text {
		return false
	}
	for i := range a.items {
		if !equal(a.items[i], b.items[i]) {
			return false
		}
	}
	for _, m := range a.members {
		if other := b.get(m.name); other == nil || !equal(m.value, other) {
			return false
		}
	}
	return true
}
