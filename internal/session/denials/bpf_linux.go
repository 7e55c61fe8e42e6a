package denials

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/seccomp"
)

// Listen begins to collect what the kernel's programs deny.
func (d *Collector) Listen(s *loader.Session) {
	d.mu.Lock()
	d.counts = s.Counts
	d.mu.Unlock()
	s.Listen(d.deniedByBPF)
}

// alike is all that an event reports of what a program denied, but for the time.
type alike struct {
	pid, uid, layer, rule, errno int
	other                        int
	comm, paths, args            string
	op                           loader.Op
	why                          loader.Why
	walk                         loader.Walk
	detail, generation           uint32
}

func alikeOf(k *loader.Event) alike {
	a := alike{
		pid: k.PID, uid: k.UID, layer: k.Layer, rule: k.Rule, errno: k.Errno, comm: k.Comm, args: k.Args,
		op: k.Op, why: k.Why, walk: k.Walk, detail: k.Detail, generation: k.Generation, other: k.Other,
	}
	for _, p := range k.Paths {
		a.paths += fmt.Sprintf("%d%s\x00", p.Need, p.Path)
	}
	return a
}

// deniedByBPF runs on the goroutine that listens to the session.
func (d *Collector) deniedByBPF(k loader.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.take(d.policy, k)
}

// take takes in what a program reports, by the policy that decided. It's called with the lock held.
func (d *Collector) take(c *policy.Compiled, k loader.Event) {
	if k.PID == d.self {
		return // toolguard itself, from within
	}
	if k.Op == loader.OpExec {
		d.executed(c, &k)
		return
	}
	if moot(&k) {
		return
	}
	d.aggregate(alikeOf(&k), k.Time, func() event.Event {
		e := Describe(&d.cfg, c, &k, d.chainOf(&k))
		if e.Reason == string(policy.EngineError) {
			d.cfg.warn("%s on %s: %s", e.Capability, e.Target, e.Extra["why"])
		}
		return e
	})
}

// moot reports whether a file was only to be made if there was none: the kernel asks for that before it has looked the name up, unless it knows
// the name already (lookup_open in fs/namei.c, Linux 5.6 and later), and opens what has the name whatever the answer was. What was made since,
// by somebody else, wasn't there; and in /proc nothing can be made, by whatever name it's opened.
func moot(k *loader.Event) bool {
	if k.Op != loader.OpCreate || k.Detail != loader.CreateUnknown || k.Why != loader.WhyRule || k.Walk != loader.WalkOK || k.Cut || len(k.Paths) != 1 {
		return false
	}
	path := k.Paths[0].Path
	if strings.HasPrefix(path, "/proc/") {
		return true
	}
	var st unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st) != nil {
		return false
	}
	return st.Mask&unix.STATX_BTIME == 0 || time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)).Before(k.Time)
}

func (d *Collector) chainOf(k *loader.Event) []event.Process {
	first := event.Process{PID: k.PID, UID: k.UID, Comm: k.Comm, Start: k.Start}
	if d.cfg.Events != nil {
		first.Exe, _ = os.Readlink(fmt.Sprintf("/proc/%d/exe", k.PID))
	}
	return d.chain(first, parent(k))
}

func parent(k *loader.Event) event.Process {
	return event.Process{PID: k.Parent.PID, UID: k.Parent.UID, Comm: k.Parent.Comm}
}

// reportLosses is what of it was lost. It's called with the lock held.
func (d *Collector) reportLosses() {
	if d.counts == nil {
		return
	}
	c := d.counts()
	if n := c.Lost + c.Suppressed - d.lossesReported; n > 0 {
		d.lossesReported += n
		d.gap("bpf", n, "more were denied at a time than are reported", true)
	}
	if n := c.Unrecorded - d.unrecorded; n > 0 {
		d.unrecorded += n
		d.gapOf("bpf:exec", n, n, "more were executed at a time than are reported", true)
	}
}

