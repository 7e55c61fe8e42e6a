package seccomp

import (
	"io/fs"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// folders is a machine with a few folders and nothing else.
type folders []string

func (f folders) Lstat(p string) (fspath.Kind, error) {
	for _, d := range f {
		if p == d {
			return fspath.Dir, nil
		}
	}
	return 0, fs.ErrNotExist
}

func (f folders) Readlink(string) (string, error) { return "", fs.ErrInvalid }

func (f folders) Mounts() ([]fspath.Mount, error) { return nil, nil }

func (f folders) File(string) (fspath.FileID, uint64, error) {
	return fspath.FileID{}, 0, fs.ErrNotExist
}

// compile makes a policy of one session layer.
func compile(t testing.TB, l policy.SourceLayer) *policy.Compiled {
	t.Helper()
	l.Authority = policy.Session
	return compileLayers(t, l)
}

func compileLayers(t testing.TB, ls ...policy.SourceLayer) *policy.Compiled {
	t.Helper()
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/ws", Home: "/home", Layers: ls},
		folders{"/", "/ws", "/home"})
	must(t, err)
	return c
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
