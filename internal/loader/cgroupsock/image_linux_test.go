package cgroupsock

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

func genRule(t *rapid.T) policy.NetRule {
	r := policy.NetRule{
		Host: rapid.SampledFrom([]string{
			"10.0.0.0/8", "10.0.0.0/16", "10.0.0.1", "0.0.0.0/0", "127.0.0.0/8", "localhost", "::1", "::/0", "fd00::/8", "fd00::1", "64:ff9b::/96", "a.com", "*.a.com",
		}).Draw(t, "host"),
		Port:  rapid.SampledFrom([]int{0, 22, 443, 5432}).Draw(t, "port"),
		Allow: rapid.Bool().Draw(t, "allow"),
	}
	switch rapid.SampledFrom([]string{"tcp", "scheme", "udp", "listen"}).Draw(t, "kind") {
	case "scheme":
		r.Scheme = rapid.SampledFrom([]string{"http", "https", "ssh"}).Draw(t, "scheme")
	case "udp":
		if r.Protocol = "udp"; r.Allow || strings.HasSuffix(r.Host, "a.com") {
			r.Port = max(r.Port, 1)
		}
	case "listen":
		r.Listen, r.Port = true, max(r.Port, 1)
		r.Host = rapid.SampledFrom([]string{"", "localhost", "10.0.0.0/8", "::/0"}).Draw(t, "where")
	}
	return r
}

func genPolicy(t *rapid.T) *policy.Compiled {
	var layers []policy.SourceLayer
	for _, a := range []policy.Authority{policy.Host, policy.Session}[:rapid.IntRange(1, 2).Draw(t, "layers")] {
		l := policy.SourceLayer{Authority: a, Net: rapid.SliceOfN(rapid.Custom(genRule), 0, 5).Draw(t, "rules")}
		l.Defaults[policy.Net] = rapid.SampledFrom([]policy.DefaultAction{policy.Undeclared, policy.Deny, policy.Allow}).Draw(t, "default")
		layers = append(layers, l)
	}
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/", Home: "/", Path: "/bin", Layers: layers}, tree{})
	must(t, err)
	return c
}

// The kernel's lookup in an image has the evaluator's result.
func TestImageAgrees(t *testing.T) {
	needRoot(t)
	spec, err := loadNet()
	must(t, err)
	rapid.Check(t, func(t *rapid.T) {
		c := genPolicy(t)
		img, err := NewImage(c, 1)
		must(t, err)
		m, err := ebpf.NewMap(spec.Maps[netMapImages].InnerMap)
		must(t, err)
		defer m.Close()
		must(t, write(m, img))
		for range 20 {
			agrees(t, c, m)
		}
	})
}

// A client of toolguardd has it make an image: one that would fill its memory is rejected, and none needs much time.
// A range that is denied on every port counts for each port that a rule names.
func TestImageOfMuch(t *testing.T) {
	var ranges, names []policy.NetRule
	for i := range 1000 {
		range24 := policy.NetRule{Host: fmt.Sprintf("20.%d.%d.0/24", i>>8, i&255)}
		ranges = append(ranges, range24, policy.NetRule{Host: "30.0.0.1", Port: 1000 + i})
		names = append(names, policy.NetRule{Host: fmt.Sprintf("a%d.test", i), Port: 1000 + i})
	}
	for _, x := range []struct {
		rules []policy.NetRule
		most  uint64 // MiB
		err   string
	}{{ranges, 100, "262144"}, {names, 30, ""}} {
		c := compile(t, policy.Allow, x.rules...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := NewImage(c, 1)
		runtime.ReadMemStats(&after)
		if (err == nil) != (x.err == "") || err != nil && !strings.Contains(err.Error(), x.err) {
			t.Errorf("%v, want %q", err, x.err)
		}
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > x.most {
			t.Errorf("%d rules need %d MiB, want at most %d", len(x.rules), n, x.most)
		}
	}
}

func agrees(t *rapid.T, c *policy.Compiled, m *ebpf.Map) {
	addr := netip.MustParseAddr(rapid.SampledFrom([]string{
		"10.0.0.1", "10.0.1.1", "10.1.0.1", "11.0.0.1", "127.0.0.1", "127.0.0.2", "0.0.0.0", "::1", "::", "fd00::1", "fd01::1", "2001:db8::1", "64:ff9b::a00:1", "2002:a00:1::1",
	}).Draw(t, "to"))
	at := netname.Target{
		Addr: addr, Port: uint16(rapid.SampledFrom([]int{22, 443, 5432, 6000}).Draw(t, "to port")),
		Protocol: rapid.SampledFrom([]string{"tcp", "udp"}).Draw(t, "protocol"), Listen: rapid.Bool().Draw(t, "to listen"),
	}
	got, raw := found(t, m, &at), c.CheckNet(&at)
	if at.Listen || at.Protocol == "udp" {
		want := netVerdict{Layer: int32(raw.Layer), Rule: raw.Rule, Generation: 1}
		if raw.Allow {
			want.Action = uint32(direct)
		}
		if got != want {
			t.Fatalf("%s: the kernel finds %+v, the policy %+v", &at, got, raw)
		}
		return
	}
	granted, denied := raw.Allow, raw.Reason == policy.RuleDenies
	for _, scheme := range []string{"http", "https", "ws", "wss", "ssh", "git"} {
		target := at
		target.Scheme = scheme
		v := c.CheckNet(&target)
		granted, denied = granted || v.Allow, denied || v.Reason == policy.RuleDenies
	}
	if action(got.Action) == direct && (denied || !granted) {
		t.Fatalf("%s: reached directly, though it's granted: %v, and denied: %v", &at, granted, denied)
	}
	if action(got.Action) == deny && granted && !denied {
		t.Fatalf("%s: denied, though it's granted", &at)
	}
}

// found is what the kernel finds for a target: for one without an address, what it finds for the machine itself (normalize in bpf/sock/decide.h).
func found(t *rapid.T, m *ebpf.Map, at *netname.Target) (v netVerdict) {
	var k kind
	if at.Listen {
		k |= kindListen
	}
	if at.Protocol == "udp" {
		k |= kindUDP
	}
	for _, port := range []uint16{at.Port, 0} {
		key := ruleKey(rule{kind: k, port: port, at: netip.PrefixFrom(at.Dest(), at.Addr.BitLen())})
		switch err := m.Lookup(key, &v); {
		case err == nil:
			return v
		case !errors.Is(err, ebpf.ErrKeyNotExist):
			t.Fatal(err)
		}
	}
	t.Fatalf("%s: the kernel finds nothing", at)
	return v
}
