package session

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/egress/process"
)

var must = childtest.Must

// TestMain has this program be egress, too.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "egress" {
		fd, err := strconv.Atoi(os.Args[2])
		if err := cmp.Or(err, process.Serve(fd)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
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
	"fail to start beside a stranger": failBesideStranger,
	"start without filters":           startUnfiltered,
}

// needsRoot skips a test that another user can't do.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}