// drainKernel takes in the last of it while end ends the session in the kernel, and returns what that counted in it.
func (d *Collector) drainKernel(end func() loader.Counts) loader.Counts {
	d.mu.Lock()
	heard := d.counts != nil
	d.counts = nil // which looks at memory that goes with the session: tick, meanwhile, doesn't
	d.mu.Unlock()
	counts := end()
	if !heard {
		return counts
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endRepeats()
	d.counts = func() loader.Counts { return counts }
	d.reportLosses()
	d.counts = nil
	return counts
}

// bpf makes an event of what a program denied.
func (r describer) bpf(k *loader.Event, chain []event.Process) event.Event {
	e := r.about(event.Event{Kind: event.Denial, Process: chain, Mechanism: "bpf:" + k.Op.String()})
	e.Time = k.Time
	if k.Errno > 0 {
		e.Errno = errnoName(syscall.Errno(k.Errno))
	}
	e.Extra = map[string]string{}
	switch {
	case k.Op == loader.OpCall:
		r.describeCall(&e, callOf(k))
	case k.Why == loader.WhyRule && k.Walk == loader.WalkInternal:
		e.Resource, e.Capability, e.Reason = policy.FS.String(), policy.Execute.String(), string(policy.NoRule)
		e.Extra["why"] = "memory without a path (memfd) can't be executed or mapped as code: write it to a folder that has `execute`"
	case k.Why == loader.WhyAlways || k.Why == loader.WhyDevice || len(k.Paths) == 0:
		r.describeAlways(&e, k)
	case k.Why == loader.WhyCommand || k.Why == loader.WhyArgs:
		r.describeCommand(&e, k)
	case k.Why == loader.WhyRule:
		r.describePath(&e, k)
	case k.Why == loader.WhyGain:
		r.describeMove(&e, k)
	default:
		r.asked(&e, k)
		e.Reason = string(policy.PathUnresolved)
		e.Extra["why"] = "following the path: " + k.Walk.String()
	}
	return e
}

// callOf is a system call that a filter denied, as the kernel's records have it.
func callOf(k *loader.Event) kernelaudit.Denial {
	nr := int(k.Detail)
	return kernelaudit.Denial{
		Source: kernelaudit.Seccomp, Signal: max(0, -k.Errno),
		Call: kernelaudit.Call{Arch: seccomp.Arch(nr, k.Errno < 0), Number: nr, Known: true},
	}
}

// verdict is the kernel's.
func (r describer) verdict(k *loader.Event, why policy.Reason) policy.Verdict {
	v := policy.Verdict{Reason: why, Layer: -1, Rule: policy.NoMatch}
	if k.Layer >= 0 && k.Layer < len(r.policy.Layers) {
		v.Layer = int16(k.Layer)
	}
	if k.Rule >= 0 && k.Rule < len(r.policy.Rules) {
		v.Rule = r.policy.SharedRule(k.Layer, int32(k.Rule))
	}
	return v
}

// describeAlways describes what is denied to every session, or whatever its rules are.
func (r describer) describeAlways(e *event.Event, k *loader.Event) {
	e.Resource, e.Capability, e.Reason = "always", k.Op.String(), string(policy.SyscallDenied)
	switch {
	case len(k.Paths) > 0:
		e.Target = k.Paths[0].Path
		if k.Why == loader.WhyAlways && (k.Op == loader.OpCreate || k.Op == loader.OpOpen) {
			e.Extra["why"] = "no session makes a file that others execute as its user or group (setuid, setgid)"
		}
	case k.Op == loader.OpUnix: // one with a path is a file
		e.Resource, e.Capability, e.Reason = policy.Net.String(), "connect", string(policy.HostNotListed)
	case k.Op == loader.OpOption:
		e.Resource, e.Capability, e.Reason = policy.Net.String(), "setsockopt", string(policy.HostNotListed)
		e.Target = fmt.Sprintf("option %d of level %d", k.Detail>>16, k.Detail&0xffff)
		return
	case k.Why == loader.WhyFiles:
		e.Reason = string(policy.Limit)
		e.Extra["why"] = "the session, or all of its user's, have as many files open that send signals (F_SETOWN, O_ASYNC, leases) as they may have"
	case k.Op == loader.OpOpen || k.Op == loader.OpTruncate:
		e.Extra["why"] = "it's a pipe, or memory without a name, and may be opened or cut off only as far as it's open already"
	case k.Other != 0:
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", k.Other))
		e.Target = strings.TrimSpace(string(name))
		if k.Op == loader.OpTrace && k.Why == loader.WhyAlways {
			e.Extra["why"] = "who traces a process that began before it isn't traced itself: processes that trace each other in a circle can't be ended"
		}
	default:
		e.Target = k.Door()
	}
	if k.Detail != 0 {
		e.Extra["detail"] = fmt.Sprint(k.Detail)
	}
}

// describePath describes a denial by the policy's fs rules. The rule is found with the evaluator that `check` uses, and
// must be the one that the kernel found.
func (r describer) describePath(e *event.Event, k *loader.Event) {
	asked := r.asked(e, k)
	kernel := r.verdict(k, policy.RuleDenies)
	switch {
	case k.Walk == loader.WalkMoved:
		r.moved(e, kernel)
		return
	case k.Cut || k.Walk != loader.WalkOK:
		e.Reason = string(policy.PathUnresolved)
		return
	}
	v := r.policy.CheckFS(e.Target, asked.Need)
	if v.Allow && r.pinned(kernel) {
		v = kernel
	}
	switch {
	case image.Hidden(e.Target):
		r.decided(e, kernel)
		e.Reason = string(kernel.Reason)
		return
	case v.Reason == policy.PathUnresolved:
	case v.Allow || v.Layer != kernel.Layer || v.Rule != kernel.Rule:
		r.disagree(e, kernel, v)
		return
	}
	if v.Reason == policy.NoRule && !strings.HasPrefix(e.Target+"/", r.policy.Workspace+"/") {
		v.Reason = policy.OutsideWorkspace
	}
	r.suggest(e, v, explain.Question{
		Resource: policy.FS, Caps: asked.Need, Target: e.Target, Symlink: k.Op == loader.OpReadlink,
	})
}

// asked names what was denied: of two paths the first that isn't given.
func (r describer) asked(e *event.Event, k *loader.Event) loader.Asked {
	i := max(0, slices.IndexFunc(k.Paths, func(p loader.Asked) bool { return p.Need&^p.Have != 0 }))
	asked := k.Paths[i]
	e.Resource, e.Capability, e.Target = policy.FS.String(), asked.Need.String(), asked.Path
	if len(k.Paths) > 1 {
		e.Extra[[]string{"to", "from"}[i]] = k.Paths[1-i].Path
	}
	return asked
}

// moved describes a denial of what has got another name since, about which the evaluator may decide otherwise.
func (r describer) moved(e *event.Event, kernel policy.Verdict) {
	if kernel.Rule < 0 && kernel.Reason == policy.RuleDenies {
		kernel.Reason = policy.NoRule
	}
	r.decided(e, kernel)
	e.Reason = string(kernel.Reason)
	e.Extra["why"] = "it was renamed meanwhile, and the path is what it's called now"
}

// pinned reports whether a rule decided that is about a file under all of its hard links.
func (r describer) pinned(v policy.Verdict) bool {
	return v.Rule >= 0 && r.policy.Pinned(r.policy.Rules[v.Rule])
}

// describeMove describes a move that would give something. The kernel decides; the evaluator finds the rule.
func (r describer) describeMove(e *event.Event, k *loader.Event) {
	last := k.Paths[len(k.Paths)-1]
	e.Resource, e.Capability, e.Target = policy.FS.String(), k.Op.String(), k.Paths[0].Path
	e.Extra["to"] = last.Path
	e.Reason = string(policy.NoGain)
	kernel := r.verdict(k, policy.NoGain)
	if k.Walk == loader.WalkMoved {
		r.moved(e, kernel)
		return
	}
	v := r.moves(policy.Move{
		Old: e.Target, OldDir: k.Detail&loader.MoveDir != 0, New: last.Path, NewExists: last.Need == policy.Update,
		NewDir: k.Detail&loader.MoveBackDir != 0, Exchange: k.Detail&loader.MoveBack != 0,
	}, k.Op)
	switch {
	case k.Cut || v.Reason == policy.PathUnresolved:
		r.decided(e, kernel)
	case v.Reason != policy.NoGain:
		r.disagree(e, kernel, v)
	default:
		r.decided(e, v)
	}
}

// moves decides about a rename or a link by the policy.
func (r describer) moves(m policy.Move, op loader.Op) policy.Verdict {
	if op == loader.OpLink {
		return r.policy.CheckLink(m)
	}
	return r.policy.CheckRename(m)
}

// disagree reports that the kernel and the evaluator read the policy differently: one of them is wrong. The collector warns of it.
func (r describer) disagree(e *event.Event, kernel, ours policy.Verdict) {
	r.decided(e, kernel)
	e.Reason = string(policy.EngineError)
	e.Extra["why"] = fmt.Sprintf("the kernel denied this by layer %d and rule %d, and the policy says %s by layer %d and rule %d: "+
		"this is a mistake in toolguard, please report it", kernel.Layer, kernel.Rule, ours.Reason, ours.Layer, ours.Rule)
}

// describeCommand describes a program that isn't listed, or not with these arguments.
func (r describer) describeCommand(e *event.Event, k *loader.Event) {
	program := k.Paths[0].Path
	v := r.verdict(k, policy.CommandNotListed)
	if k.Why == loader.WhyArgs {
		v.Reason = policy.ArgsNotListed
		program = r.withArgs(v, program)
	}
	e.Resource, e.Capability, e.Target = policy.Commands.String(), policy.Execute.String(), program
	q := explain.Question{Resource: policy.Commands, Target: program}
	if k.Why == loader.WhyArgs && k.Args != "" {
		called, args, _ := strings.Cut(k.Args, "\x00")
		argv := strings.Split(program+"\x00"+args, "\x00")
		argv = event.RedactArgv(argv[:len(argv)-1]) // by the program: who called it chose what it's called
		argv[0] = event.RedactArgv([]string{called})[0]
		e.Asked = strings.Join(argv, " ")
		if len(k.Args) < loader.MaxArgs && k.Detail == 0 { // or there may be others
			q.Argv = argv
		}
		if why := r.policy.NameMismatch(v, argv[0]); why != "" {
			e.Extra["why"] = why
		}
	}
	r.suggest(e, v, q)
}

// withArgs is the program that a rule about arguments is of: by the time that they're looked at for good a script's interpreter
// is what is executed.
func (r describer) withArgs(v policy.Verdict, executed string) string {
	if v.Rule >= 0 {
		if c := r.policy.Rules[v.Rule].Command; c != nil {
			return c.Program
		}
	}
	return executed
}
