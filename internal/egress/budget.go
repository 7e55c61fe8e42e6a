package egress

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// budget is the memory that a session may have here for what it can make large at will: long heads and hellos, and connections whose TLS is ended
// here. The zero value has nothing taken.
type budget struct{ held atomic.Int64 }

// What is counted, each at the most that it can come to.
const (
	maxHeld = 256 << 20

	shortHead  = 4 << 10      // a head like this isn't counted
	holdsHead  = maxHead      // one that is longer
	holdsReply = 4 * maxHead  // a long one of a server's, which is taken apart and written again
	holdsHello = 4 * maxHello // a hello that isn't short: what was read, twice while it grows, and TLS's own
	holdsTLS   = 64 << 10     // TLS with one side
	holdsH2    = holdsTLS + maxHead + h2Window + h2Frame

	h2Window    = 256 << 10        // what may be on its way, of all bodies on a connection
	h2Frame     = 16 << 10         // what is read before anything is made of it: the least that is allowed
	h2Streams   = 100              // at once on one
	holdsStream = maxHead + 64<<10 // the response's head, goroutines and buffers; the request's head is counted as it is
	maxScratch  = 512 << 10        // of net/http for a body to a server that takes frames as long as that
)

// take takes so much, all of it or nothing, until what it returns is called.
func (b *budget) take(n int64) (giveBack func(), err error) {
	if b.held.Add(n) > maxHeld {
		b.held.Add(-n)
		return func() {}, errBudget
	}
	return sync.OnceFunc(func() { b.held.Add(-n) }), nil
}

// errBudget is why something is denied that there's no space for.
var errBudget = fmt.Errorf("what is open in this session may hold %d MiB of toolguard's memory", maxHeld>>20)

// counted is a connection that holds a part of the budget.
type counted struct {
	net.Conn
	giveBack func()
}

func (c *counted) Close() error {
	c.giveBack()
	return c.Conn.Close()
}
