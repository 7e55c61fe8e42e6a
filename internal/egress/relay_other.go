//go:build !linux

package egress

import "net"

// relay copies one direction until it ends, and says so to the other side.
func relay(dst, src net.Conn) { plainRelay(dst, src) }
