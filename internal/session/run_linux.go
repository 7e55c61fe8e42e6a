package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// run is the state of one run.
type run struct {
	cfg        Config
	number     uint64
	self       int    // the toolguard that started it
	id         string // the number as events have it
	backend    backend.Backend
	report     backend.Report
	cmd        *launch.Command
	preflight  *launch.Preflight
	askDaemon  backend.AskState
	supervisor *launch.Supervisor
	thread     *launch.Thread
	denials    *denials.Collector
	result     Result
	began      time.Time
	last       *launch.Exit  // how the command ended; nil: it hasn't
	opened     openSession   // nil: the backend has no session in the kernel
	wrapper    atomic.Int64  // the process of the program within which the command runs; 0: none, or it has ended
	nested     bool          // this process is in another session of toolguardd's
	group      *cgroup.Group // nil: nothing needs one
	net        *backend.Network
	usage      *event.Usage // from toolguardd
	served     []*Served    // what the servers of cfg.Serve gave the command
	reports    *event.Queue // events about calls, to toolguardd; nil: to no toolguardd
	passFDs    []int        // descriptors beyond 0, 1 and 2 that the command keeps
	limit      atomic.Pointer[policyLimit]

	unkillable chan struct{} // closed by abortWait: the first process doesn't end (see launch.Supervisor.Wait)
	abortWait  func()
}

// Run runs cfg.Argv under cfg.Policy, and returns when the session has ended. Only its TMPDIR remains. Call it once. An error means that the command was never started: *NotEnforceable, *NotFound, *NotExecutable, or a failure
// of toolguard or the kernel.
func (s *Session) Run(cfg Config) (Result, error) {
	number := newID()
	r := &run{
		cfg: cfg, number: number, self: os.Getpid(), id: denials.SessionID(number), preflight: s.preflight, askDaemon: s.askDaemon,
		thread: s.preflight.Thread, unkillable: make(chan struct{}),
	}
	r.abortWait = sync.OnceFunc(func() { close(r.unkillable) })
	err := r.prepare()
	if err == nil {
		r.supervisor = s.preflight.Supervisor()
		launch.MakeThreads(r.blocked())
		err = r.confine()
	}
	if err != nil {
		r.emit(NotStarted(cfg, r.id, err))
		return Result{}, err
	}
	defer func() { s.unrestored = r.denials.Close() }()
	if r.cfg.Begins != nil {
		r.cfg.Begins(r.report) // after signals are caught, since the reader may have closed its pipe
	}
	if cfg.Policy.Limits.WallTime.D > 0 {
		r.supervisor.StayAwake()
	}
	if r.cmd.Wrapper != nil {
		r.cmd.Wrapper.Supervisor = r.supervisor
		go r.supervisor.Forward() // a signal ends a start that takes long
	}
	pid, err := r.start()
	r.result.Session = r.id // of toolguardd's session its id
	r.denials.Begin()
	r.cmd.Close()
	if err != nil {
		// No process of the session exists, and its signal scope may not be in force, so signals could reach other processes.
		r.thread.Close()
		r.closeNetwork()
		r.denials.Drain(r.closeSession)
		r.abandon()
		r.result.Summary = r.denials.Summary()
		r.emit(NotStarted(cfg, r.id, err))
		return r.result, err
	}
	s.lingers = cfg.Linger
	if r.cmd.Wrapper == nil {
		go r.supervisor.Forward()
	}
	stopClock := r.startClock()
	end := r.supervisor.Wait(pid, r.unkillable)
	stopClock()
	r.end(end)
	return r.result, end.Err
}

// blocked is how many threads can be in system calls at the same time: the session may use up all others.
func (r *run) blocked() int {
	_, byDaemon := r.opened.(*daemonSession)
	switch {
	case !byDaemon && (r.opened != nil || r.net.Enforces()): // toolguardd reads the rings and runs egress
		return launch.MostBlocked
	case byDaemon, r.report.Denials, r.cfg.Events != nil, len(r.cfg.Serve) > 0, r.cfg.Policy.Limits.WallTime.D > 0:
		return launch.MoreBlocked
	}
	return launch.FewBlocked
}

