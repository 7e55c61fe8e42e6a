package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/seccomp"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/session/launch"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// run is one session while it lasts.
type run struct {
	cfg     Config
	number  uint64
	self    int    // the toolguard that started it
	id      string // the number, as it's told
	backend backend.Backend
	report  backend.Report
	cmd     *launch.Command
	machine *machine
	sup     *launch.Supervisor
	in      *launch.Thread
	denials *denials.Collector
	result  Result
	began   time.Time
	last    *launch.Exit  // nil: not yet
	held    held          // nil: not by the bpf backend
	within  bool          // another session of toolguardd's, which this process is in
	group   *cgroup.Group // nil: nothing needs one
	net     *backend.Network
	usage   *event.Usage // as toolguardd has counted it
	limit   atomic.Pointer[policyLimit]

	hopeless chan struct{} // closed by giveUp: the first process doesn't end (see supervisor.wait)
	giveUp   func()
}

// policyLimit says which limit ended the session.
type policyLimit struct {
	name  string
	place policy.Place
}

// Run runs cfg.Argv under cfg.Policy and returns when it has ended and everything of the session but its TMPDIR is gone. It
// may be called once. An error means that the command was never started: *Refused, *NotFound, *NotExecutable, or a failure
// of toolguard or the kernel.
func (s *Session) Run(cfg Config) (Result, error) {
	number := newID()
	r := &run{
		cfg: cfg, number: number, self: os.Getpid(), id: denials.SessionID(number), machine: s.machine, in: s.machine.inside,
		hopeless: make(chan struct{}),
	}
	r.giveUp = sync.OnceFunc(func() { close(r.hopeless) })
	err := r.prepare()
	if err == nil {
		r.sup = (<-s.machine.signals).value
		<-s.machine.threads
		if _, theirs := r.held.(*lent); !theirs && (r.held != nil || r.net.Enforces()) { // toolguardd reads the rings itself, and has the egress
			launch.MakeThreads(launch.MostBlocked)
		}
		err = r.confine()
	}
	if err != nil {
		r.emit(NotStarted(cfg, r.id, err))
		return Result{}, err
	}
	defer func() { s.unheard = r.denials.Close() }()
	if r.cfg.Begins != nil {
		r.cfg.Begins(r.report) // with signals caught: who should read it may have gone away
	}
	if cfg.Policy.Limits.WallTime.D > 0 {
		r.sup.StayAwake()
	}
	pid, err := r.start()
	r.denials.Begin()
	r.cmd.Close()
	if err != nil {
		// Nothing of the session runs, and its signal scope may not be in force: nobody is to be signalled from here.
		r.in.Close()
		r.endNet()
		r.denials.Drain(r.release)
		r.abandon()
		r.result.Summary = r.denials.Summary()
		r.emit(NotStarted(cfg, r.id, err))
		return r.result, err
	}
	s.lingers = cfg.Linger
	go r.sup.Forward()
	stopClock := r.startClock()
	end := r.sup.Wait(pid, r.hopeless)
	stopClock()
	r.end(end)
	return r.result, end.Err
}

// newID is 64 random bits: enough that no two sessions of a machine share an id, short enough to type. It's never 0.
func newID() uint64 {
	var b [8]byte
	_, _ = unix.Getrandom(b[:], 0) // fails only before Linux 3.17; crypto/rand is dear the first time
	return max(1, binary.BigEndian.Uint64(b[:]))
}

// prepare decides all that can be decided before anything irreversible happens. What waits for the kernel waits beside
// what computes.
func (r *run) prepare() error {
	r.cfg.Proxies = denials.ProxiesOf(r.cfg.Policy, r.cfg.Env)
	b, err := backend.Choose(r.cfg.Backend, r.cfg.Daemon, r.machine.asked)
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
	r.backend, r.net = b, b.Network
	r.report, err = backend.ReportWith(&r.backend, r.cfg.Policy, r.cfg.Backend, r.cfg.Daemon, r.cfg.AllowDegraded)
	switch {
	case err != nil:
		return err
	case len(r.report.Refusals) > 0:
		return &Refused{r.report}
	}
	m, err := r.program()
	if err != nil {
		return err
	}
	if err := r.open(); err != nil {
		return r.without(err)
	}
	return r.prepareCommand(m)
}

