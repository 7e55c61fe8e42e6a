package launch

import (
	"runtime"
	"testing"
)

// MakeThreads makes the missing threads, and none if enough exist.
func TestMakeThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	wanted := threadCount() + 5
	for _, more := range []int{5, 0} {
		before := threadCount()
		MakeThreads(wanted - min(runtime.GOMAXPROCS(0), maxProcessors))
		now := threadCount()
		if now < wanted || now > before+more+2 { // the runtime may have made some itself
			t.Errorf("%d threads, there were %d, %d are needed", now, before, wanted)
		}
	}
}
