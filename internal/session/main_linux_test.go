package session

import (
	"fmt"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

var must = childtest.Must

func TestMain(m *testing.M) {
	runAsProgram()
	childtest.Main(m, func(order string) (any, error) {
		do, ok := orders[order]
		if !ok {
			return nil, fmt.Errorf("no order %q", order)
		}
		return do()
	})
}

// orders are what children do.
var orders = map[string]func() (any, error){
	"fail to start next to another child": failWithOtherChild,
	"start without filters":               startUnfiltered,
}
