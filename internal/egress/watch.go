package egress

// transfer is an open connection or request.
type transfer struct {
	decide func(*Server) decision  // by another policy
	end    func(*Server, decision) // after a denial
}

// watch ends a transfer when a later policy denies it, until unwatch is called.
func (s *Server) watch(p *transfer) (unwatch func()) {
	s.policyMu.RLock()
	latest := s.latest
	s.transfers.Store(p, nil)
	s.policyMu.RUnlock()
	if latest != s { // changed since the decision
		latest.recheck(p)
	}
	return func() { s.transfers.Delete(p) }
}

// recheck decides on a transfer by the policy that has come into force.
func (s *Server) recheck(p *transfer) {
	r := p.decide(s)
	if r.Allow {
		return
	}
	if _, ends := s.transfers.LoadAndDelete(p); ends {
		r.note = "it was open when another policy came into force"
		p.end(s, r)
	}
}

// watch is Server.watch for a decision on a connection. It is decided again with the names that the address has now: the client's name was
// bound to the address then.
func (c *conn) watch(decide func(*conn) decision, deny func(*conn, decision), end func()) (unwatch func()) {
	saved := *c
	saved.pinnedNames = append([]string{}, c.names()...)
	under := func(s *Server) *conn {
		now := saved
		now.s = s
		return &now
	}
	return c.s.watch(&transfer{
		decide: func(s *Server) decision { return decide(under(s)) },
		end: func(s *Server, r decision) {
			deny(under(s), r)
			end()
		},
	})
}

// onClose adds a function that runs when the connection closes.
func (c *conn) onClose(f func()) {
	stop := c.stop
	c.stop = func() bool {
		f()
		return stop()
	}
}

// watch is conn.watch for a request.
func (hc *httpConn) watch(r *request, end func()) (unwatch func()) {
	saved := request{head: &head{method: r.method, target: r.head.target}, dest: r.dest, alternatives: r.alternatives, url: r.url, viaProxy: r.viaProxy, webSocket: r.webSocket}
	under := func(c *conn) (*httpConn, *request) {
		now, headCopy := saved, *saved.head
		now.head = &headCopy
		return &httpConn{c: c, proto: hc.proto, tlsHost: hc.tlsHost}, &now
	}
	return hc.c.watch(func(c *conn) decision {
		hc, r := under(c)
		return hc.decide(r)
	}, func(c *conn, v decision) {
		hc, r := under(c)
		hc.deny(r, v)
	}, end)
}
