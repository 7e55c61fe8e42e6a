package session

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolguard/toolguard/internal/darwin/oslog"
	"github.com/toolguard/toolguard/internal/egress/control"
	"github.com/toolguard/toolguard/internal/egress/loopback"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/session/launch"
	"github.com/toolguard/toolguard/internal/session/network"
)

// network starts egress, if the policy needs it, and leads the command's programs to it.
func (r *seatbeltRun) network() error {
	if !r.mac.NeedsEgress(r.cfg.Policy) {
		return nil
	}
	upstream, err := network.MachineResolvers()
	if err != nil {
		return err
	}
	hosts, err := control.HostsFor(r.cfg.Policy)
	if err != nil {
		r.cfg.notice("%v", err)
	}
	o := message.Instructions{Generation: 1, Policy: r.cfg.Policy, Hosts: hosts, Upstream: upstream}
	if r.egress, err = loopback.Start(r.mac.Egress, o, os.Environ(), r.denials); err != nil {
		return fmt.Errorf("%w; nothing was started", err)
	}
	r.group.Exclude(r.egress.PID())
	r.env = r.egress.Environ(r.env)
	if !r.cfg.Policy.Intercepts() {
		return nil
	}
	file, err := network.WriteBundle(r.cfg.Policy, r.egress.Bundle)
	if err != nil {
		return fmt.Errorf("pass the session its certificate authority: %w", err)
	}
	for _, name := range message.BundleVars() {
		r.env = slices.DeleteFunc(r.env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		r.env = append(r.env, name+"="+file)
	}
	return nil
}

// logReader reads the unified log while the session runs.
type logReader struct {
	cmd    *exec.Cmd
	begun  chan struct{} // closed when the program prints
	ended  chan struct{} // closed when all of its output is read
	ending atomic.Bool   // the session ends
}

// Times of the reading of the unified log.
const (
	logStartTime = 500 * time.Millisecond // for the reader to begin before the command, where events are wanted
	logFlushTime = 100 * time.Millisecond // for the last denial of a moment
	logDrainTime = 300 * time.Millisecond // for denials that arrive after a failed command
)

// listen reads the unified log for the session's denials, if it can be read.
func (r *seatbeltRun) listen(withoutDenials bool) {
	if withoutDenials {
		r.denials.Visible(launch.ErrWithoutDenials)
		return
	}
	r.denials.Visible(nil)
	l, err := startLog(r.system.log, r.ownDenial, func(begun bool) {
		if err := errors.New("the unified log can't be read: its reader ended"); begun {
			r.denials.Lost("oslog", 0, err.Error())
		} else {
			r.denials.Visible(err)
		}
	})
	if err != nil {
		r.denials.Visible(err)
		if r.cfg.Events != nil {
			r.cfg.notice("denials are enforced but can't be shown: %v", err)
		}
		return
	}
	r.log = l
	r.group.Exclude(l.cmd.Process.Pid)
	if r.cfg.Events != nil {
		select {
		case <-l.begun:
		case <-l.ended:
		case <-time.After(logStartTime):
		}
	}
}

// startLog starts the program and passes its denials on. It calls lost if the program ends before the session.
func startLog(program string, denied func(oslog.Denial), lost func(begun bool)) (*logReader, error) {
	l := &logReader{cmd: exec.Command(program, oslog.Args()...), begun: make(chan struct{}), ended: make(chan struct{})}
	l.cmd.Env, l.cmd.Dir = []string{"PATH=/usr/bin:/bin"}, "/"
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // the terminal's signals are for the command
	out, err := l.cmd.StdoutPipe()
	if err == nil {
		err = l.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("the unified log can't be read: %w", err)
	}
	go func() {
		defer close(l.ended)
		tick := time.NewTicker(logFlushTime)
		defer tick.Stop()
		begun := false
		_ = oslog.Read(out, tick.C, func() { begun = true; close(l.begun) }, denied)
		if !l.ending.Load() {
			lost(begun)
		}
	}()
	return l, nil
}

// end ends the program after it has had a moment for what is pending.
func (l *logReader) end(drain time.Duration) {
	select {
	case <-l.ended:
	case <-time.After(drain):
	}
	l.ending.Store(true)
	_ = l.cmd.Process.Kill()
	<-l.ended
	_ = l.cmd.Wait()
}

// ownDenial reports a denial if it's of this session: it has the session's tag, or its process is one of the session's.
func (r *seatbeltRun) ownDenial(d oslog.Denial) {
	if d.Tag != oslog.TagOf(denials.SessionID(r.number)) {
		pids, err := r.group.Find()
		if d.Tag != "" || err != nil || !slices.Contains(pids, d.PID) {
			return
		}
	}
	r.denials.Denied(d)
}

// end ends the session after its first process.
func (r *seatbeltRun) end(e launch.Exit) {
	r.last = &e
	r.supervisor.AllowOutput()
	r.result.Code = launch.ExitCode(e.Status)
	if r.egress != nil {
		r.egress.End()
		r.egress = nil
	}
	if r.cfg.Linger {
		r.cfg.notice("the private TMPDIR %s stays, because remaining processes may use it", r.cfg.Policy.TmpDir)
	} else {
		r.endOrphans()
	}
	if r.log != nil {
		drain := logFlushTime
		if r.result.Code != 0 || r.cfg.Events != nil {
			drain = logDrainTime
		}
		r.log.end(drain)
		r.log = nil
	}
	if l := r.limit.Load(); l != nil {
		r.denials.LimitMet(l.name, l.position)
	}
	r.result.Summary = r.denials.Summary()
	r.emit(r.endEvent())
}

func (r *seatbeltRun) endOrphans() {
	var remaining int
	var err error
	r.result.Orphans, remaining, err = r.group.End()
	switch {
	case err != nil:
		r.cfg.notice("processes of the session may still run, under its restrictions: %v", err)
	case r.result.Orphans > 0:
		r.cfg.notice("%s that the command had left in the background ended with it (--linger leaves such running)", countProcesses(r.result.Orphans))
	}
	if remaining > 0 {
		r.cfg.notice("%d processes of the session don't end; they stay under its restrictions", remaining)
	}
}

func (r *seatbeltRun) endEvent() event.Event {
	e := r.denials.About(event.Event{Kind: event.SessionEnd, Mechanism: r.report.Backend, Exit: exitEvent(r.last, &r.result, r.began, nil)})
	if l := r.limit.Load(); l != nil {
		e.Reason, e.Rule, e.Place = string(policy.Limit), "limits."+l.name, l.position.String()
	}
	return e
}

// close releases what is left of the run, whether the command has started or not.
func (r *seatbeltRun) close() {
	if r.egress != nil {
		r.egress.End()
	}
	if r.log != nil {
		r.log.end(0)
	}
	if err := r.remove(); err != nil {
		r.cfg.notice("the profile's file could not be removed: %v", err)
	}
}
