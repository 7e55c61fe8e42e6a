// Package lazy has values that are made when they're first needed. Every start of toolguard initialises all packages that are linked into
// it, and most starts need few of their regular expressions and tables.
package lazy

import (
	"regexp"
	"strings"
	"sync"
)

// Regexp returns a function that compiles pattern at its first call. It panics, at each call, if pattern is no regular expression.
func Regexp(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// Set returns a function that returns the set of the names in a text, which blanks separate, made at its first call.
func Set(names string) func() map[string]bool {
	return sync.OnceValue(func() map[string]bool {
		set := map[string]bool{}
		for name := range strings.FieldsSeq(names) {
			set[name] = true
		}
		return set
	})
}

// Value is for a value that can't be a variable with an initialiser (or with sync.OnceValue), because its functions use that variable.
// Its zero value is ready for use. A Value must not be copied.
type Value[T any] struct {
	once sync.Once
	v    T
}

// Get returns the value, made by the first call.
func (l *Value[T]) Get(make func() T) T {
	l.once.Do(func() { l.v = make() })
	return l.v
}
