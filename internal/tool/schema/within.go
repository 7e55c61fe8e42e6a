package schema

import (
	"regexp"
	"slices"
)

// Within reports whether it's certain that every value that matches the schema matches another one, too: keyword by keyword, so that it can
// be false of schemas of another form that accept the same.
func (s *Schema) Within(other *Schema) bool {
	if s == nil || other == nil {
		return s == nil
	}
	if s.enum != nil && !slices.ContainsFunc(s.enum, func(e *value) bool { return s.check(e, "") == nil && other.check(e, "") != nil }) {
		return true
	}
	return other.enum == nil && s.typesWithin(other) && s.textsWithin(other) && s.listsWithin(other) && s.objectsWithin(other)
}

// may reports whether a value may have a type.
func (s *Schema) may(kind string) bool {
	return len(s.types) == 0 || slices.Contains(s.types, kind) || kind == "integer" && slices.Contains(s.types, "number")
}

func (s *Schema) typesWithin(other *Schema) bool {
	return !slices.ContainsFunc(typeNames, func(kind string) bool { return s.may(kind) && !other.may(kind) })
}

// textsWithin compares what is about strings and numbers.
func (s *Schema) textsWithin(other *Schema) bool {
	if s.may("string") {
		bytes := other.maxBytes == 0 || s.maxBytes > 0 && s.maxBytes <= other.maxBytes || s.maxLength <= other.maxBytes/4
		if s.minLength < other.minLength || s.maxLength > other.maxLength || !bytes || other.pattern != nil && source(s.pattern) != source(other.pattern) {
			return false
		}
	}
	if !s.may("integer") {
		return true
	}
	return (other.minimum == nil || s.minimum != nil && compare(s.minimum, other.minimum) >= 0) &&
		(other.maximum == nil || s.maximum != nil && compare(s.maximum, other.maximum) <= 0)
}

func source(r *regexp.Regexp) string {
	if r == nil {
		return ""
	}
	return r.String()
}

func (s *Schema) listsWithin(other *Schema) bool {
	if !s.may("array") {
		return true
	}
	if s.minItems < other.minItems || s.maxItems > other.maxItems {
		return false
	}
	return other.items == nil || s.maxItems == 0 || s.items != nil && s.items.Within(other.items)
}

func (s *Schema) objectsWithin(other *Schema) bool {
	if !s.may("object") {
		return true
	}
	for _, name := range other.required {
		if !slices.Contains(s.required, name) {
			return false
		}
	}
	for _, name := range append(s.Properties(), other.Properties()...) {
		if !s.property(name).Within(other.property(name)) {
			return false
		}
	}
	return s.additional.Within(other.additional)
}
