package network

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/toolguard/toolguard/internal/egress/process"
)

// TestMain runs egress if the arguments say so.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "egress" {
		fd, err := strconv.Atoi(os.Args[2])
		if err := cmp.Or(err, process.Serve(fd)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
