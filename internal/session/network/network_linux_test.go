package network

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

func TestResolvers(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                       {"127.0.0.1:53"},
		"# nameserver 1.1.1.1\nnameserver\n":     {"127.0.0.1:53"},
		"search x\nnameserver 9.9.9.9\n":         {"9.9.9.9:53"},
		"nameserver fe80::1%eth0 # the router\n": {"[fe80::1%eth0]:53"},
		"nameserver x\nnameserver ::1\nnameserver 1.1.1.1\nnameserver 1.1.1.2\nnameserver 1.1.1.3": {"[::1]:53", "1.1.1.1:53", "1.1.1.2:53"},
	} {
		file := filepath.Join(t.TempDir(), "resolv.conf")
		childtest.Must(t, os.WriteFile(file, []byte(text), 0o600))
		got, err := resolvers(file)
		var all []string
		for _, a := range got {
			all = append(all, a.String())
		}
		if err != nil || !slices.Equal(all, want) {
			t.Errorf("%q: %v, %v; want %v", text, all, err, want)
		}
	}
	if got, err := resolvers(filepath.Join(t.TempDir(), "none")); err != nil || len(got) != 1 {
		t.Errorf("without a file: %v, %v", got, err)
	}
}

// A policy has network rules to enforce if the network is neither completely allowed nor completely denied.
func TestDecidesNet(t *testing.T) {
	some := policy.SourceLayer{Authority: policy.Session, Net: []policy.NetRule{{Host: "a.test", Allow: true}}}
	denied := policy.SourceLayer{Authority: policy.Session, Net: []policy.NetRule{{Host: "a.test"}}}
	none, free := policy.SourceLayer{Authority: policy.Host}, policy.SourceLayer{Authority: policy.Session}
	none.Defaults[policy.Net], free.Defaults[policy.Net] = policy.Deny, policy.Allow
	but := free
	but.Net = denied.Net
	for _, x := range []struct {
		name   string
		layers []policy.SourceLayer
		want   bool
	}{
		{"a grant", []policy.SourceLayer{some}, true},
		{"no grant", []policy.SourceLayer{denied}, false},
		{"nothing", []policy.SourceLayer{none}, false},
		{"a grant within nothing", []policy.SourceLayer{none, some}, false},
		{"everything", []policy.SourceLayer{free}, false},
		{"everything but one", []policy.SourceLayer{but}, true},
	} {
		if got := Decides(nettest.Policy(t, x.layers...)); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
}

func TestBundle(t *testing.T) {
	for system, want := range map[string]string{"": "own\n", "a": "a\nown\n", "a\nb\n\n": "a\nb\nown\n"} {
		if got := string(bundle([]byte(system), []byte("own\n"))); got != want {
			t.Errorf("%q: %q", system, got)
		}
	}
}
