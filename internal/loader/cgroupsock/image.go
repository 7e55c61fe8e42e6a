package cgroupsock

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// Image is a policy's rules about addresses and ports: for each port in its rules, the address ranges that they distinguish.
type Image struct {
	rules        []rule
	unrestricted bool // no layer denies the network by default
	own          bool // the session's own servers on loopback may be reached
	generation   uint32
}

// rule is the action for a range of addresses on a port. Port 0 means all ports that no rule names.
type rule struct {
	kind    kind
	port    uint16
	at      netip.Prefix
	does    action
	verdict policy.Verdict
}

// kind and action are as in bpf/sock/image.h.
type (
	kind   uint16
	action uint32
)

const (
	kindListen kind = 1 << iota
	kindUDP
	kindIPv6
)

const (
	deny action = iota
	direct
	ask
)

// maxRules is MAX_RULES of bpf/sock/image.h.
const maxRules = 1 << 18

var everywhere = []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}

// NewImage makes the image of a policy. Events have its generation, which isn't 0. If no layer has rules about the network, the image
// allows everything that can be decided about, and redirects DNS to egress nevertheless: such a policy needs no image.
func NewImage(c *policy.Compiled, generation uint32) (*Image, error) {
	img := &Image{generation: generation, unrestricted: !slices.ContainsFunc(c.Layers, func(l *policy.Layer) bool { return l.Defaults[policy.Net] == policy.Deny })}
	img.own = !img.unrestricted && c.OwnServers()
	asked := map[uint16]bool{}
	for _, port := range c.AskedPorts() {
		asked[port] = true
	}
	for _, k := range []kind{0, kindUDP, kindListen, kindListen | kindUDP} {
		ranges, err := rangesOf(c, k, maxRules-len(img.rules))
		if err != nil {
			return nil, err
		}
		decide := decider(c, k)
		for _, port := range slices.Sorted(maps.Keys(ranges)) {
			otherwise := deny
			if k == 0 && asked[port] {
				otherwise = ask
			}
			img.add(k, port, ranges[port], decide, otherwise)
		}
	}
	return img, nil
}

// rangesOf returns the ranges that rules of a kind distinguish, by port, if there are at most capacity. A range that is denied on every
// port counts once for each port that a rule names, so that a short policy can have very many.
func rangesOf(c *policy.Compiled, k kind, capacity int) (map[uint16][]netip.Prefix, error) {
	ranges := map[uint16][]netip.Prefix{0: everywhere}
	var onEvery []netip.Prefix
	for _, l := range c.Layers {
		for _, r := range l.Net.Rules() {
			if r.Net.Listen != (k&kindListen != 0) || r.Net.Proto != "" && r.Net.Proto != protocol(k) {
				continue
			}
			if r.Net.EveryPort() || r.Net.OwnServers() {
				onEvery = append(onEvery, r.Net.Prefixes()...)
			}
			for _, port := range r.Net.Ports() {
				ranges[port] = append(ranges[port], everywhere...)
				ranges[port] = append(ranges[port], r.Net.Prefixes()...)
			}
		}
	}
	for port, list := range ranges {
		list = append(slices.Clip(list), onEvery...)
		slices.SortFunc(list, netip.Prefix.Compare)
		ranges[port] = slices.Compact(list)
		if capacity -= len(ranges[port]); capacity < 0 {
			return nil, fmt.Errorf("the rules about addresses distinguish more than the %d ranges that fit in the kernel's map: "+
				"a range that is denied without a port counts for each port that a rule names", maxRules)
		}
	}
	return ranges, nil
}

func protocol(k kind) string {
	if k&kindUDP != 0 {
		return "udp"
	}
	return "tcp"
}

// decision returns the verdict on a range of addresses on a port.
type decision func(port uint16, p netip.Prefix) policy.Verdict

// decider returns the decision function for a kind.
func decider(c *policy.Compiled, k kind) decision {
	if k&kindListen == 0 {
		return c.Directly(protocol(k))
	}
	return func(port uint16, p netip.Prefix) policy.Verdict {
		return c.CheckPrefix(&netname.Target{Protocol: protocol(k), Port: port, Listen: true}, p)
	}
}

func (img *Image) add(k kind, port uint16, ranges []netip.Prefix, decide decision, otherwise action) {
	for _, p := range ranges {
		r := rule{kind: k, port: port, at: p, does: otherwise, verdict: decide(port, p)}
		if r.verdict.Allow {
			r.does = direct
		}
		img.rules = append(img.rules, r)
	}
}
