package sign

import (
	"os"
	"os/exec"
	"testing"
)

func TestSign(t *testing.T) {
	for n, want := range map[int]int{-2: -1, 1: 1, 2: 1} {
		if got := Sign(n); got != want {
			t.Errorf("the sign of %d: %d", n, got)
		}
	}
}

func TestLength(t *testing.T) {
	if one, two := Length(3, false), Length(3, true); one != 3 || two != 6 {
		t.Error(one, two)
	}
}

// The child gets nothing of the environment.
func TestEven(t *testing.T) {
	if os.Getenv("CHILD") != "" {
		if !Even(2) {
			t.Error("2 is odd")
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestEven$")
	cmd.Env = []string{"CHILD=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
