package schema

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Schema is a JSON Schema that an argument, or all arguments, must match.
type Schema struct {
	types      []string // empty for any
	properties []property
	required   []string
	enum       []*value // nil for any
	items      *Schema  // nil for any
	additional *Schema  // what other properties must match; nil: there may be none

	minimum, maximum     *value
	minLength, maxLength int // of strings
	minItems, maxItems   int
	maxBytes             int // of strings; 0 for no limit
	pattern              *regexp.Regexp
}

type property struct {
	name   string
	schema *Schema
}

// Error is what is wrong with a schema.
type Error struct {
	Path []string // the keys that lead to what is wrong: "properties", "x", "minimum"
	Text string
}

func (e *Error) Error() string {
	if len(e.Path) == 0 {
		return "the schema " + e.Text
	}
	return "schema." + strings.Join(e.Path, ".") + " " + e.Text
}

// keywords are those that a schema may have, with the type of the values that each applies to.
var keywords = map[string]string{
	"type": "", "enum": "", "properties": "object", "required": "object", "additionalProperties": "object", "items": "array", "minItems": "array", "maxItems": "array",
	"minLength": "string", "maxLength": "string", "pattern": "string", "minimum": "number", "maximum": "number",
}

var typeNames = []string{"string", "number", "integer", "boolean", "array", "object", "null"}

// maxPattern is how long a pattern may be, in bytes.
const maxPattern = 4096

// Parse reads the schema of a tool's arguments. An error about the schema itself is an *Error.
func Parse(text []byte) (*Schema, error) {
	v, err := parseJSON(text, maxSchema)
	if err != nil {
		return nil, &Error{Text: "can't be read: " + err.Error()}
	}
	var p parser
	s := p.schema(v)
	if p.err == nil && len(s.types) > 0 && !slices.Contains(s.types, "object") {
		p.path = []string{"type"}
		p.fail("must be \"object\": arguments are an object")
	}
	if p.err != nil {
		return nil, p.err
	}
	return s, nil
}

// Properties returns the names of the arguments that a schema has.
func (s *Schema) Properties() (names []string) {
	for _, p := range s.properties {
		names = append(names, p.name)
	}
	return names
}

// parser keeps the path to what it reads, and the first error.
type parser struct {
	path []string
	err  error
}

func (p *parser) fail(format string, args ...any) {
	if p.err == nil {
		p.err = &Error{slices.Clone(p.path), fmt.Sprintf(format, args...)}
	}
}

// at reads what is beneath a key.
func (p *parser) at(key string, read func()) {
	p.path = append(p.path, key)
	read()
	p.path = p.path[:len(p.path)-1]
}

func (p *parser) schema(v *value) *Schema {
	s := &Schema{maxLength: math.MaxInt, maxItems: math.MaxInt}
	if v.kind != '{' {
		p.fail("must be an object, not %s", v.describe())
		return s
	}
	if t := v.get("type"); t != nil {
		p.at("type", func() { s.types = p.types(t) })
	}
	for _, m := range v.members {
		p.at(m.name, func() { p.keyword(s, m.name, m.value) })
	}
	p.limits(s)
	return s
}

// limits checks keywords against each other.
func (p *parser) limits(s *Schema) {
	for _, name := range s.required {
		if s.additional == nil && !slices.ContainsFunc(s.properties, func(p property) bool { return p.name == name }) {
			p.at("required", func() { p.fail("names %q, which isn't in properties", name) })
		}
	}
	if s.minLength > s.maxLength || s.minItems > s.maxItems || s.minimum != nil && s.maximum != nil && compare(s.minimum, s.maximum) > 0 {
		p.fail("has a minimum that is larger than its maximum")
	}
}

func (p *parser) keyword(s *Schema, name string, v *value) {
	kind, known := keywords[name]
	if !known {
		p.fail("is no keyword that toolguard enforces")
		return
	}
	if kind != "" && len(s.types) > 0 && !slices.Contains(s.types, kind) && (kind != "number" || !slices.Contains(s.types, "integer")) {
		p.fail("is for the type %q, and type is %q", kind, s.types[0])
	}
	switch name {
	case "properties":
		p.properties(s, v)
	case "required":
		s.required = p.names(v)
	case "enum":
		if s.enum = v.items; v.kind != '[' || len(v.items) == 0 {
			p.fail("must be a list of values")
		}
	case "items":
		s.items = p.schema(v)
	case "additionalProperties":
		switch v.kind {
		case 'f':
		case 't':
			s.additional = &Schema{maxLength: math.MaxInt, maxItems: math.MaxInt}
		default:
			s.additional = p.schema(v)
		}
	case "minimum":
		s.minimum = p.number(v)
	case "maximum":
		s.maximum = p.number(v)
	case "minLength":
		s.minLength = p.count(v)
	case "maxLength":
		s.maxLength = p.count(v)
	case "minItems":
		s.minItems = p.count(v)
	case "maxItems":
		s.maxItems = p.count(v)
	case "pattern":
		s.pattern = p.pattern(v)
	}
}

func (p *parser) properties(s *Schema, v *value) {
	if v.kind != '{' {
		p.fail("must be an object, not %s", v.describe())
		return
	}
	for _, m := range v.members {
		p.at(m.name, func() { s.properties = append(s.properties, property{m.name, p.schema(m.value)}) })
	}
}

func (p *parser) types(v *value) []string {
	names := []string{v.text}
	if v.kind != '"' {
		names = p.names(v)
	}
	for _, n := range names {
		if !slices.Contains(typeNames, n) {
			p.fail("must be one of %s, not %q", strings.Join(typeNames, ", "), n)
		}
	}
	return names
}

func (p *parser) names(v *value) (names []string) {
	for _, item := range v.items {
		if item.kind != '"' || slices.Contains(names, item.text) {
			p.fail("must be a list of names, each once")
		}
		names = append(names, item.text)
	}
	if v.kind != '[' {
		p.fail("must be a list of names, not %s", v.describe())
	}
	return names
}

func (p *parser) number(v *value) *value {
	if _, ok := v.float(); v.kind != '0' || !ok {
		p.fail("must be a number, not %s", v.describe())
	}
	return v
}

func (p *parser) count(v *value) int {
	n, err := strconv.ParseUint(v.text, 10, 31)
	if v.kind != '0' || err != nil {
		p.fail("must be a whole number from 0, not %s", v.describe())
	}
	return int(n)
}

func (p *parser) pattern(v *value) *regexp.Regexp {
	if v.kind != '"' || len(v.text) > maxPattern {
		p.fail("must be a string of at most %d bytes", maxPattern)
		return nil
	}
	re, err := regexp.Compile(v.text)
	if err != nil {
		p.fail("is no pattern of RE2: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return re
}
