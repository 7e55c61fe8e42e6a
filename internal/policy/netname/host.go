package netname

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/idna"
)

// profile maps a name as a browser does and then insists that what comes out is a host name. Not idna.Lookup: it accepts
// "", "." and "a..b" and maps "xn--" to nothing. Like the ranges below it's made at the first use: most starts
// need none of them.
var profile = sync.OnceValue(func() *idna.Profile {
	return idna.New(idna.MapForLookup(), idna.StrictDomainName(true), idna.VerifyDNSLength(true),
		idna.CheckHyphens(true), idna.CheckJoiners(true), idna.BidiRule(), idna.Transitional(false))
})

// maxName bounds the work on a name before it's encoded: 253 characters, of four bytes each.
const maxName = 4*253 + 1

var errNotHost = errors.New("not a host name")

// Parse parses the host of a target: a name in its one normal form, or an address. It rejects a host that another program could
// read as another one.
func Parse(s string) (name string, addr netip.Addr, err error) {
	if addr, err = netip.ParseAddr(s); err == nil {
		if addr.Zone() != "" {
			return "", netip.Addr{}, fmt.Errorf("%q has a zone", s)
		}
		return "", addr.Unmap(), nil
	}
	name, err = Normalize(s)
	return name, netip.Addr{}, err
}

// Normalize returns a host name in ASCII and lower case, without a dot at its end. It rejects what isn't a host name,
// and every spelling of an address.
func Normalize(s string) (string, error) {
	if len(s) > maxName {
		return "", fmt.Errorf("a name of %d bytes is %w", len(s), errNotHost)
	}
	name := strings.TrimSuffix(s, ".")
	if !plainASCII(name) {
		var err error
		if name, err = profile().ToASCII(name); err != nil {
			return "", fmt.Errorf("%q is %w: %w", s, errNotHost, err)
		}
		if again, err := profile().ToASCII(name); err != nil || again != name {
			return "", fmt.Errorf("%q is %w", s, errNotHost)
		}
	}
	name = strings.ToLower(name)
	if !isHostName(name) {
		return "", fmt.Errorf("%q is %w", s, errNotHost)
	}
	if endsInNumber(name) {
		return "", fmt.Errorf("%q is a number or an address in an unusual form, not a name", s)
	}
	return name, nil
}

// plainASCII reports whether a name needs no IDNA: ASCII, and no label that claims to be encoded.
func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	for label := range strings.SplitSeq(s, ".") {
		if len(label) >= 4 && strings.EqualFold(label[:4], "xn--") {
			return false
		}
	}
	return true
}

// isHostName reports whether a lower-case name is made of labels of letters, digits, "-" and "_", within the limits of the
// DNS (RFC 1035, 2.3.4). "_" isn't in the strict rule but in many real names.
func isHostName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return false
			}
		}
	}
	return true
}

// endsInNumber reports whether inet_aton or a browser could read a name as an IPv4 address: "127.1", "0x7f.1",
// "2130706433" (the WHATWG URL standard's "ends in a number").
func endsInNumber(s string) bool {
	last := s[strings.LastIndexByte(s, '.')+1:]
	if strings.Trim(last, "0123456789") == "" {
		return true
	}
	return strings.HasPrefix(last, "0x") && strings.Trim(last[2:], "0123456789abcdef") == ""
}

// Loopback is the list of addresses of the name "localhost" (RFC 6761, 6.3).
var Loopback = [2]netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}

// IsSpecial reports whether an address isn't one of the public internet: loopback, link-local, private, shared, reserved,
// multicast, or a cloud's metadata service; and whether an IPv6 address carries such an IPv4 one.
func IsSpecial(a netip.Addr) bool {
	a = a.Unmap()
	if a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
		return true
	}
	for _, p := range specialRanges() {
		if p.Contains(a) {
			return true
		}
	}
	inside := EmbeddedIPv4(a)
	return inside.IsValid() && IsSpecial(inside)
}

// specialRanges are those for which netip has no method (IANA special-purpose address registries).
var specialRanges = sync.OnceValue(func() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),        // this network; on Linux 0.0.0.0 is the machine itself
		netip.MustParsePrefix("100.64.0.0/10"),    // carrier-grade NAT; Alibaba's metadata is 100.100.100.200
		netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments; Oracle's metadata is 192.0.0.192
		netip.MustParsePrefix("168.63.129.16/32"), // Azure's wire server
		netip.MustParsePrefix("198.18.0.0/15"),    // benchmarks
		netip.MustParsePrefix("240.0.0.0/4"),      // reserved, and broadcast
		netip.MustParsePrefix("64:ff9b:1::/48"),   // local NAT64
		netip.MustParsePrefix("fec0::/10"),        // the old site-local
		netip.MustParsePrefix("2001::/32"),        // Teredo: the address inside is obscured
		netip.MustParsePrefix("::/96"),            // IPv4-compatible: deprecated (RFC 4291, 2.5.5.1)
	}
})

// embedding are IPv6 ranges that carry an IPv4 address at a byte.
var embedding = sync.OnceValue(func() []embedded {
	return []embedded{
		{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64
		{netip.MustParsePrefix("2002::/16"), 2},     // 6to4
	}
})

type embedded struct {
	in netip.Prefix
	at int
}

// EmbeddingRanges returns the ranges of IPv6 addresses that carry those of a range of IPv4.
func EmbeddingRanges(p netip.Prefix) (all []netip.Prefix) {
	for _, e := range embedding() {
		b, v4 := e.in.Addr().As16(), p.Addr().As4()
		copy(b[e.at:], v4[:])
		all = append(all, netip.PrefixFrom(netip.AddrFrom16(b), e.at*8+p.Bits()))
	}
	return all
}

// EmbeddedIPv4 returns the IPv4 address in an IPv6 address that carries one, else invalid.
func EmbeddedIPv4(a netip.Addr) netip.Addr {
	for _, e := range embedding() {
		if e.in.Contains(a) {
			b := a.As16()
			return netip.AddrFrom4([4]byte(b[e.at : e.at+4]))
		}
	}
	return netip.Addr{}
}
