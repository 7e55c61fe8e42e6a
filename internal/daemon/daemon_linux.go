package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/daemon/forward"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/session/network"
)

// Config is the configuration of toolguardd.
type Config struct {
	State    string // the folder of its files
	Policies string // the folder of the host's policies
	Version  string
	Log      *slog.Logger
	Limits   Limits
	Audit    *audit.Log // nil: events are not recorded
}

// freeMemoryDelay is the time without a new session and without a read policy after which unused memory returns to the kernel. Reading a
// policy needs many times its size.
const freeMemoryDelay = 10 * time.Second

// Daemon is toolguardd.
type Daemon struct {
	cfg         Config
	started     time.Time
	kernel      *loader.Kernel // nil: no session can be made
	unavailable string         // why no session can be made
	hub         hub
	counts      *counts

	denials auditDenials // of sessions that toolguardd doesn't own
	pid     int
	mounts  uint32 // the mount namespace of the machine's first process; 0: unknown

	forwarder *forward.Forwarder

	noNetwork string // why no session's network rules can be enforced; "": they can

	bodies     chan struct{}  // one in it for each body that is being parsed, of all users
	stopping   chan struct{}  // closed when toolguardd stops
	freeMemory *time.Timer    // returns unused memory to the kernel
	streams    sync.WaitGroup // the goroutines that write events to clients

	mu       sync.Mutex
	sessions map[uint64]*session
	reserved map[peer.QuotaKey]usage         // for sessions that are being created
	leaving  map[peer.QuotaKey]usage         // by ended sessions that the kernel hasn't freed
	turns    map[peer.QuotaKey]chan struct{} // one in it for each request that is under way
}

// New makes a toolguardd, which takes over the sessions of the former one.
func New(cfg Config) (*Daemon, error) {
	stream, err := event.NewStream()
	if err != nil {
		return nil, err
	}
	stream.Version = cfg.Version
	all := newCounts()
	if cfg.Audit != nil {
		cfg.Audit.Observe(all.onDisk)
	}
	d := &Daemon{
		counts: all, cfg: cfg, started: time.Now(), pid: os.Getpid(), stopping: make(chan struct{}), hub: hub{stream: stream, counts: all, audit: cfg.Audit, followers: map[*follower]bool{}},
		sessions: map[uint64]*session{}, reserved: map[peer.QuotaKey]usage{}, leaving: map[peer.QuotaKey]usage{}, turns: map[peer.QuotaKey]chan struct{}{}, bodies: make(chan struct{}, maxBodies),
		freeMemory: time.AfterFunc(freeMemoryDelay, debug.FreeOSMemory),
	}
	d.forwarder = forward.New(d.started, d.stopping)
	d.denials = auditDenials{clients: map[int]int{}, idle: time.AfterFunc(idleTime, d.closeIdle)}
	if err := d.openState(); err != nil {
		return nil, err
	}
	if d.mounts, err = loader.MountNamespace("1"); err != nil {
		d.log("no session can be made while the host has policies: %v", err)
	}
	if err := d.denials.probe(); err != nil {
		d.log("denials by Landlock can't be reported to ordinary users: %v", err)
	}
	if err = loader.Ready(true); err == nil {
		d.kernel, err = loader.Open(d.note)
	}
	if err != nil {
		d.unavailable = err.Error()
		d.log("no session can be made here: %v", err)
		return d, nil
	}
	if err := network.Preload(); err != nil {
		d.noNetwork = err.Error()
		d.log("the network rules of no session can be enforced here: %v", err)
	} else if err := network.CanCloseSockets(); err != nil {
		d.log("connections of a session stay open when a reload no longer allows their address: %v", err)
	}
	d.takeOver()
	d.freeMemory.Reset(freeMemoryDelay) // loading may have taken longer
	return d, nil
}

func (d *Daemon) log(format string, args ...any) { d.cfg.Log.Warn(fmt.Sprintf(format, args...)) }
func (d *Daemon) note(text string)               { d.cfg.Log.Info(text) }

// statusError is an error with the status of its answer.
type statusError struct {
	status int
	error
}

func reject(status int, format string, args ...any) error {
	return &statusError{status, fmt.Errorf(format, args...)}
}

func (d *Daemon) session(number uint64) (*session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.sessions[number]; s != nil {
		return s, nil
	}
	return nil, reject(404, "there is no session %016x", number)
}

// all returns the sessions that a user may see, the oldest first.
func (d *Daemon) all(uid int) []*session {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*session
	for _, s := range d.sessions {
		if mayAsk(uid, s.uid) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *session) int { return a.began.Compare(b.began) })
	return list
}

// nested lists the sessions that are nested directly in another one.
func (d *Daemon) nested(number uint64) []*session {
	return slices.DeleteFunc(d.all(0), func(s *session) bool { return s.from != number })
}
