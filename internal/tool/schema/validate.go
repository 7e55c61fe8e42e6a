package schema

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Validate checks the arguments of a call, a JSON object. The error names the argument and what is wrong with it.
func (s *Schema) Validate(arguments []byte) error {
	_, err := s.parse(arguments)
	return err
}

func (s *Schema) parse(arguments []byte) (*value, error) {
	v, err := parseJSON(arguments, maxArguments)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the arguments can't be read: %w", err)
	case v.kind != '{':
		return nil, fmt.Errorf("the arguments must be an object, not %s", v.describe())
	}
	return v, s.check(v, "")
}

// check returns what is wrong with a value. path is "" for the arguments themselves.
func (s *Schema) check(v *value, path string) error {
	wrong := func(format string, args ...any) error {
		name := path
		if path == "" {
			name = "the arguments"
		}
		return fmt.Errorf("%s %s", name, fmt.Sprintf(format, args...))
	}
	if len(s.types) > 0 && !slices.ContainsFunc(s.types, v.is) {
		return wrong("must be %s, not %s", orList(s.types), v.describe())
	}
	if s.enum != nil && !slices.ContainsFunc(s.enum, func(e *value) bool { return equal(e, v) }) {
		return wrong("must be %s, not %s", orList(s.enumNames()), v.describe())
	}
	switch v.kind {
	case '"':
		return s.checkString(v, wrong)
	case '0':
		return s.checkNumber(v, wrong)
	case '[':
		return s.checkList(v, path, wrong)
	case '{':
		return s.checkObject(v, path, wrong)
	}
	return nil
}

// enumNames returns the values that enum lists, for messages.
func (s *Schema) enumNames() (names []string) {
	for _, e := range s.enum {
		if len(e.items)+len(e.members) > 0 {
			return []string{"one of the values that enum lists"}
		}
		names = append(names, e.describe())
	}
	return names
}

type report func(format string, args ...any) error

func (s *Schema) checkString(v *value, wrong report) error {
	n := utf8.RuneCountInString(v.text)
	switch {
	case n < s.minLength:
		return wrong("has %d characters, fewer than %d", n, s.minLength)
	case n > s.maxLength:
		return wrong("has %d characters, more than %d", n, s.maxLength)
	case s.maxBytes > 0 && len(v.text) > s.maxBytes:
		return wrong("has %d bytes, more than %d", len(v.text), s.maxBytes)
	case s.pattern != nil && !s.pattern.MatchString(v.text):
		return wrong("must match %s, and is %s", s.pattern, v.describe())
	}
	return nil
}

func (s *Schema) checkNumber(v *value, wrong report) error {
	switch _, ok := v.float(); {
	case !ok:
		return wrong("is a number that is too large")
	case s.minimum != nil && compare(v, s.minimum) < 0:
		return wrong("is %s, less than %s", v.text, s.minimum.text)
	case s.maximum != nil && compare(v, s.maximum) > 0:
		return wrong("is %s, more than %s", v.text, s.maximum.text)
	}
	return nil
}

func (s *Schema) checkList(v *value, path string, wrong report) error {
	switch n := len(v.items); {
	case n < s.minItems:
		return wrong("has %d entries, fewer than %d", n, s.minItems)
	case n > s.maxItems:
		return wrong("has %d entries, more than %d", n, s.maxItems)
	case s.items == nil:
		return nil
	}
	for i, item := range v.items {
		if err := s.items.check(item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Schema) checkObject(v *value, path string, wrong report) error {
	for _, name := range s.required {
		if v.get(name) == nil {
			return wrong("must have %q", name)
		}
	}
	for _, m := range v.members {
		property := s.property(m.name)
		if property == nil {
			return wrong("may not have %q: there is %s", m.name, s.known())
		}
		inner := m.name
		if path != "" {
			inner = path + "." + m.name
		}
		if err := property.check(m.value, inner); err != nil {
			return err
		}
	}
	return nil
}

// property returns what a property must match; nil: there may be none of the name.
func (s *Schema) property(name string) *Schema {
	for _, p := range s.properties {
		if p.name == name {
			return p.schema
		}
	}
	return s.additional
}

func (s *Schema) known() string {
	if names := s.Properties(); len(names) > 0 {
		return strings.Join(names, ", ")
	}
	return "none"
}

func orList(names []string) string { return strings.Join(names, " or ") }
