package toolset

import (
	"strings"
	"testing"
)

// A name that two patterns have in common matches both, and there is one wherever one can be.
func TestCommon(t *testing.T) {
	patterns := []string{"", "a", "b", "ab", "ba", "aab", "*", "a*", "*a", "*b", "a*b", "*a*", "b*a", "*ab*", "a**b", "aa*bb*"}
	var names []string
	for n := 0; n < 1<<7; n++ { // all of at most six letters
		names = append(names, strings.NewReplacer("0", "a", "1", "b").Replace(binary(n)))
	}
	for _, a := range patterns {
		for _, b := range patterns {
			for _, filler := range []string{"", "x"} {
				name, ok := Common(a, b, filler)
				found := false
				for _, n := range names {
					found = found || Glob(a, n) && Glob(b, n)
				}
				if ok != found || ok && !(Glob(a, name) && Glob(b, name)) {
					t.Errorf("%q and %q: %q, %v; want %v", a, b, name, ok, found)
				}
			}
		}
	}
}

// binary is a number's digits after the first.
func binary(n int) (s string) {
	for ; n > 1; n /= 2 {
		s += string(rune('0' + n%2))
	}
	return s
}
