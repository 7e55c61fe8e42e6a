package launch

import (
	"slices"
	"testing"
	"time"
)

// The pauses between signals grow if one signal reaches all processes. Otherwise they stay short, so that processes have no time to fork.
func TestPausesBetweenKills(t *testing.T) {
	const ms = time.Millisecond
	for abi, want := range map[int][]time.Duration{
		6: {20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, 1000 * ms, 1000 * ms},
		5: {20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms, 20 * ms},
	} {
		p := &Processes{Scoped: abi >= 6, Thread: &Thread{closed: true}} // the session has ended: no process is signalled
		var got []time.Duration
		p.Kill(func(wait time.Duration) bool {
			got = append(got, wait)
			return len(got) == len(want)
		})
		if !slices.Equal(got, want) {
			t.Errorf("ABI %d: %v", abi, got)
		}
	}
}
