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
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/session/network"
)

// Config is what toolguardd is told.
type Config struct {
	State    string // the folder of its files
	Policies string // the folder of the host's policies
	Version  string
	Log      *slog.Logger
	Limits   Limits
	Audit    *audit.Log // nil: nobody keeps the events
}

// quiet is how long nothing begins, and no policy is looked at, until memory is given back to the kernel. A session's policy takes many
// times its size to read.
const quiet = 10 * time.Second

// Daemon is toolguardd.
type Daemon struct {
	cfg    Config
	began  time.Time
	kernel *loader.Kernel // nil: no session can be made
	why    string         // why not
	hub    hub
	counts *counts

	denials auditDenials // of sessions that aren't toolguardd's
	pid     int
	mounts  uint32 // the machine's mount namespace, its first process's; 0: it can't be told

	noNetwork string // why the network of no session can be held; "": it can

	bodies   chan struct{}  // one in it for each body that is being parsed, of all users
	stopping chan struct{}  // closed when toolguardd stops
	tidy     *time.Timer    // when nothing has begun for a while, what that took is given back
	telling  sync.WaitGroup // of those who tell toolguards what happens in their sessions

	mu       sync.Mutex
	sessions map[uint64]*session
	reserved map[peer.QuotaKey]taken         // for what is being made
	leaving  map[peer.QuotaKey]taken         // by what is over, and keeps its place in the kernel still
	turns    map[peer.QuotaKey]chan struct{} // one in it for each request that is under way
}

// New makes a toolguardd that owns what the one before has left.
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
		counts: all, cfg: cfg, began: time.Now(), pid: os.Getpid(), stopping: make(chan struct{}), hub: hub{stream: stream, counts: all, audit: cfg.Audit, listeners: map[*follower]bool{}},
		sessions: map[uint64]*session{}, reserved: map[peer.QuotaKey]taken{}, leaving: map[peer.QuotaKey]taken{}, turns: map[peer.QuotaKey]chan struct{}{}, bodies: make(chan struct{}, maxBodies),
		tidy: time.AfterFunc(quiet, debug.FreeOSMemory),
	}
	d.denials = auditDenials{clients: map[int]int{}, idle: time.AfterFunc(idleTime, d.closeIdle)}
	if err := d.openState(); err != nil {
		return nil, err
	}
	if d.mounts, err = loader.MountNamespace("1"); err != nil {
		d.log("no session can be made where there are policies of the host's: %v", err)
	}
	if err := d.denials.probe(); err != nil {
		d.log("what Landlock denies can't be reported to ordinary users: %v", err)
	}
	if err = loader.Ready(true); err == nil {
		d.kernel, err = loader.Open(d.note)
	}
	if err != nil {
		d.why = err.Error()
		d.log("no session can be made here: %v", err)
		return d, nil
	}
	if err := network.Ahead(); err != nil {
		d.noNetwork = err.Error()
		d.log("the network of no session can be held here: %v", err)
	} else if err := network.ClosesSockets(); err != nil {
		d.log("what a session has connected to by an address stays connected when a reload takes that away: %v", err)
	}
	d.takeOver()
	d.tidy.Reset(quiet) // loading may have taken longer
	return d, nil
}

func (d *Daemon) log(format string, args ...any) { d.cfg.Log.Warn(fmt.Sprintf(format, args...)) }
func (d *Daemon) note(text string)               { d.cfg.Log.Info(text) }

// failure is a request's mistake.
type failure struct {
	status int
	error
}

func refuse(status int, format string, args ...any) error {
	return &failure{status, fmt.Errorf(format, args...)}
}

func (d *Daemon) session(number uint64) (*session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.sessions[number]; s != nil {
		return s, nil
	}
	return nil, refuse(404, "there is no session %016x", number)
}

// all are the sessions that a user may know of, the oldest first.
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
