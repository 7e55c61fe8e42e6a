package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/netname"
)

// CompiledNet is a net rule with its host normalised. At most one of Name, Suffix and Prefix is set; none of them
// means every address, which only a rule with listen may do.
type CompiledNet struct {
	NetRule
	Name   string       // an exact host name; "localhost" stands for its addresses too
	Suffix string       // "example.com" for *.example.com
	Prefix netip.Prefix // an address (of full length) or a range
	Path   []string     // the segments of path_prefix, decoded
	Proto  string       // "tcp" or "udp"; "" is both, for a rule about every port
}

func (c *compiler) layerNet(src *SourceLayer, ids *ruleIDs) *NetTable {
	var rules []*Rule
	for i := range src.Net {
		s := &src.Net[i]
		id := ids.next("net", s.Position.File)
		n, hint, err := compileNet(s, src.TLSIntercept)
		if err != nil {
			at := s.Position
			if errors.As(err, new(hostError)) {
				at = at.At(s.Value)
			}
			c.fail(at, fmt.Errorf("%s: %w", id, err), hint)
			continue
		}
		rules = append(rules, c.add(&Rule{ID: id, Authority: src.Authority, Resource: Net, Position: s.Position, Net: n}))
	}
	return newNetTable(rules)
}

func compileNet(s *NetRule, intercept bool) (n *CompiledNet, hint string, err error) {
	n = &CompiledNet{NetRule: *s, Proto: "tcp"}
	if hint, err := n.host(); err != nil {
		return nil, hint, hostError{err}
	}
	for _, check := range []func() (string, error){n.ports, n.http, func() (string, error) { return n.tls(intercept) }} {
		if hint, err := check(); err != nil {
			return nil, hint, err
		}
	}
	return n, "", nil
}

// hostError is an error in the host, not in the combination of keys.
type hostError struct{ error }

func (e hostError) Unwrap() error { return e.error }

const hostForms = `a host is a name, "*.example.com", "localhost", an IP address or a range such as "10.0.0.0/8"; ` +
	`scheme, port and path_prefix are keys of their own`

func (n *CompiledNet) host() (string, error) {
	h := n.Host
	if n.Listen && h == "" {
		return "", nil
	}
	if strings.Contains(h, "/") {
		p, err := netip.ParsePrefix(h)
		if err != nil || p.Addr().Zone() != "" {
			return hostForms, fmt.Errorf("%q is neither a host nor a range of addresses", h)
		}
		if p.Addr().Is4In6() {
			return "write it in IPv4 form", fmt.Errorf("%q is a range of IPv4 addresses in IPv6 form", h)
		}
		if p != p.Masked() {
			return fmt.Sprintf("write %q", p.Masked()), fmt.Errorf("%q has bits beyond its length", h)
		}
		n.Prefix = p
		return "", nil
	}
	wild, isWild := strings.CutPrefix(h, "*.")
	if isWild {
		h = wild
	}
	name, addr, err := netname.Parse(h)
	switch {
	case err != nil:
		return hostForms, fmt.Errorf("host: %w", err)
	case isWild && addr.IsValid(), isWild && name == "localhost":
		return hostForms, fmt.Errorf("%q has no names beneath it", n.Host)
	case n.Listen && (isWild || !addr.IsValid() && name != "localhost"):
		return `with listen the host is an address, a range, "localhost", or left out for all`, fmt.Errorf("%q can't be listened on", n.Host)
	case isWild:
		n.Suffix = name
	case addr.IsValid():
		n.Prefix = netip.PrefixFrom(addr, addr.BitLen())
	default:
		n.Name = name
	}
	return "", nil
}

