// Package netname parses host names, addresses and network targets into one normal form.
//
// Parse, Normalize and ParseTarget accept a name or an address in one spelling only. Every other spelling that a resolver, a browser or a
// server could read as another host is an error, and is never repaired: numbers and short forms of IPv4 (inet_aton), zones, user
// information, encoded characters, empty labels, names that IDNA maps to nothing. An accepted value prints as a text that parses to
// the same value.
//
// A Target also has the path of a URL in decoded segments. A path that servers read in different ways is marked Odd: package policy then
// matches no grant for a path and every denial for one.
//
// IsSpecial recognises the addresses that are not of the public internet, EmbeddedIPv4 the IPv4 address in an IPv6 address that carries one, and
// IsPublicSuffix the domains beneath which anyone can register names.
//
// # Threats
//
// The confined process and the servers that it connects to choose the text. An attacker writes a host so that the policy reads one host and
// the connection goes to another. The package is pure: it resolves no name and opens no file.
package netname
