package control

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

// A hosts file contributes the names that the policy grants, with their unicast addresses.
func TestHostsFor(t *testing.T) {
	var rules []policy.NetRule
	for _, host := range []string{"intra.test", "*.corp.test", "localhost", "free.test"} {
		rules = append(rules, policy.NetRule{Host: host, Allow: true, Position: policy.Position{File: "p.toml", Line: 1, Col: 1}})
	}
	rules = append(rules, policy.NetRule{Host: "denied.test"})
	c := nettest.Policy(t, policy.SourceLayer{Authority: policy.Session, Net: rules})
	file := filepath.Join(t.TempDir(), "hosts")
	for text, want := range map[string]string{
		"": "map[]",
		"127.0.1.1\tIntra.TEST. other.test # a.corp.test\n":        "map[intra.test:[127.0.1.1]]",
		"10.0.0.1 a.corp.test b.corp.test corp.test":               "map[a.corp.test:[10.0.0.1] b.corp.test:[10.0.0.1]]",
		"10.0.0.1 intra.test\n::1 intra.test\n10.0.0.1 intra.test": "map[intra.test:[10.0.0.1 ::1]]",
		"::ffff:10.0.0.1 intra.test":                               "map[intra.test:[10.0.0.1]]",
		"127.0.0.1 localhost denied.test":                          "map[]",
		"0.0.0.0 free.test\n:: free.test\n224.0.0.1 free.test\nfe80::1%eth0 free.test\nx free.test\n10.0.0.1\n10.0.0.1 in_tra..test": "map[]",
	} {
		childtest.Must(t, os.WriteFile(file, []byte(text), 0o600))
		if got, err := hostsFor(file, c); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
	var many strings.Builder
	for i := range maxHosts + 1 {
		fmt.Fprintf(&many, "10.0.%d.%d n%d.corp.test\n", i>>8, i&255, i)
	}
	childtest.Must(t, os.WriteFile(file, []byte(many.String()), 0o600))
	if got, err := hostsFor(file, c); err == nil || len(got) != maxHosts {
		t.Errorf("a long file: %d names, %v", len(got), err)
	}
	if got, err := hostsFor(file+"none", c); err != nil || len(got) > 0 {
		t.Errorf("without a file: %v, %v", got, err)
	}
}
