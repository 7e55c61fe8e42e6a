package loader

import (
	"fmt"
	"testing"
)

// A policy may have very many rules, whose names are very much alike.
func TestManyRules(t *testing.T) {
	for _, name := range []string{
		"%d", "folder%d", "%08d", "%016d", "file%d.txt", "%x", "a_longer_name_with_a_number_%d_in_it", "%[1]d%[1]d%[1]d",
	} {
		var rules []string
		for i := range 10000 {
			rules = append(rules, "/srv/"+fmt.Sprintf(name, i)+" read")
		}
		img, err := NewImage(compile(t, rules...), 1)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := img.Lines(); n > maxLines/2 {
			t.Errorf("%s: %d lines", name, n)
		}
	}
}
