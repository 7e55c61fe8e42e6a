package session

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/darwin"
	"github.com/toolguard/toolguard/internal/darwin/oslog"
	"github.com/toolguard/toolguard/internal/darwin/sandboxexec"
	"github.com/toolguard/toolguard/internal/egress/loopback"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/session/launch"
	"github.com/toolguard/toolguard/internal/session/network"
)

// macSystem is what a run under the seatbelt backend needs of the system besides sandbox-exec. Tests on other systems have substitutes.
type macSystem struct {
	cat, yes, log string // programs
	processes     func() ([]launch.ProcessRow, error)
}

// seatbeltRun is the state of one run in macOS's sandbox.
type seatbeltRun struct {
	cfg     Config
	system  macSystem
	mac     *backend.Mac
	number  uint64
	tmp     string
	report  backend.Report
	denials *denials.SandboxCollector
	result  Result
	began   time.Time
	last    *launch.Exit // how the command ended; nil: it hasn't
	limit   atomic.Pointer[policyLimit]

	path       string
	env        []string
	keep       []int
	profile    *darwin.Profile
	file       string // with the profile's text; "": it's an argument
	remove     func() error
	supervisor *launch.Supervisor
	group      launch.SessionGroup
	egress     *loopback.Egress // nil: none runs
	log        *logReader       // nil: the log isn't read

	unkillable chan struct{} // closed by abortWait: the first process doesn't end
	abortWait  func()
}

// runSeatbelt is Run where macOS's sandbox confines the command.
func (s *Session) runSeatbelt(cfg Config, b *backend.Backend, system macSystem) (Result, error) {
	r := &seatbeltRun{
		cfg: cfg, system: system, mac: b.Mac, number: randomID(), tmp: s.Tmp, remove: func() error { return nil },
		group: launch.SessionGroup{Table: system.processes}, unkillable: make(chan struct{}),
	}
	r.abortWait = sync.OnceFunc(func() { close(r.unkillable) })
	r.denials = &denials.SandboxCollector{Session: r.number, Policy: cfg.Policy, Tool: cfg.Tool, Agent: cfg.Agent, Events: cfg.Events}
	defer r.close()
	pid, err := 0, r.prepare(b, s.withoutDenials)
	if err == nil {
		pid, err = r.start()
	}
	if err != nil {
		r.emit(NotStarted(cfg, denials.SessionID(r.number), err))
		return r.result, err
	}
	r.result.Session, s.lingers = denials.SessionID(r.number), cfg.Linger
	go r.supervisor.Forward()
	stopClock := startClock(cfg.Policy, r.supervisor, func() *launch.SessionGroup { return &r.group }, &r.limit, r.abortWait)
	end := r.supervisor.WaitChild(pid, r.unkillable)
	stopClock()
	r.end(end)
	return r.result, end.Err
}

// randomID returns 64 random bits, never 0.
func randomID() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return max(1, binary.BigEndian.Uint64(b[:]))
}

// prepare makes all decisions, and starts everything but the command.
func (r *seatbeltRun) prepare(b *backend.Backend, withoutDenials bool) (err error) {
	r.report, err = backend.ReportWith(b, r.cfg.Policy, r.cfg.Backend, r.cfg.Daemon, r.cfg.AllowDegraded)
	switch {
	case err != nil:
		return err
	case len(r.report.Blocking) > 0:
		return &NotEnforceable{r.report}
	}
	for _, step := range []func() error{r.program, r.canary, r.network, r.render} {
		if err := step(); err != nil {
			return err
		}
	}
	r.supervisor = launch.Watch()
	if r.cfg.Policy.Limits.WallTime.D > 0 {
		r.supervisor.StayAwake()
	}
	r.listen(withoutDenials)
	return nil
}

// program finds the program, its environment and its descriptors.
func (r *seatbeltRun) program() (err error) {
	if r.path, err = launch.Lookup(r.cfg.Argv[0], r.cfg.Env); err != nil {
		return err
	}
	if !filepath.IsAbs(r.path) {
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		r.path = dir + "/" + r.path // not cleaned: what ".." means depends on symlinks
	}
	if why := r.cfg.executionDenied(r.path); why != "" {
		return &launch.NotExecutable{Path: r.path, Why: why}
	}
	r.env, r.result.RemovedEnv = launch.Environ(r.cfg.Policy, r.cfg.canonical(r.path), r.cfg.Env)
	if r.keep, err = launch.Descriptors(r.cfg.PassFDs); err != nil {
		return err
	}
	return rejectInternetSockets(r.cfg.Policy, r.keep)
}

