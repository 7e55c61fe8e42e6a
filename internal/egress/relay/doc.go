// Package relay copies bytes from one connection to another, without a look at them, and carries over how each direction ends. On Linux the
// kernel moves them between two TCP connections (splice), so that a quiet connection holds neither a buffer nor a pipe.
package relay
