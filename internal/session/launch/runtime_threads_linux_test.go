package launch

import (
	"runtime"
	"testing"
)

// All threads that there are count: as many are made as are missing, and none where none is.
func TestMakeThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	wanted := threadCount() + 5
	for _, more := range []int{5, 0} {
		before := threadCount()
		MakeThreads(wanted - min(runtime.GOMAXPROCS(0), maxProcessors))
		now := threadCount()
		if now < wanted || now > before+more+2 { // the runtime may have made some for others
			t.Errorf("%d threads, where there were %d and %d are needed", now, before, wanted)
		}
	}
}
