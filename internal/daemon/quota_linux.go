package daemon

import (
	"context"
	"time"

	"github.com/toolguard/toolguard/internal/daemon/peer"
)

// Limits bound what one user may use. They apply to root, too.
type Limits struct {
	Sessions    int `toml:"sessions"`    // at a time
	Networks    int `toml:"networks"`    // of them, those that have egress
	Connections int `toml:"connections"` // at a time
	Bodies      int `toml:"-"`           // long requests (with a policy) at a time; further ones wait
	Policies    int `toml:"policies"`    // bytes of policies, of all of the user's sessions together
	Lines       int `toml:"lines"`       // of the kernel's capacity for policies, of all of the user's sessions together
}

// DefaultLimits leave capacity for several users: the kernel's tables have 1,024 sessions and 131,072 lines.
var DefaultLimits = Limits{Sessions: 128, Networks: 32, Connections: 256, Bodies: 4, Policies: 64 << 20, Lines: 32768}

// Parsing a body uses many times its size, at most 100 MiB with maxValues values. So the number of bodies that are parsed at a time bounds
// toolguardd's memory. No policy that can be enforced has as many values.
const (
	maxBodies = 4
	maxValues = 1 << 19
)

// usage is what sessions use: lines of the kernel's capacity for policies, and the size of the policies.
type usage struct{ sessions, networks, lines, size int }

func (t usage) plus(u usage) usage {
	return usage{t.sessions + u.sessions, t.networks + u.networks, t.lines + u.lines, t.size + u.size}
}

func (t usage) minus(u usage) usage {
	return usage{t.sessions - u.sessions, t.networks - u.networks, t.lines - u.lines, t.size - u.size}
}

// sizeOf is the size of the policy in force of a session, with those of its outer sessions; 0: no session.
func (d *Daemon) sizeOf(number uint64) int {
	s, err := d.session(number)
	if err != nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.Sizes[s.record.Generation]
}

// quotaUsage is what a session uses of its quota.
func (s *session) quotaUsage() usage {
	t := usage{sessions: 1, lines: int(s.lines.Load()), size: int(s.size.Load())}
	if s.network != nil {
		t.networks = 1
	}
	return t
}

// reserve reserves quota until done, or returns an error. It waits a moment for ended sessions, which the kernel frees late.
func (d *Daemon) reserve(key peer.QuotaKey, more usage) (done func(), err error) {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		done, leaving, err := d.tryReserve(key, more)
		if err == nil || !leaving || time.Since(began) > time.Second {
			return done, err
		}
	}
}

// tryReserve also reports whether only ended sessions prevent the reservation.
func (d *Daemon) tryReserve(key peer.QuotaKey, more usage) (done func(), leaving bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.reserved[key].plus(d.leaving[key]).plus(more)
	for _, s := range d.sessions {
		if s.quotaKey() == key {
			all = all.plus(s.quotaUsage())
		}
	}
	if err := d.cfg.Limits.allow(key, all, more); err != nil {
		return nil, d.cfg.Limits.allow(key, all.minus(d.leaving[key]), more) == nil, err
	}
	return d.addUsage(d.reserved, key, more), false, nil
}

// addUsage adds usage until done. The caller has locked mu.
func (d *Daemon) addUsage(in map[peer.QuotaKey]usage, key peer.QuotaKey, more usage) (done func()) {
	in[key] = in[key].plus(more)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if in[key] = in[key].minus(more); in[key] == (usage{}) {
			delete(in, key)
		}
	}
}

// allow returns an error if the usage all, of which more is new, exceeds the limits.
func (l Limits) allow(key peer.QuotaKey, all, more usage) error {
	switch {
	case more.sessions > 0 && all.sessions > l.Sessions:
		return reject(429, "user %d has %d sessions already, the most that one user may have ('toolguard sessions list')", key.UID, all.sessions-1)
	case more.networks > 0 && all.networks > l.Networks:
		return reject(429, "user %d has %d sessions whose network rules toolguardd enforces, the most that one user may have "+
			"('toolguard sessions list')", key.UID, all.networks-1)
	case more.lines > 0 && all.lines > l.Lines, more.size > 0 && all.size > l.Policies:
		return reject(429, "the policies of user %d's sessions would use %d lines in the kernel and %d bytes, and one user may use %d and %d "+
			"('toolguard sessions list'; root can raise 'lines' and 'policies' in toolguardd.toml)", key.UID, all.lines, all.size, l.Lines, l.Policies)
	}
	return nil
}

// acquireTurn waits until fewer than Limits.Bodies requests of the same quota key are being processed.
func (d *Daemon) acquireTurn(ctx context.Context, key peer.QuotaKey) (done func(), err error) {
	d.mu.Lock()
	c := d.turns[key]
	if c == nil {
		c = make(chan struct{}, d.cfg.Limits.Bodies)
		d.turns[key] = c
	}
	d.mu.Unlock()
	return acquire(ctx, c, reject(429, "%d long requests of user %d are being processed already, the most that one user may have: try "+
		"again when those are done", cap(c), key.UID))
}

// waiting bounds how long a request waits for other requests.
const waiting = 30 * time.Second

// acquire acquires one of several slots. It returns late after the time waiting.
func acquire(ctx context.Context, slots chan struct{}, late error) (done func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(waiting):
		return nil, late
	}
}

// evict removes an ended session. The session counts in its user's quota until done.
func (d *Daemon) evict(s *session) (done func()) {
	d.remove(s.id)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, s.number)
	return d.addUsage(d.leaving, s.quotaKey(), usage{sessions: 1, lines: int(s.lines.Load())})
}
