package launch

import (
	"fmt"
	"os"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == StageFlag {
		os.Exit(RunStage(os.Args[2:]))
	}
	childtest.Main(m, func(order string) (any, error) {
		do, ok := orders[order]
		if !ok {
			return nil, fmt.Errorf("no order %q", order)
		}
		return do()
	})
}

var must = childtest.Must

// orders are what children do.
var orders = map[string]func() (any, error){
	"restrict the first thread":  restrictFirst,
	"find later threads":         findLater,
	"signal all without a scope": signalUnscoped,
	"signal all with a scope":    signalScoped,
	"supervise one command":      superviseOne,
	"reap others' children":      reapOthers,
}