// newID returns 64 random bits, never 0: enough for unique IDs on a machine, short enough to type.
func newID() uint64 {
	var b [8]byte
	_, _ = unix.Getrandom(b[:], 0) // fails only before Linux 3.17; crypto/rand is expensive the first time
	return max(1, binary.BigEndian.Uint64(b[:]))
}

// prepare makes all decisions before anything irreversible happens.
func (r *run) prepare() error {
	r.cfg.Proxies = denials.ProxiesOf(r.cfg.Policy, r.cfg.Env)
	b, err := backend.Choose(r.cfg.Backend, r.cfg.Daemon, r.askDaemon)
	if err != nil {
		return err
	}
	return r.prepareBy(b)
}

func (r *run) prepareBy(b backend.Backend) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, r.undo())
		}
	}()
	r.backend = b
	r.report, err = backend.ReportBest(&r.backend, r.cfg.Policy, r.cfg.Backend, r.cfg.Daemon, r.cfg.AllowDegraded)
	r.net = r.backend.Network
	switch {
	case err != nil:
		return err
	case len(r.report.Blocking) > 0:
		return &NotEnforceable{r.report}
	}
	m, err := r.program()
	if err != nil {
		return err
	}
	if err := r.open(); err != nil {
		return r.fallBack(err)
	}
	return r.prepareCommand(m)
}

func (r *run) prepareCommand(m *launch.Command) (err error) {
	r.passFDs = r.cfg.PassFDs
	if err := r.serve(m); err != nil {
		return err
	}
	if r.cmd, err = r.command(m); err != nil {
		return err
	}
	// The subreaper gets the command's orphans (prctl(2), Linux 3.4).
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	if r.cmd.Plan != nil {
		if err := r.preflight.SelfTest(); err != nil {
			return err
		}
	}
	if err := r.listen(); err != nil {
		return err
	}
	r.report.Denials = r.denials.Reads()
	return r.openNetwork()
}

// fallBack prepares the run with the next backend if toolguardd can't make the session and isn't required. Irreversible changes affect only the
// session thread, which it replaces.
func (r *run) fallBack(why error) error {
	switch b := r.backend; {
	case b.RequiredBy != "":
		return fmt.Errorf("%s can't be met: %w ('sudo journalctl -u toolguardd' shows more)", b.RequiredBy, why)
	case b.Fallback == nil:
		return why
	}
	if r.opened != nil {
		_, _ = r.opened.End() // toolguardd also ends a session without processes itself
		r.opened = nil
	}
	if err := errors.Join(r.undo(), r.preflight.Renew()); err != nil {
		return err
	}
	r.thread = r.preflight.Thread
	r.number, r.nested = newID(), false
	r.id = denials.SessionID(r.number)
	b, err := r.backend.Fallback()
	if err != nil {
		return err
	}
	b.Skipped = why
	return r.prepareBy(b)
}

// undo tears down the preparations and the collector.
func (r *run) undo() error {
	r.abandon()
	if r.denials == nil {
		return nil
	}
	err := r.denials.Close()
	r.denials = nil
	return err
}

// abandon tears down the preparations.
func (r *run) abandon() {
	r.endServing()
	if r.cmd != nil {
		r.cmd.Close()
	}
	r.closeSession()
	if r.group != nil {
		r.endGroup()
	}
	r.closeNetwork()
}

func (r *run) start() (pid int, err error) {
	r.began = time.Now()
	r.emit(r.startEvent())
	if err := r.cfg.recorded(); err != nil {
		return 0, err
	}
	r.noticePermissions()
	r.thread.Do(func() { pid, err = r.cmd.Fork() })
	if err != nil {
		return 0, r.startFailure(err)
	}
	if r.cmd.Process != nil {
		r.wrapper.Store(int64(pid))
	} else {
		r.supervisor.SetPID(pid)
	}
	return pid, nil
}
