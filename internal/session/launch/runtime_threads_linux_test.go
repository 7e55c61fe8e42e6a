package launch

import (
	"runtime"
	"testing"
)

// MakeThreads makes the missing threads, and none if enough exist. They exist in the kernel when it returns.
func TestMakeThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	wanted := threadCount() + 5
	for _, more := range []int{5, 0} {
		before := threadCount()
		MakeThreads(wanted - 2*min(runtime.GOMAXPROCS(0), maxProcessors))
		inKernel, now := kernelThreads(), threadCount()
		if now < wanted || now > before+more+2 { // the runtime may have made some itself
			t.Errorf("%d threads, there were %d, %d are needed", now, before, wanted)
		}
		if inKernel < wanted {
			t.Errorf("%d threads in the kernel, %d are needed", inKernel, wanted)
		}
	}
}
