package egress

// passage is what is passed on now: a connection, or a request.
type passage struct {
	decide func(*Server) decision  // as it was decided, by another policy
	end    func(*Server, decision) // when that denies it
}

// watch has what is passed on end when another policy comes that denies it, until over is called.
func (s *Server) watch(p *passage) (over func()) {
	s.turn.RLock()
	latest := s.latest
	s.passing.Store(p, nil)
	s.turn.RUnlock()
	if latest != s { // it has come since the decision
		latest.again(p)
	}
	return func() { s.passing.Delete(p) }
}

// again decides on what is passed on by the policy that has come into force.
func (s *Server) again(p *passage) {
	r := p.decide(s)
	if r.Allow {
		return
	}
	if _, ends := s.passing.LoadAndDelete(p); ends {
		r.note = "it was open when another policy came into force"
		p.end(s, r)
	}
}

// watch is Server.watch for what was decided on a connection. By the names that its address has now it's decided on again, as what
// the client said was tied to the address then.
func (f *conn) watch(decide func(*conn) decision, deny func(*conn, decision), end func()) (over func()) {
	then := *f
	then.known = append([]string{}, f.names()...)
	by := func(s *Server) *conn {
		now := then
		now.s = s
		return &now
	}
	return f.s.watch(&passage{
		decide: func(s *Server) decision { return decide(by(s)) },
		end: func(s *Server, r decision) {
			deny(by(s), r)
			end()
		},
	})
}

// untilEnd has something be over with the connection.
func (f *conn) untilEnd(over func()) {
	stop := f.stop
	f.stop = func() bool {
		over()
		return stop()
	}
}

// watch is conn.watch for a request.
func (k *httpConn) watch(r *request, end func()) (over func()) {
	then := request{head: &head{method: r.method, target: r.head.target}, t: r.t, also: r.also, url: r.url, proxy: r.proxy, ws: r.ws}
	by := func(f *conn) (*httpConn, *request) {
		now, h := then, *then.head
		now.head = &h
		return &httpConn{f: f, proto: k.proto, name: k.name}, &now
	}
	return k.f.watch(func(f *conn) decision {
		k, r := by(f)
		return k.decide(r)
	}, func(f *conn, v decision) {
		k, r := by(f)
		k.deny(r, v)
	}, end)
}
