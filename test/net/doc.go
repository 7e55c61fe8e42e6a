// Package net tests the network through the real binary, as root: what programs that know nothing of toolguard reach by name and by
// address, and what they're refused, beside the same without toolguard. The internet is the test itself, in a network namespace of
// its own: public addresses on loopback, a name server, servers for HTTP, TLS and others.
package net
