package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/netname"
)

// Way is one way in which a policy lets a name be reached: a target about it that CheckNet allows.
type Way struct {
	Target  netname.Target
	Verdict Verdict
}

// Open returns the part of a name that wildcards leave open to the command, with the wildcard's rule: of each authority the shortest part
// by any of these ways, and of these the longest. It's "" if every authority names the host, or grants more than names.
func (c *Compiled) Open(name string, ways []Way) (open string, v Verdict) {
	for i, l := range c.Layers {
		part, rule := l.open(name, ways)
		if len(part) > len(open) {
			open, v = part, Verdict{Layer: int16(i), Rule: rule}
		}
	}
	return open, v
}

func (l *Layer) open(name string, ways []Way) (open string, rule int32) {
	if l.Net == nil {
		return "", NoMatch
	}
	open, rule = name, NoMatch
	for _, w := range ways {
		r := l.Net.Find(&w.Target)
		if r == nil || r.Net.Suffix == "" {
			return "", NoMatch
		}
		if part := strings.TrimSuffix(name, "."+r.Net.Suffix); len(part) < len(open) {
			open, rule = part, r.Index
		}
	}
	return open, rule
}

// Direct reports whether the content of such a connection can't be decided on: its name alone decides.
func (w *Way) Direct() bool { return slices.Contains(opaqueSchemes, w.Target.Scheme) }

// IsOpaque reports whether connections of a scheme name no host.
func IsOpaque(scheme string) bool { return scheme != "" && slices.Contains(opaqueSchemes, scheme) }

// Ways returns the ways in which a policy allows a normalised name to be reached, as far as its rules distinguish them; a default that
// allows adds more ports. If there is none, the verdict has the reason: the name must not be looked up.
func (c *Compiled) Ways(name string) ([]Way, Verdict) {
	why := c.CheckNet(&netname.Target{Scheme: "https", Protocol: "tcp", Host: name, Port: netname.DefaultPort("https")})
	var ways []Way
	for _, t := range c.waysTo(name) {
		if v := c.CheckNet(&t); v.Allow {
			ways = append(ways, Way{t, v})
		}
	}
	return ways, why
}

// HasRuleFor reports whether some rule grants a normalised name anything.
func (c *Compiled) HasRuleFor(name string) (has bool) {
	for _, l := range c.Layers {
		if l.Net != nil {
			l.Net.EachHost(&netname.Target{Host: name}, func(r *Rule) { has = has || r.Net.Allow && !r.Net.Listen })
		}
	}
	return has
}

// waysTo returns every target for a name that some layer may concern. What two layers allow together is as narrow as the narrower of them,
// which is among these.
func (c *Compiled) waysTo(name string) []netname.Target {
	var all []netname.Target
	for _, scheme := range netname.Schemes() {
		all = append(all, netname.Target{Scheme: scheme, Protocol: "tcp", Host: name, Port: netname.DefaultPort(scheme)})
	}
	for _, l := range c.Layers {
		if l.Net == nil {
			continue
		}
		l.Net.EachHost(&netname.Target{Host: name}, func(r *Rule) {
			if r.Net.Allow && !r.Net.Listen {
				all = append(all, r.Net.ways(name)...)
			}
		})
	}
	return all
}

// ways returns the targets for a name that a rule concerns beyond the default ones.
func (n *CompiledNet) ways(name string) []netname.Target {
	if n.Port == 0 && !n.DependsOnContent() {
		return nil
	}
	var l []netname.Target
	schemes := n.schemes()
	for _, scheme := range slices.Sorted(maps.Keys(schemes)) {
		port := schemes[scheme]
		if n.Port != 0 {
			port = uint16(n.Port)
		}
		if port != 0 {
			l = append(l, netname.Target{Scheme: scheme, Host: name, Port: port, Protocol: n.Proto, Path: n.Path})
		}
	}
	return l
}

// schemes returns the schemes that a rule may concern, with their ports; "" is a raw connection, which has none.
func (n *CompiledNet) schemes() map[string]uint16 {
	switch {
	case n.Proto == "udp":
		return map[string]uint16{"": 0}
	case n.Scheme != "":
		return map[string]uint16{n.Scheme: netname.DefaultPort(n.Scheme)}
	}
	all := map[string]uint16{}
	for _, s := range netname.Schemes() {
		all[s] = netname.DefaultPort(s)
	}
	if n.DependsOnContent() {
		maps.DeleteFunc(all, func(s string, _ uint16) bool { return IsOpaque(s) })
	} else {
		all[""] = 0
	}
	return all
}

// AskedPorts returns the TCP ports on which the content of a connection decides, in order: a rule names a scheme, a path or a method, or
// denies a name.
func (c *Compiled) AskedPorts() []uint16 {
	ports := map[uint16]bool{}
	for _, l := range c.Layers {
		for _, r := range l.Net.Rules() {
			r.Net.askOn(ports)
		}
	}
	return slices.Sorted(maps.Keys(ports))
}

// askOn adds the ports on which a rule depends on the content of connections.
func (n *CompiledNet) askOn(ports map[uint16]bool) {
	for scheme, port := range n.schemes() {
		if n.Port != 0 {
			port = uint16(n.Port)
		}
		if port != 0 && n.asks(scheme, port) {
			ports[port] = true
		}
	}
}

// asks reports whether a rule depends on the content of connections to a port.
func (n *CompiledNet) asks(scheme string, port uint16) bool {
	byName := n.Name != "" && n.Name != "localhost" || n.Suffix != ""
	web := port == netname.DefaultPort("http") || port == netname.DefaultPort("https")
	switch {
	case n.Listen || n.Proto != "tcp":
		return false
	case n.DependsOnContent(), byName && !n.Allow:
		return true
	case n.Scheme != "":
		return !IsOpaque(scheme)
	}
	return byName && web
}

// Intercepts reports whether the policy depends on the content of TLS, and allows its interception.
func (c *Compiled) Intercepts() bool {
	may, must := false, false
	for _, l := range c.Layers {
		may = may || l.TLSIntercept
		for _, r := range l.Net.Rules() {
			must = must || r.Net.needsReading()
		}
	}
	return may && must
}

// needsReading reports whether a rule depends on the content of TLS.
func (n *CompiledNet) needsReading() bool {
	return n.Scheme == "wss" || n.DependsOnContent() && n.Scheme != "http" && n.Scheme != "ws"
}

// setReadsTLS sets in every table whether TLS is intercepted.
func (c *Compiled) setReadsTLS() {
	reads := c.Intercepts()
	for _, l := range c.Layers {
		if l.Net != nil {
			l.Net.ReadsTLS = reads
		}
	}
}
