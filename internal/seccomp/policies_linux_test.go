package seccomp

import (
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// folders is a machine with a few folders and nothing else.
var folders = fspathtest.New(map[string]string{"/ws": "dir", "/home": "dir"})

// compile makes a policy of one session layer.
func compile(t testing.TB, l policy.SourceLayer) *policy.Compiled {
	t.Helper()
	l.Authority = policy.Session
	return compileLayers(t, l)
}

func compileLayers(t testing.TB, ls ...policy.SourceLayer) *policy.Compiled {
	t.Helper()
	return policytest.CompileSource(t, &policy.Source{Name: "test", Workspace: "/ws", Home: "/home", Layers: ls}, folders)
}

// denies returns a layer that declares the resources and grants nothing of them.
func denies(rs ...policy.Resource) (l policy.SourceLayer) {
	for _, r := range rs {
		l.Defaults[r] = policy.Deny
	}
	return l
}

func with(l policy.SourceLayer, net ...policy.NetRule) policy.SourceLayer {
	l.Net = net
	return l
}

var tcp = policy.NetRule{Host: "example.com", Port: 443, Allow: true}

// TestFiltersValidate checks that an unknown name never results in a filter that denies nothing.
func TestFiltersValidate(t *testing.T) {
	if all, err := Filters(compile(t, policy.SourceLayer{Syscalls: policy.Syscalls{Deny: []string{"fnord"}}}), Backend{ABI: 7}); err == nil {
		t.Errorf("%d filters", len(all))
	}
}