func (n *CompiledNet) ports() (string, error) {
	switch n.Protocol {
	case "":
		if n.EveryPort() {
			n.Proto = ""
		}
	case "tcp":
	case "udp":
		n.Proto = "udp"
	default:
		return "", fmt.Errorf("protocol %q isn't tcp or udp", n.Protocol)
	}
	if n.Port < 0 || n.Port > 65535 {
		return "", fmt.Errorf("port %d isn't between 1 and 65535", n.Port)
	}
	if n.Scheme != "" {
		if netname.DefaultPort(n.Scheme) == 0 {
			return "for raw connections leave the scheme out and name the port", fmt.Errorf("scheme %q isn't one of %s", n.Scheme, netname.KnownSchemes)
		}
	}
	switch {
	case n.Proto == "udp" && n.Scheme != "":
		return "for udp name the port alone", fmt.Errorf("scheme %q isn't spoken over udp", n.Scheme)
	case n.Proto == "udp" && n.Port == 0 && !n.EveryPort():
		return "add port", fmt.Errorf("a rule for udp names its port")
	case n.OwnServers() && n.Name != "localhost":
		return `add port, or write host = "localhost" for servers of the session's own on any port`, fmt.Errorf("a rule with listen names its port")
	case n.Listen && (n.Scheme != "" || n.PathPrefix != "" || n.Methods != nil):
		return "", fmt.Errorf("a rule with listen has no scheme, path_prefix or methods")
	}
	return "", nil
}

func (n *CompiledNet) http() (string, error) {
	if n.PathPrefix != "" {
		if n.PathPrefix[0] != '/' || strings.ContainsAny(n.PathPrefix, "?# \\") || strings.ContainsFunc(n.PathPrefix, netname.IsControl) {
			return `it begins with "/" and has no query`, fmt.Errorf("path_prefix %q isn't a path", n.PathPrefix)
		}
		segs, odd, err := netname.PathSegments(n.PathPrefix)
		if err != nil || odd {
			return "use plain segments: no dots, empty segments, parameters or encoded slashes", fmt.Errorf("path_prefix %q could be read in more than one way", n.PathPrefix)
		}
		n.Path = segs
	}
	if n.Methods != nil && len(n.Methods) == 0 {
		return "leave it out for every method", fmt.Errorf("methods is empty, so the rule would match nothing")
	}
	for _, m := range n.Methods {
		if m == "" || strings.Trim(m, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != "" {
			return "", fmt.Errorf("method %q isn't one in capitals, such as GET", m)
		}
	}
	if !n.DependsOnContent() {
		return "", nil
	}
	switch n.Scheme {
	case "", "http", "https", "ws", "wss":
	default:
		return "", fmt.Errorf("path_prefix and methods don't apply to scheme %q", n.Scheme)
	}
	if n.Proto == "udp" {
		return "", fmt.Errorf("path_prefix and methods don't apply to udp")
	}
	return "", nil
}

// EveryPort reports whether the rule denies its addresses on every port: it names nothing else, except a protocol.
func (n *CompiledNet) EveryPort() bool {
	addresses := n.Prefix.IsValid() || n.Name == "localhost"
	return addresses && !n.Allow && !n.Listen && n.Scheme == "" && n.Port == 0 && !n.DependsOnContent()
}

// OwnServers reports whether the rule is about the session's own servers: they may listen on any free port of loopback, and the session may
// connect to them.
func (n *CompiledNet) OwnServers() bool { return n.Listen && n.Port == 0 }

// DependsOnContent reports whether the rule depends on the requests of a connection: their paths or methods.
func (n *CompiledNet) DependsOnContent() bool { return n.PathPrefix != "" || n.Methods != nil }

func (n *CompiledNet) tls(intercept bool) (string, error) {
	if intercept || !n.DependsOnContent() || n.Scheme == "http" || n.Scheme == "ws" {
		return "", nil
	}
	what := "path_prefix"
	if n.PathPrefix == "" {
		what = "methods"
	}
	return `set "tls_intercept = true" in [access], or scheme = "http" in the rule`,
		fmt.Errorf("%s on https can't be decided without decrypting it", what)
}