func (r *run) prepareCommand(m *launch.Command) (err error) {
	if r.cmd, err = r.command(m); err != nil {
		return err
	}
	// The subreaper gets what the command leaves behind (prctl(2), Linux 3.4).
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	if r.cmd.Plan != nil {
		if err := r.machine.proof(); err != nil {
			return err
		}
	}
	if err := r.listen(); err != nil {
		return err
	}
	r.report.Denials = r.denials.Reads()
	return r.holdNet()
}

// without prepares all of it by another backend where toolguardd can't have the session, and nobody requires it to. What can't be taken back
// was done to the thread alone: there's another one.
func (r *run) without(why error) error {
	switch b := r.backend; {
	case b.RequiredBy != "":
		return fmt.Errorf("%s can't be met: %w ('sudo journalctl -u toolguardd' says more)", b.RequiredBy, why)
	case b.Fallback == nil:
		return why
	}
	if r.held != nil {
		_, _ = r.held.End() // toolguardd ends what nobody is in by itself, too
		r.held = nil
	}
	if err := errors.Join(r.undo(), r.machine.renew()); err != nil {
		return err
	}
	r.in = r.machine.inside
	r.number, r.within = newID(), false
	r.id = denials.SessionID(r.number)
	b, err := r.backend.Fallback()
	if err != nil {
		return err
	}
	b.Skipped = why
	return r.prepareBy(b)
}

// undo gives up what has been prepared, and the listening.
func (r *run) undo() error {
	r.abandon()
	if r.denials == nil {
		return nil
	}
	err := r.denials.Close()
	r.denials = nil
	return err
}

// abandon gives up what has been prepared.
func (r *run) abandon() {
	if r.cmd != nil {
		r.cmd.Close()
	}
	r.release()
	if r.group != nil {
		r.endGroup()
	}
	r.endNet()
}

// canonical is the path of the file itself, symlinks and ".." followed in order; the path as it is where that can't be told.
func (c *Config) canonical(file string) string {
	if dir, err := os.Getwd(); err == nil && !filepath.IsAbs(file) {
		file = dir + "/" + file
	}
	if real, err := c.Policy.ResolveTarget(c.System, file, true); err == nil {
		return real
	}
	return file
}

// program is what will be executed, with its environment.
func (r *run) program() (*launch.Command, error) {
	path, err := launch.Lookup(r.cfg.Argv[0], r.cfg.Env)
	if err != nil {
		return nil, err
	}
	m := &launch.Command{Path: path, Argv: r.cfg.Argv}
	m.Env, r.result.RemovedEnv = launch.Environ(r.cfg.Policy, r.cfg.canonical(path), r.cfg.Env)
	return m, nil
}

// command is what it takes to start the program in the session.
func (r *run) command(m *launch.Command) (_ *launch.Command, err error) {
	c := r.cfg.Policy
	m.Name = r.id[:15] // as long as such a name can be
	if m.Keep, err = launch.Descriptors(r.cfg.PassFDs); err != nil {
		return nil, err
	}
	if err := noSockets(c, m.Keep); err != nil {
		return nil, err
	}
	r.prefetch(m)
	if m.Plan, err = r.plan(); err != nil {
		return nil, err
	}
	if m.Plan != nil {
		if err := m.Plan.Prepare(); err != nil {
			return nil, err
		}
	}
	return m, r.limits(m)
}

// prefetch has the thread do what takes the policy alone, while what is granted is opened.
func (r *run) prefetch(m *launch.Command) {
	c, others := r.cfg.Policy, r.others()
	var caps []string
	for _, l := range c.Layers {
		caps = append(caps, l.Capabilities...)
	}
	m.Prefetch(r.in, caps, func() ([]seccomp.Filter, error) { return seccomp.Filters(c, others) })
}

// plan is what Landlock holds in this session; nil for nothing.
func (r *run) plan() (*landlock.Plan, error) {
	abi, err := backend.LandlockABI()
	switch {
	case r.held != nil && r.net.Enforces():
		return nil, nil
	case r.held != nil:
		return landlock.NewPortsPlan(r.cfg.Policy, abi), nil
	case err != nil:
		return nil, err
	}
	p, err := landlock.NewPlan(r.cfg.Policy, abi)
	if err == nil && r.net.Enforces() {
		p.LeavePorts()
	}
	return p, err
}