// rejectInternetSockets rejects network sockets among the command's descriptors if the policy restricts the network: a sandbox doesn't decide about
// what is open already.
func rejectInternetSockets(c *policy.Compiled, fds []int) error {
	if !c.DeniesNet() && !network.Decides(c) {
		return nil
	}
	for _, fd := range fds {
		switch at, err := unix.Getsockname(fd); at.(type) {
		case *unix.SockaddrInet4, *unix.SockaddrInet6:
			return fmt.Errorf("descriptor %d is a network socket, which the command could use whatever the policy says: pass a pipe instead", fd)
		case *unix.SockaddrUnix:
		default:
			if err != nil && !errors.Is(err, unix.ENOTSOCK) && !errors.Is(err, unix.EBADF) && !errors.Is(err, unix.EAFNOSUPPORT) {
				return fmt.Errorf("descriptor %d: %w", fd, os.NewSyscallError("getsockname", err))
			}
		}
	}
	return nil
}

func (r *seatbeltRun) canary() error {
	if err := sandboxexec.Canary(r.mac.SandboxExec, r.system.cat, r.tmp); err != nil {
		return fmt.Errorf("%w; nothing was started", err)
	}
	return nil
}

// render makes the profile, and has macOS compile and apply it once.
func (r *seatbeltRun) render() (err error) {
	port := 0
	if r.egress != nil {
		port = r.egress.Port()
	}
	if r.profile, err = r.mac.Profile(r.cfg.Policy, port); err != nil {
		return err
	}
	r.profile.Text = oslog.Tag(r.profile.Text, oslog.TagOf(denials.SessionID(r.number)))
	if r.file, r.remove, err = sandboxexec.WriteLong(r.profile, r.cfg.Policy, r.folders()); err != nil {
		r.remove = func() error { return nil }
		return err
	}
	return sandboxexec.Try(r.mac.SandboxExec, r.profile, r.file, r.system.yes)
}

// folders are those in which a long profile may be.
func (r *seatbeltRun) folders() (list []string) {
	for _, dir := range []string{os.TempDir(), filepath.Join(r.mac.Home, "Library/Caches"), "/private/var/tmp", "/var/tmp"} {
		if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.IsAbs(real) && !slices.Contains(list, real) {
			list = append(list, real)
		}
	}
	return list
}

// start starts the command.
func (r *seatbeltRun) start() (pid int, err error) {
	args, err := sandboxexec.Args(r.mac.SandboxExec, r.profile, r.file, append([]string{r.path}, r.cfg.Argv[1:]...)...)
	if err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	if r.cfg.Begins != nil {
		r.cfg.Begins(r.report)
	}
	r.began = time.Now()
	r.emit(r.startEvent())
	if err := r.cfg.recorded(); err != nil {
		return 0, err
	}
	if err := r.group.Begin(); err != nil {
		return 0, err
	}
	command := launch.Sandboxed{Args: args, Env: r.env, Keep: r.keep, Limits: limitsOfProcess(r.cfg.Policy.Limits), Self: self}
	if pid, err = command.Start(); err != nil {
		if errors.Is(err, syscall.E2BIG) {
			err = fmt.Errorf("the command's arguments and variables and the profile are too long together: %w", err)
		}
		return 0, fmt.Errorf("start %s: %w", r.mac.SandboxExec, err)
	}
	r.group.SetFirst(pid)
	r.supervisor.SetPID(pid)
	return pid, nil
}

// limitsOfProcess returns the limits of a process, by resource.
func limitsOfProcess(l policy.Limits) map[int]uint64 {
	m := map[int]uint64{}
	if l.OpenFiles.N != 0 {
		m[unix.RLIMIT_NOFILE] = l.OpenFiles.N
	}
	if l.FileSize.N != 0 {
		m[unix.RLIMIT_FSIZE] = l.FileSize.N
	}
	return m
}

func (r *seatbeltRun) emit(e event.Event) {
	if r.cfg.Events != nil {
		r.cfg.Events.Write(&e)
	}
}

func (r *seatbeltRun) startEvent() event.Event {
	e := r.denials.About(event.Event{Kind: event.SessionStart, Mechanism: r.report.Backend})
	e.Process = []event.Process{{PID: os.Getpid(), UID: os.Getuid(), Exe: r.path, Argv: event.TruncateArgv(r.cfg.Argv)}}
	e.Degraded, e.Removed = degraded(r.report.Notes), r.result.RemovedEnv
	return e
}
