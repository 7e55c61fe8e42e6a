// Package relay copies bytes from one connection to another and forwards how each direction ends. On Linux the kernel moves the bytes
// between TCP connections (splice), so an idle connection has neither a buffer nor a pipe.
package relay
