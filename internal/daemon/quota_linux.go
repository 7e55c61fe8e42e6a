package daemon

import (
	"context"
	"time"

	"github.com/toolguard/toolguard/internal/daemon/peer"
)

// Limits bound what one user may take. Root's own requests are bounded too.
type Limits struct {
	Sessions    int `toml:"sessions"`    // at a time
	Networks    int `toml:"networks"`    // of them, those that have egress
	Connections int `toml:"connections"` // at a time
	Bodies      int `toml:"-"`           // requests that take long, with a policy, at a time; others wait
	Policies    int `toml:"policies"`    // bytes of policies, of all of his sessions together
	Lines       int `toml:"lines"`       // of the kernel's room for policies, all of his sessions together
}

// DefaultLimits leave room for several users: the kernel's tables hold 1,024 sessions and 131,072 lines.
var DefaultLimits = Limits{Sessions: 128, Networks: 32, Connections: 256, Bodies: 4, Policies: 64 << 20, Lines: 32768}

// A body takes its size to read, and what it says as many times more as maxValues allows, 100 MiB in all at most. So it's the number of
// those that are parsed at a time that bounds what toolguardd takes. Of honest ones none that is short enough says as much.
const (
	maxBodies = 4
	maxValues = 1 << 19
)

// taken is what somebody's sessions take: lines of the kernel's room for policies, and the policies' own size.
type taken struct{ sessions, networks, lines, size int }

func (t taken) plus(u taken) taken {
	return taken{t.sessions + u.sessions, t.networks + u.networks, t.lines + u.lines, t.size + u.size}
}

func (t taken) minus(u taken) taken {
	return taken{t.sessions - u.sessions, t.networks - u.networks, t.lines - u.lines, t.size - u.size}
}

// sizeOf is what a session's policy in force takes, with those around it; 0 is none.
func (d *Daemon) sizeOf(number uint64) int {
	s, err := d.session(number)
	if err != nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.Sizes[s.record.Generation]
}

// takes is what a session takes.
func (s *session) takes() taken {
	t := taken{sessions: 1, lines: int(s.lines.Load()), size: int(s.size.Load())}
	if s.network != nil {
		t.networks = 1
	}
	return t
}

// reserve makes sure that somebody's sessions may take so much more, and keeps it for him until done. That a session's end takes a moment in
// the kernel, too, isn't held against him.
func (d *Daemon) reserve(key peer.QuotaKey, more taken) (done func(), err error) {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		done, leaving, err := d.tryReserve(key, more)
		if err == nil || !leaving || time.Since(began) > time.Second {
			return done, err
		}
	}
}

// tryReserve also says whether it's for what is leaving alone that it can't be.
func (d *Daemon) tryReserve(key peer.QuotaKey, more taken) (done func(), leaving bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.reserved[key].plus(d.leaving[key]).plus(more)
	for _, s := range d.sessions {
		if s.quotaKey() == key {
			all = all.plus(s.takes())
		}
	}
	if err := d.cfg.Limits.allow(key, all, more); err != nil {
		return nil, d.cfg.Limits.allow(key, all.minus(d.leaving[key]), more) == nil, err
	}
	return d.hold(d.reserved, key, more), false, nil
}

// hold counts what somebody takes until done. It's called by who holds mu.
func (d *Daemon) hold(in map[peer.QuotaKey]taken, key peer.QuotaKey, more taken) (done func()) {
	in[key] = in[key].plus(more)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if in[key] = in[key].minus(more); in[key] == (taken{}) {
			delete(in, key)
		}
	}
}

// allow says whether somebody's sessions may take all that, so much of which they don't yet.
func (l Limits) allow(key peer.QuotaKey, all, more taken) error {
	switch {
	case more.sessions > 0 && all.sessions > l.Sessions:
		return refuse(429, "user %d has %d sessions already, which is as many as one may have ('toolguard sessions list')", key.UID, all.sessions-1)
	case more.networks > 0 && all.networks > l.Networks:
		return refuse(429, "user %d has %d sessions whose rules about the network toolguardd holds, which is as many as one may have "+
			"('toolguard sessions list')", key.UID, all.networks-1)
	case more.lines > 0 && all.lines > l.Lines, more.size > 0 && all.size > l.Policies:
		return refuse(429, "the policies of user %d's sessions would take %d lines in the kernel and %d bytes, and one user may take %d and %d",
			key.UID, all.lines, all.size, l.Lines, l.Policies)
	}
	return nil
}

// turn waits until few enough requests are under way for who asks.
func (d *Daemon) turn(ctx context.Context, key peer.QuotaKey) (done func(), err error) {
	d.mu.Lock()
	c := d.turns[key]
	if c == nil {
		c = make(chan struct{}, d.cfg.Limits.Bodies)
		d.turns[key] = c
	}
	d.mu.Unlock()
	return take(ctx, c, refuse(429, "%d requests of user %d's that take long are under way already, which is as many as one may have: try "+
		"again when those are done", cap(c), key.UID))
}

// waiting bounds how long a request waits for others.
const waiting = 30 * time.Second

// take takes one of a number of places, unless all stay taken for too long.
func take(ctx context.Context, places chan struct{}, late error) (done func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(waiting):
		return nil, late
	}
}

// forget is for a session that is over. It's its user's place in the kernel until done.
func (d *Daemon) forget(s *session) (done func()) {
	d.remove(s.id)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, s.number)
	return d.hold(d.leaving, s.quotaKey(), taken{sessions: 1, lines: int(s.lines.Load())})
}
