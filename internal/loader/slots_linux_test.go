package loader

import "testing"

// Lines are free that no session has, also where one was killed in Reload between its two writes: then it has its lines twice.
func TestFreeLinesAfterKill(t *testing.T) {
	k := &Kernel{sessions: []kernelSession{
		{Id: 1, Image: 0, Lines: 10, FormerImage: 0, FormerLines: 10}, {Id: 2, Image: 10, Lines: 10}, {Id: 3, Image: 25, Lines: 5}, {},
	}}
	for n, want := range map[uint32]uint32{5: 20, 6: 30} {
		if at, err := k.freeLines(n); err != nil || at.first != want {
			t.Errorf("%d lines begin at %d, %v; want %d", n, at.first, err, want)
		}
	}
}
