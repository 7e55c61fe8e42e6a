package netname

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// defaultPorts are the known schemes, with the port that a rule or a target without one means.
var defaultPorts = map[string]uint16{"http": 80, "https": 443, "ws": 80, "wss": 443, "ssh": 22, "git": 9418}

// DefaultPort returns the port of a scheme; 0 for one that isn't known.
func DefaultPort(scheme string) uint16 { return defaultPorts[scheme] }

// Schemes returns the known schemes, sorted.
func Schemes() []string { return slices.Sorted(maps.Keys(defaultPorts)) }

const KnownSchemes = "http, https, ws, wss, ssh, git"

// Target is a parsed network target.
type Target struct {
	Scheme   string // "" when unknown: raw TCP or UDP
	Host     string // a normalised name; "" for an address
	Addr     netip.Addr
	Port     uint16
	Protocol string   // "tcp" or "udp"
	Path     []string // decoded segments
	// Odd is set when a server could read the path as another one: dot segments, empty segments, an encoded slash or
	// percent sign, parameters, invalid UTF-8 (isOdd). A grant with a path_prefix never matches such a path; a denial with one always does.
	Odd    bool
	Method string // "" for the connection itself
	Listen bool
}

func (t *Target) String() string {
	scheme := cmp.Or(t.Scheme, t.Protocol)
	s := scheme + "://" + t.HostPort()
	if len(t.Path) > 0 {
		s += "/" + strings.Join(t.Path, "/")
	}
	return s
}

// Dest returns the destination of a connection to the target's address: to the kernel, the unspecified address is the machine itself. A
// socket that listens on it listens on all.
func (t *Target) Dest() netip.Addr {
	if !t.Listen && t.Addr.IsUnspecified() {
		return Loopback[t.Addr.BitLen()/128]
	}
	return t.Addr
}

// HostPort returns the host or address with the port.
func (t *Target) HostPort() string {
	if t.Addr.IsValid() {
		return netip.AddrPortFrom(t.Addr, t.Port).String()
	}
	return t.Host + ":" + strconv.Itoa(int(t.Port))
}

// ParseTarget parses a URL with a known scheme, tcp://host:port or udp://host:port. A target that another program could read as another
// host is an error: it's denied, never repaired. The address is where a connection goes (Dest).
func ParseTarget(s string) (Target, error) {
	t, err := ParseListenTarget(s)
	t.Addr = t.Dest()
	return t, err
}

func ParseListenTarget(s string) (Target, error) {
	if i := strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' || r == '\uFFFD' }); i >= 0 {
		return Target{}, fmt.Errorf("a space, control character or backslash in %q", s)
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return Target{}, fmt.Errorf("%q is no URL and not of the form tcp://host:port", s)
	}
	t := Target{Scheme: strings.ToLower(scheme), Protocol: "tcp"}
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	raw := t.Scheme == "tcp" || t.Scheme == "udp"
	switch port, known := defaultPorts[t.Scheme]; {
	case raw:
		t.Scheme, t.Protocol = "", t.Scheme
	case !known:
		return Target{}, fmt.Errorf("the scheme of %q isn't one of %s, tcp, udp", s, KnownSchemes)
	default:
		t.Port = port
	}
	if err := t.parseAuthority(authority); err != nil {
		return Target{}, err
	}
	switch {
	case t.Port == 0:
		return Target{}, fmt.Errorf("%q has no port", s)
	case raw && tail != "":
		return Target{}, fmt.Errorf("%q has a path, which %s has not", s, t.Protocol)
	}
	return t, t.parsePath(tail)
}

func (t *Target) parseAuthority(a string) error {
	if strings.ContainsAny(a, "@%") {
		return errors.New("user information or an encoded character before the host") // which may be a password: the error doesn't contain it
	}
	host, port, hasPort := a, "", false
	if strings.HasPrefix(a, "[") {
		end := strings.IndexByte(a, ']')
		if end < 0 {
			return fmt.Errorf("no end of the address in %q", a)
		}
		if host, port = a[1:end], a[end+1:]; port != "" {
			if port, hasPort = strings.CutPrefix(port, ":"); !hasPort {
				return fmt.Errorf("%q after an address", port)
			}
		}
		if !strings.Contains(host, ":") {
			return fmt.Errorf("%q in brackets is no IPv6 address", host)
		}
	} else if host, port, hasPort = strings.Cut(a, ":"); strings.Contains(port, ":") {
		return fmt.Errorf("more than one colon in %q: write an IPv6 address in brackets", a)
	}
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '0' || port[0] == '+' {
			return fmt.Errorf("%q is no port", port)
		}
		t.Port = uint16(n)
	}
	var err error
	t.Host, t.Addr, err = Parse(host)
	return err
}

func (t *Target) parsePath(tail string) error {
	p := tail
	if i := strings.IndexAny(p, "?#"); i >= 0 {
		p = p[:i]
	}
	segs, odd, err := PathSegments(p)
	t.Path, t.Odd = segs, odd
	return err
}

var errBadEscape = errors.New("a wrong percent-encoding in the path")

// PathSegments splits and decodes the path of a URL. One slash at the end makes no difference.
func PathSegments(p string) (segs []string, odd bool, err error) {
	p = strings.TrimPrefix(p, "/")
	if p == "" {
		return nil, false, nil
	}
	parts := strings.Split(p, "/")
	if parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	for _, s := range parts {
		d, err := url.PathUnescape(s)
		if err != nil {
			return nil, false, errBadEscape
		}
		odd = odd || isOdd(d)
		segs = append(segs, d)
	}
	return segs, odd, nil
}

// isOdd reports whether some server reads a decoded segment in another way: for none, for the one above, for several, for one without
// what it ends with (Windows drops dots and spaces there), or for what its letters look like or are an overlong form of.
func isOdd(s string) bool {
	return s == "" || strings.HasPrefix(s, "..") || strings.TrimRight(s, ". ") != s || !utf8.ValidString(s) ||
		strings.ContainsAny(s, "/\\;%?#\u2024\u2025\u2044\u2215\uff0e\uff0f\uff3c") || strings.ContainsFunc(s, IsControl)
}

func IsControl(r rune) bool { return r < ' ' || r == 0x7f }
