package egress

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// budget limits the memory for what a session can make large: long heads and hellos, and connections whose TLS ends here.
type budget struct{ used atomic.Int64 }

// Costs, each at its maximum.
const (
	maxBudget = 256 << 20

	shortHead    = 4 << 10      // costs nothing
	headCost     = maxHead      // of a longer one
	responseCost = 4 * maxHead  // of a server's long one, which is parsed and written again
	helloCost    = 4 * maxHello // of a long hello: the bytes, twice while they grow, and crypto/tls's
	connCost     = 64 << 10     // of TLS with one side
	h2ConnCost   = connCost + maxHead + h2Window + h2Frame

	h2Window   = 256 << 10        // unread bytes of all bodies on a connection
	h2Frame    = 16 << 10         // the minimum that HTTP/2 allows
	h2Streams  = 100              // at a time on a connection
	streamCost = maxHead + 64<<10 // the response's head, goroutines and buffers; the request's head costs its length
	maxScratch = 512 << 10        // in net/http for a body to a server with frames of that size
)

// reserve reserves n bytes until release is called, or fails.
func (b *budget) reserve(n int64) (release func(), err error) {
	if b.used.Add(n) > maxBudget {
		b.used.Add(-n)
		return func() {}, errBudget
	}
	return sync.OnceFunc(func() { b.used.Add(-n) }), nil
}

// errBudget is the reason of a denial for lack of memory.
var errBudget = fmt.Errorf("the open connections of this session may use %d MiB of toolguard's memory", maxBudget>>20)

// budgetConn is a connection that releases its part of the budget when it closes.
type budgetConn struct {
	net.Conn
	release func()
}

func (c *budgetConn) Close() error {
	c.release()
	return c.Conn.Close()
}
