package landlock

import (
	"fmt"
	"slices"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// TestPlan checks the rulesets of a policy under an ABI.
func TestPlan(t *testing.T) {
	ws := makeWorkspace(t)
	port := func(n policy.NetRule) policy.NetRule {
		n.Host, n.Allow = "127.0.0.1", true
		return n
	}
	denied := policy.NetRule{Host: "10.0.0.1", Port: 22}
	net := policy.SourceLayer{Net: []policy.NetRule{port(policy.NetRule{Port: 443}), port(policy.NetRule{Port: 443, Listen: true}), port(policy.NetRule{Port: 80}), port(policy.NetRule{Port: 53, Protocol: "udp"}), denied}}
	fs := policy.SourceLayer{FS: []policy.FSRule{rule("ro", r), rule("ro/sub", r), rule("/proc/self", r), rule("none", 0)}}
	commands := policy.SourceLayer{Commands: []policy.CommandRule{{Name: ws + "/rwx/script"}, {Name: "none-such"}}}
	write(t, ws+"/rwx/script", []byte("text"), 0o777)
	for _, c := range []struct {
		what    string
		layer   policy.SourceLayer
		abi     int
		newPlan func(*policy.Compiled, int) *Plan
		want    string
	}{
		{"net before TCP", net, 3, mustPlan, "all files, no devices, no control groups"},
		{"net", net, 4, mustPlan, "files /, ports 443:bind+connect 80:connect, no devices, no control groups"},
		{"net before scopes", net, 5, mustPlan, "files /, ports 443:bind+connect 80:connect, no devices, no control groups"},
		{"net with scopes", net, 6, mustPlan, "files /, ports 443:bind+connect 80:connect, scoped socket+signal, no devices, no control groups"},
		{"net before UDP", net, 9, mustPlan, "files /, ports 443:bind+connect 80:connect, scoped socket+signal, no devices, no control groups"},
		{"net with UDP", net, 10, mustPlan, "files /, ports 443:bind+connect 80:connect 53:send 0:bindudp, scoped socket+signal, no devices, no control groups"},
		{"ports with UDP", net, 10, NewPortsPlan, "files /, ports 443:bind+connect 80:connect 53:send 0:bindudp"},
		{"fs with quiet folders", fs, 10, mustPlan, "files " + ws + "/ro, quiet /run/nscd, scoped socket+signal, no devices"},
		{"ports before TCP", net, 3, NewPortsPlan, "none"},
		{"ports", net, 4, NewPortsPlan, "files /, ports 443:bind+connect 80:connect"},
		{"own servers", policy.SourceLayer{Net: []policy.NetRule{{Host: "localhost", Listen: true, Allow: true}}}, 4, NewPortsPlan, "files /, ports 0:bind"},
		{"ports without net", fs, 4, NewPortsPlan, "none"},
		{"fs", fs, 6, mustPlan, "files " + ws + "/ro, scoped socket+signal, no devices"},
		{"commands", commands, 6, mustPlan, "files / " + ws + "/rwx/script, scoped signal, no devices, no control groups"},
		{"nothing", policy.SourceLayer{}, 6, mustPlan, "all files, scoped signal, no devices, no control groups"},
	} {
		if got := describePlan(c.newPlan(compileAt(t, ws, c.layer), c.abi)); got != c.want {
			t.Errorf("%s, ABI %d: %s, want %s", c.what, c.abi, got, c.want)
		}
	}
	for version, want := range map[int]uint32{6: 0, 7: ll.FlagRestrictSelfLogNewExecOn} {
		p := Plan{ABI: version, Rulesets: []Ruleset{{FS: ll.AccessFSExecute}}, Inner: Ruleset{FS: ll.AccessFSExecute}}
		err := p.ApplyTo(func(_ int, flags uint32) error {
			if flags != want {
				t.Errorf("ABI %d: flags %#x", version, flags)
			}
			return nil
		})
		if p.Close(); err != nil && abi(t) > 0 {
			t.Error(err)
		}
	}
	if _, err := NewPlan(compileAt(t, ws, fs), 0); err == nil {
		t.Error("a plan for no Landlock")
	}
}

func mustPlan(c *policy.Compiled, abi int) *Plan {
	p, err := NewPlan(c, abi)
	if err != nil {
		panic(err)
	}
	return p
}

// describePlan describes the grants and restrictions of a plan's only ruleset.
func describePlan(p *Plan) (out string) {
	if p == nil {
		return "none"
	}
	rs, spared := p.Rulesets[0], len(p.Rulesets)-1
	words := "files"
	if last := p.Rulesets[spared]; last.Authority == policy.Builtin && last.FS&ll.AccessFSWriteFile != 0 {
		defer func() { out += ", no control groups" }()
		if spared--; spared < 0 {
			rs.Grants, words = nil, "all files"
		}
	}
	if spared > 0 {
		return fmt.Sprintf("%d rulesets", len(p.Rulesets))
	}
	for _, g := range rs.Grants {
		words += " " + g.Path
	}
	for _, path := range rs.Quiet {
		words += ", quiet " + path
	}
	if rs.Net != 0 {
		words += ", ports"
	}
	for _, port := range rs.Ports {
		words += fmt.Sprintf(" %d:%s", port.Number, map[uint64]string{ll.AccessNetConnectSendUDP: "send", ll.AccessNetBindUDP: "bindudp", ll.AccessNetConnectTCP: "connect", ll.AccessNetBindTCP: "bind", ll.AccessNetBindTCP | ll.AccessNetConnectTCP: "bind+connect"}[port.Access])
	}
	if rs.Scoped != 0 {
		words += ", scoped " + map[uint64]string{ll.ScopeSignal: "signal", ll.ScopeSignal | ll.ScopeAbstractUnixSocket: "socket+signal"}[rs.Scoped]
	}
	if rs.FS&ll.AccessFSMakeChar != 0 {
		words += ", no devices"
	}
	return words
}

// TestRulesets checks that a plan never has more domains than the kernel allows.
func TestRulesets(t *testing.T) {
	ws := makeWorkspace(t)
	both := policy.SourceLayer{FS: []policy.FSRule{rule("ro", r)}, Commands: []policy.CommandRule{{Name: "true"}}}
	var layers []policy.SourceLayer
	for a := policy.Host; a < policy.Session && len(layers) < 7; a++ {
		both.Authority = a
		layers = append(layers, both)
	}
	one, two := policy.SourceLayer{Authority: policy.Session, FS: both.FS}, both
	two.Authority = policy.Session
	for want, last := range map[int]policy.SourceLayer{15: one, 0: two} {
		c := compileSource(t, hostfs.Machine{}, &policy.Source{Workspace: ws, Layers: append(slices.Clip(layers), last)})
		if p, err := NewPlan(c, 7); want == 0 && err == nil || want != 0 && (err != nil || len(p.Rulesets) != want) {
			t.Errorf("want %d rulesets: %v", want, err)
		}
	}
}
