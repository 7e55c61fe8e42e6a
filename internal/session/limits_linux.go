package session

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
)

// limits makes what the limits of the policy need and returns what must be done to the first process before its first
// instruction; nil when there's nothing to do. A cgroup is made only for a limit that needs one: moving a process into
// it waits for every processor, up to 24 ms on an idle machine.
func (r *run) limits() (func(pid int) error, error) {
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
	if needsCgroup(l) {
		var err error
		if r.group, err = cgroup.New(r.id, l, cgroup.Probe()); err != nil {
			return nil, fmt.Errorf("set the limits: %w", err)
		}
	}
	rl := rlimits(l)
	if r.group == nil && len(rl) == 0 {
		return nil, nil
	}
	return func(pid int) error {
		if r.group != nil {
			if err := r.group.Add(pid); err != nil {
				return err
			}
		}
		return setRlimits(pid, rl)
	}, nil
}

// endGroup ends whatever is still in the cgroup, tells which limits were met, and removes it.
func (r *run) endGroup() {
	defer func() { r.group = nil }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := r.group.Kill()
	if err == nil {
		err = r.group.WaitEmpty(ctx)
	}
	if met, e := r.group.Events(); e == nil {
		r.limitMet("memory", r.cfg.Policy.Limits.Memory.Place, met.OOM)
		r.limitMet("pids", r.cfg.Policy.Limits.Pids.Place, met.PidsMax)
	}
	if err == nil {
		err = r.group.Remove()
	}
	if err != nil {
		r.cfg.notice("the session's cgroup could not be removed: %v", err)
	}
}

func (r *run) limitMet(name string, place policy.Place, times uint64) {
	if times == 0 {
		return
	}
	e := r.limitEvent(&policyLimit{name, place})
	e.Count = times
	r.denials.add(e)
}

func (r *run) limitEvent(l *policyLimit) event.Event {
	return r.about(event.Event{
		Kind: event.Denial, Resource: "limits", Capability: l.name, Target: l.name, Mechanism: "supervisor",
		Reason: string(policy.Limit), Rule: "limits." + l.name, Place: l.place.String(),
	})
}

// rlimits are the limits that belong to a process.
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

// setRlimits lowers hard and soft limits, so that the process can't raise them again; it never raises one.
func setRlimits(pid int, m map[int]uint64) error {
	for which, n := range m {
		var old unix.Rlimit
		if err := unix.Prlimit(pid, which, nil, &old); err != nil {
			return os.NewSyscallError("prlimit", err)
		}
		n = min(n, old.Max)
		if err := unix.Prlimit(pid, which, &unix.Rlimit{Cur: min(n, old.Cur), Max: n}, nil); err != nil {
			return os.NewSyscallError("prlimit", err)
		}
	}
	return nil
}