// others are those who hold the session beside the system call filters.
func (r *run) others() seccomp.Backend {
	return seccomp.Backend{ABI: r.backend.Level, Net: r.net.Enforces(), Sealed: seccomp.Sealed()}
}

// confine restricts the thread and puts it into the session, for good.
func (r *run) confine() error {
	var err error
	r.in.Do(func() { err = r.cmd.RestrictThread() })
	if err == nil {
		r.in.Do(func() { err = r.enter() })
		if err == nil {
			return nil
		}
		if err = r.without(&forkexec.Error{Purpose: "put the thread into the session", Err: err}); err == nil {
			return r.confine()
		}
	}
	return errors.Join(r.startFailure(err), r.undo())
}

func (r *run) start() (pid int, err error) {
	r.began = time.Now()
	r.emit(r.startEvent())
	if err := r.recorded(); err != nil {
		return 0, err
	}
	r.noticeOwner()
	r.in.Do(func() { pid, err = r.cmd.Fork() })
	if err != nil {
		return 0, r.startFailure(err)
	}
	r.sup.SetPID(pid)
	return pid, nil
}

// recordTime is how long a start waits for its event to be written. A pipe that nobody reads takes it later, or the loss is reported at the end.
const recordTime = 100 * time.Millisecond

// recorded reports why what the session does can't be recorded.
func (r *run) recorded() error {
	if r.cfg.Events == nil {
		return nil
	}
	if err := r.cfg.Events.Await(recordTime); err != nil {
		return fmt.Errorf("%w: %w; give them another place, or leave --events out", ErrUnrecorded, err)
	}
	return nil
}

// startFailure sorts out whose fault it was that the command didn't start.
func (r *run) startFailure(err error) error {
	var fe *forkexec.Error
	if errors.As(err, &fe) {
		return fmt.Errorf("%w; nothing was started", err)
	}
	if errors.Is(err, syscall.ENOENT) {
		// The file is there (lookup saw it), so its interpreter isn't.
		return &launch.NotFound{Name: r.cmd.Path + " (or its interpreter)"}
	}
	return &launch.NotExecutable{Path: r.cmd.Path, Why: r.whyNot(err)}
}

// whyNot explains a refused execve with the policy's own words where it was the policy that refused.
func (r *run) whyNot(err error) string {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Sprintf("it's no program for this machine, and has no #! line: run a script by its interpreter, such as sh %s", r.cmd.Path)
	case !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EPERM):
		return err.Error()
	}
	c, path := r.cfg.Policy, r.cfg.canonical(r.cmd.Path)
	if v := c.CheckFS(path, policy.Execute); !v.Allow {
		return "the policy denies execute on " + path + ": " + r.deciding(v)
	}
	if v := c.CheckCommand(path, r.cfg.Argv); !v.Allow {
		why := "the policy doesn't list this command: " + r.deciding(v)
		if called := c.Miscalled(v, r.cfg.Argv[0]); called != "" {
			why += ": " + called
		}
		return why
	}
	if v := c.CheckCommand(path, []string{r.cmd.Path}); v.Reason == policy.ArgsNotListed {
		if called := c.Miscalled(v, r.cmd.Path); called != "" {
			return "the policy doesn't list this command: " + r.deciding(v) + ": " + called
		}
	}
	return err.Error()
}

func (r *run) deciding(v policy.Verdict) string {
	if v.Rule < 0 {
		return string(v.Reason)
	}
	rule := r.cfg.Policy.Rules[v.Rule]
	return fmt.Sprintf("%s, rule %s (%s)", v.Reason, rule.ID, rule.Place)
}

// startClock ends the session when its wall time is up: all of it, since a process of the session can keep the first one from
// being seen to end by tracing it. The returned function stops the clock.
func (r *run) startClock() (stop func()) {
	w := r.cfg.Policy.Limits.WallTime
	if w.D <= 0 {
		return func() {}
	}
	r.sup.IgnoreTerminal()
	over := make(chan struct{})
	go func() {
		ended := func(wait time.Duration) bool {
			select {
			case <-over:
				return true
			case <-time.After(wait):
				return false
			}
		}
		if ended(w.D) {
			return
		}
		r.limit.Store(&policyLimit{"wall_time", w.Place})
		r.members().Signal(syscall.SIGTERM)
		r.members().Signal(syscall.SIGCONT)
		if ended(launch.Grace) {
			return
		}
		late := time.Now().Add(launch.Patience)
		r.members().Kill(func(wait time.Duration) bool { return ended(wait) || time.Now().After(late) })
		r.giveUp()
	}()
	return func() { close(over) }
}

