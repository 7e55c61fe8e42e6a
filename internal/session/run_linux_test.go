package session

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// The event of a session's start has a truncated command line.
func TestStartIsShort(t *testing.T) {
	r := &run{cmd: &launch.Command{}, cfg: Config{Policy: &policy.Compiled{}, Argv: []string{"sh", "-c", strings.Repeat("x", 1<<20)}}}
	if got := r.startEvent().Process[0].Argv; len(got) != 3 || len(got[2]) > 1<<13 || !strings.HasSuffix(got[2], "…") {
		t.Errorf("%d arguments of %.100q", len(got), got)
	}
}
