// Package next has tests of another package's function.
package next

import (
	"testing"

	"github.com/toolguard/toolguard/scripts/mutate/testdata/sign"
)

func TestNext(t *testing.T) {
	if got := sign.Next(1); got != 2 {
		t.Errorf("after 1: %d", got)
	}
}
