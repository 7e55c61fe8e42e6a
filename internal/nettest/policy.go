package nettest

import (
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// Policy compiles a policy of these layers.
func Policy(t testing.TB, layers ...policy.SourceLayer) *policy.Compiled {
	t.Helper()
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: layers}, hostfs.Machine{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
