package loader

import (
	"errors"
	"fmt"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
)

// A policy may have very many rules, whose names are very much alike.
func TestManyRules(t *testing.T) {
	for _, name := range []string{
		"%d", "folder%d", "%08d", "%016d", "file%d.txt", "%x", "a_longer_name_with_a_number_%d_in_it", "%[1]d%[1]d%[1]d",
	} {
		for n, most := range map[int]int{10000: maxLines / 2, 30000: maxLines} {
			var rules []string
			for i := range n {
				rules = append(rules, "/srv/"+fmt.Sprintf(name, i)+" read")
			}
			img, err := NewImage(compile(t, rules...), 1)
			if err != nil {
				t.Errorf("%d of %s: %v", n, name, err)
				continue
			}
			if lines := img.Lines(); lines > most {
				t.Errorf("%d of %s: %d lines", n, name, lines)
			}
		}
	}
}

// A policy for which there is no room is refused, and at once: not when it has been laid out.
func TestTooManyLines(t *testing.T) {
	var rules []string
	for i := range 60000 {
		rules = append(rules, fmt.Sprintf("/srv/%d/a/b/c/d/e/f/g/h/i read", i))
	}
	if _, err := NewImage(compile(t, rules...), 1); !errors.Is(err, errLines) {
		t.Errorf("%v", err)
	}
}

// The numbers of files are very much alike in some file systems: XFS has those of a group in their high bits.
func TestManyLinks(t *testing.T) {
	for shift := range 57 {
		c := *compile(t, "/srv read")
		for i := range uint64(100) {
			c.Links = append(c.Links, policy.Link{File: policy.FileID{Inode: i<<shift | 128}})
		}
		if _, err := NewImage(&c, 1); err != nil {
			t.Errorf("numbers %d apart: %v", uint64(1)<<shift, err)
		}
	}
}

// A policy with more layers than the programs look at isn't followed in part.
func TestManyLayers(t *testing.T) {
	for c := compile(t, "/srv read"); len(c.Layers) < maxLayers+2; {
		if _, err := NewImage(c, 1); (err != nil) != (len(c.Layers) > maxLayers) {
			t.Errorf("%d layers: %v", len(c.Layers), err)
		}
		var err error
		if c, err = compile(t, fmt.Sprintf("/srv/%d read", len(c.Layers))).Within(c); err != nil {
			t.Fatal(err)
		}
	}
}

// Lines are free that no session has, also where one was killed in Reload between its two writes: then it has its lines twice.
func TestRoomBesideTheKilled(t *testing.T) {
	k := &Kernel{sessions: []kernelSession{
		{Id: 1, Image: 0, Lines: 10, FormerImage: 0, FormerLines: 10}, {Id: 2, Image: 10, Lines: 10}, {Id: 3, Image: 25, Lines: 5}, {},
	}}
	for n, want := range map[uint32]uint32{5: 20, 6: 30} {
		if at, err := k.room(n); err != nil || at.first != want {
			t.Errorf("%d lines begin at %d, %v; want %d", n, at.first, err, want)
		}
	}
}
