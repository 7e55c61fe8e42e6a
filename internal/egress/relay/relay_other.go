//go:build !linux

package relay

import "net"

// Transfer copies n bytes, or everything if n is negative.
func Transfer(dst, src net.Conn, n int64) error { return transferMemory(dst, src, n) }