func (r *run) end(e launch.Exit) {
	r.last = &e
	r.sup.Quiet()
	r.endEgress()
	if r.cfg.Linger {
		r.cfg.notice("the private TMPDIR %s stays: what still runs may use it", r.cfg.Policy.TmpDir)
	} else {
		r.endOthers()
	}
	r.in.Close()
	r.result.Code = launch.ExitCode(e.Status)
	r.endNet()
	r.denials.Drain(r.release)
	r.release()
	if l := r.limit.Load(); l != nil {
		r.denials.LimitMet(l.name, l.place, 1)
	}
	r.result.Summary = r.denials.Summary()
	r.result.NoUnix = seccomp.DeniesUnixSockets(r.cfg.Policy, r.others())
	r.emit(r.endEvent())
}

// members are the processes of the session.
func (r *run) members() *launch.Processes {
	return &launch.Processes{Thread: r.in, Scoped: r.backend.Level >= 6, Within: r.within}
}

// endOthers ends what the first process left, and takes the cgroup away.
func (r *run) endOthers() {
	var left int
	if r.result.Leftover, left = r.members().End(); r.result.Leftover > 0 {
		r.cfg.notice("%s that the command had left in the background ended with it (--linger leaves such running)", processes(r.result.Leftover))
	}
	if left > 0 {
		r.cfg.notice("%d processes of the session don't end; they stay under its restrictions", left)
	}
	if r.group != nil {
		r.endGroup()
	}
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

func (r *run) emit(e event.Event) {
	if r.cfg.Events != nil {
		r.cfg.Events.Write(&e)
	}
}

// about fills in what every event of the session says.
func (r *run) about(e event.Event) event.Event {
	c := denials.Config{Session: r.number, Tool: r.cfg.Tool, Agent: r.cfg.Agent}
	return c.About(r.cfg.Policy, e)
}

// denialsConfig is what the events of this run depend on.
func (r *run) denialsConfig() denials.Config {
	return denials.Config{
		Session: r.number, Policy: r.cfg.Policy, Tool: r.cfg.Tool, Agent: r.cfg.Agent, Mechanism: r.report.Backend, Others: r.others(),
		Proxies: r.cfg.Proxies, Self: r.self, Events: r.cfg.Events, Warn: r.cfg.Notice,
	}
}

func (r *run) startEvent() event.Event {
	e := r.about(event.Event{Kind: event.SessionStart, Mechanism: r.report.Backend})
	e.Process = []event.Process{{PID: os.Getpid(), UID: os.Getuid(), Exe: r.cmd.Path, Argv: event.TruncateArgv(r.cfg.Argv)}}
	e.Degraded, e.Removed = degraded(r.report.Notes), r.result.RemovedEnv
	return e
}

func (r *run) endEvent() event.Event {
	e := r.about(event.Event{Kind: event.SessionEnd, Mechanism: r.report.Backend, Exit: r.exit()})
	if l := r.limit.Load(); l != nil {
		e.Reason, e.Rule, e.Place = string(policy.Limit), "limits."+l.name, l.place.String()
	}
	return e
}

// exit is how the command ended; nil while it hasn't.
func (r *run) exit() *event.Exit {
	if r.last == nil {
		return nil
	}
	e := r.last
	exit := &event.Exit{
		Code: r.result.Code, Wall: time.Since(r.began), Denials: r.result.Total, Orphans: r.result.Leftover,
		User: time.Duration(e.Usage.Utime.Nano()), System: time.Duration(e.Usage.Stime.Nano()),
		MaxRSS: uint64(e.Usage.Maxrss) * 1024, // Linux counts in KiB (getrusage(2))
		Usage:  r.usage,
	}
	if e.Status.Signaled() {
		exit.Signal = int(e.Status.Signal())
	}
	return exit
}
