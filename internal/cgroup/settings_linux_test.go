package cgroup

import (
	"strings"
	"testing"
)

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"0123abcd": true, "a": true, "a_b-c": true, "": false, "-a": false, "..": false, "a/b": false, "a b": false, "a.b": false,
		strings.Repeat("a", 64): true, strings.Repeat("a", 65): false,
	} {
		if validID(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}
