package session

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/launch"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec/nofile"
)

// wantedLimits returns the limits to set.
func (r *run) wantedLimits() policy.Limits {
	l := r.cfg.Policy.Limits
	for _, n := range r.report.Notes { // allowed to degrade: not set
		switch n.ID {
		case "limits.memory":
			l.Memory = policy.Bytes{}
		case "limits.pids":
			l.Pids = policy.Count{}
		case "limits.cpu":
			l.CPU = policy.Percent{}
		case "limits.io":
			l.IO = policy.Bytes{}
		}
	}
	return l
}

// limits prepares the policy's limits, so that the command starts with them. It makes a cgroup only if a limit or the network needs one.
func (r *run) limits(m *launch.Command) (err error) {
	l := r.wantedLimits()
	if d, ok := r.opened.(*daemonSession); ok {
		m.Join = d.join
	}
	if m.Join == nil && (backend.NeedsCgroup(l) || r.net.Enforces()) {
		if r.group, err = cgroup.New(r.id, l, cgroup.Probe()); err != nil {
			return fmt.Errorf("make the session's cgroup: %w", err)
		}
		m.Cgroup = r.group.FD()
	}
	if m.Limits, err = lowerLimits(rlimits(l)); err != nil {
		return err
	}
	return launch.ReserveProcesses(m.Limits)
}

// endGroup ends the cgroup's processes, reports which limits were reached, and removes the cgroup.
func (r *run) endGroup() {
	defer func() { r.group = nil }()
	ctx, cancel := context.WithTimeout(context.Background(), launch.Patience)
	defer cancel()
	err := r.group.Kill()
	if err == nil {
		err = r.group.WaitEmpty(ctx)
	}
	if err == nil && r.net != nil && r.net.Loaded() {
		err = r.net.Detach(r.group.FD())
	}
	if met, e := r.group.Events(); e == nil {
		r.denials.LimitMet("memory", r.cfg.Policy.Limits.Memory.Position, met.OOM)
		r.denials.LimitMet("pids", r.cfg.Policy.Limits.Pids.Position, met.PidsMax)
	}
	if err == nil {
		err = r.group.Remove()
	}
	if err != nil {
		r.cfg.notice("the session's cgroup could not be removed: %v", err)
	}
}

// rlimits returns the limits of a process.
func rlimits(l policy.Limits) map[int]uint64 {
	m := map[int]uint64{}
	if l.OpenFiles.N != 0 {
		m[unix.RLIMIT_NOFILE] = l.OpenFiles.N
	}
	if l.FileSize.N != 0 {
		m[unix.RLIMIT_FSIZE] = l.FileSize.N
	}
	return m
}

// lowerLimits returns this process's limits, hard and soft, lowered to at most the given ones, so that the command can't raise them.
func lowerLimits(to map[int]uint64) (map[int]unix.Rlimit, error) {
	limits := map[int]unix.Rlimit{}
	for which, n := range to {
		var now unix.Rlimit
		if err := unix.Getrlimit(which, &now); err != nil {
			return nil, os.NewSyscallError("getrlimit", err)
		}
		if old := nofile.Raised(); which == unix.RLIMIT_NOFILE && old != nil {
			now = unix.Rlimit(*old)
		}
		n = min(n, now.Max)
		limits[which] = unix.Rlimit{Cur: min(n, now.Cur), Max: n}
	}
	return limits, nil
}
