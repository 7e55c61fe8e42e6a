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

// Listen begins to collect the denials of the BPF programs.
func (d *Collector) Listen(s *loader.Session) {
	d.mu.Lock()
	d.counts = s.Counts
	d.mu.Unlock()
	s.Listen(d.deniedByBPF)
}

// bpfKey is all that an event reports of a BPF program's denial, except the time.
type bpfKey struct {
	pid, uid, layer, rule, errno int
	other                        int
	comm, paths, args            string
	op                           loader.Op
	why                          loader.Why
	walk                         loader.Walk
	detail, generation           uint32
}

func bpfKeyOf(k *loader.Event) bpfKey {
	a := bpfKey{
		pid: k.PID, uid: k.UID, layer: k.Layer, rule: k.Rule, errno: k.Errno, comm: k.Comm, args: k.Args,
		op: k.Op, why: k.Why, walk: k.Walk, detail: k.Detail, generation: k.Generation, other: k.Other,
	}
	for _, p := range k.Paths {
		a.paths += fmt.Sprintf("%d%s\x00", p.Need, p.Path)
	}
	return a
}

// deniedByBPF runs on the goroutine that reads the session's ring buffer.
func (d *Collector) deniedByBPF(k loader.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handleBPF(d.policy, k)
}

// handleBPF handles an event of the BPF programs, by the policy that decided. mu is locked.
func (d *Collector) handleBPF(c *policy.Compiled, k loader.Event) {
	if k.PID == d.self {
		return // toolguard itself, by its session thread
	}
	if k.Op == loader.OpExec {
		d.executed(c, &k)
		return
	}
	if moot(&k) {
		return
	}
	d.aggregate(bpfKeyOf(&k), k.Time, func() event.Event {
		e := Describe(&d.cfg, c, &k, d.chainOf(&k))
		if e.Reason == string(policy.EngineError) {
			d.cfg.warn("%s on %s: %s", e.Capability, e.Target, e.Extra["why"])
		}
		return e
	})
}

// moot reports whether the denial of a creation had no effect, because the file exists. With O_CREAT the kernel asks for creation before it
// looks the name up, unless it's cached (lookup_open in fs/namei.c, Linux 5.6 and later), and opens an existing file whatever the answer was. A
// file that is newer than the denial didn't exist, and in /proc no file can be created.
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

// reportLosses reports the events that the kernel lost since the last call. mu is locked.
func (d *Collector) reportLosses() {
	if d.counts == nil {
		return
	}
	c := d.counts()
	if n := c.Lost + c.Suppressed - d.lossesReported; n > 0 {
		d.lossesReported += n
		d.gap("bpf", n, "there were more denials at a time than are reported", true)
	}
	if n := c.Unrecorded - d.unrecorded; n > 0 {
		d.unrecorded += n
		d.gapOf("bpf:exec", n, n, "more programs were executed at a time than are reported", true)
	}
}

// drainKernel collects the last events while end ends the session in the kernel, and returns the counts of end.
func (d *Collector) drainKernel(end func() loader.Counts) loader.Counts {
	d.mu.Lock()
	collects := d.counts != nil
	d.counts = nil // it reads memory that is freed with the session: tick must not call it meanwhile
	d.mu.Unlock()
	counts := end()
	if !collects {
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

// bpf makes the event of a BPF program's denial.
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

// callOf converts a denied system call to the form of the audit records.
func callOf(k *loader.Event) kernelaudit.Denial {
	nr := int(k.Detail)
	return kernelaudit.Denial{
		Source: kernelaudit.Seccomp, Signal: max(0, -k.Errno),
		Call: kernelaudit.Call{Arch: seccomp.Arch(nr, k.Errno < 0), Number: nr, Known: true},
	}
}

// verdict returns the kernel's verdict.
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

// describeAlways describes a denial that doesn't depend on the session's rules.
func (r describer) describeAlways(e *event.Event, k *loader.Event) {
	e.Resource, e.Capability, e.Reason = "always", k.Op.String(), string(policy.SyscallDenied)
	switch {
	case len(k.Paths) > 0:
		e.Target = k.Paths[0].Path
		if k.Why == loader.WhyAlways && (k.Op == loader.OpCreate || k.Op == loader.OpOpen) {
			e.Extra["why"] = "a session can't make setuid or setgid files, which other users would execute as its user or group"
		}
	case k.Op == loader.OpUnix: // a socket with a path is a file
		e.Resource, e.Capability, e.Reason = policy.Net.String(), "connect", string(policy.HostNotListed)
	case k.Op == loader.OpOption:
		e.Resource, e.Capability, e.Reason = policy.Net.String(), "setsockopt", string(policy.HostNotListed)
		e.Target = fmt.Sprintf("option %d of level %d", k.Detail>>16, k.Detail&0xffff)
		return
	case k.Why == loader.WhyFiles:
		e.Reason = string(policy.Limit)
		e.Extra["why"] = "the session, or its user's sessions together, have the maximum of open files that send signals (F_SETOWN, O_ASYNC, leases)"
	case k.Op == loader.OpOpen || k.Op == loader.OpTruncate:
		e.Extra["why"] = "it's a pipe or unnamed memory, which may only be opened or truncated with the access of the descriptor that is open already"
	case k.Other != 0:
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", k.Other))
		e.Target = strings.TrimSpace(string(name))
		if k.Op == loader.OpTrace && k.Why == loader.WhyAlways {
			e.Extra["why"] = "a traced process may not trace one that began before it: processes that trace each other in a circle can't be killed"
		}
	default:
		e.Target = k.Door()
	}
	if k.Detail != 0 {
		e.Extra["detail"] = fmt.Sprint(k.Detail)
	}
}

// describePath describes a denial by the policy's fs rules. It finds the rule with the evaluator of `check`, which must agree with the kernel.
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

// asked sets the target: of two paths the first that lacks a needed capability.
func (r describer) asked(e *event.Event, k *loader.Event) loader.Asked {
	i := max(0, slices.IndexFunc(k.Paths, func(p loader.Asked) bool { return p.Need&^p.Have != 0 }))
	asked := k.Paths[i]
	e.Resource, e.Capability, e.Target = policy.FS.String(), asked.Need.String(), asked.Path
	if len(k.Paths) > 1 {
		e.Extra[[]string{"to", "from"}[i]] = k.Paths[1-i].Path
	}
	return asked
}

// moved describes a denial of a file that was renamed since, about which the evaluator may decide differently.
func (r describer) moved(e *event.Event, kernel policy.Verdict) {
	if kernel.Rule < 0 && kernel.Reason == policy.RuleDenies {
		kernel.Reason = policy.NoRule
	}
	r.decided(e, kernel)
	e.Reason = string(kernel.Reason)
	e.Extra["why"] = "it was renamed meanwhile: this is its new path"
}

// pinned reports whether the rule of a verdict applies to all hard links of its file.
func (r describer) pinned(v policy.Verdict) bool {
	return v.Rule >= 0 && r.policy.Pinned(r.policy.Rules[v.Rule])
}

// describeMove describes a denied move that would have gained access. The evaluator finds the rule.
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
	v := r.checkMove(policy.Move{
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

// checkMove decides about a rename or a link by the policy.
func (r describer) checkMove(m policy.Move, op loader.Op) policy.Verdict {
	if op == loader.OpLink {
		return r.policy.CheckLink(m)
	}
	return r.policy.CheckRename(m)
}

// disagree reports that the kernel and the evaluator decide differently, which is a defect. The collector warns about it.
func (r describer) disagree(e *event.Event, kernel, ours policy.Verdict) {
	r.decided(e, kernel)
	e.Reason = string(policy.EngineError)
	e.Extra["why"] = fmt.Sprintf("the kernel denied this by layer %d and rule %d, and the policy evaluates to %s by layer %d and rule %d: "+
		"this is a defect of toolguard, please report it", kernel.Layer, kernel.Rule, ours.Reason, ours.Layer, ours.Rule)
}

// describeCommand describes a program that isn't listed, or not with these arguments.
func (r describer) describeCommand(e *event.Event, k *loader.Event) {
	program := k.Paths[0].Path
	v := r.verdict(k, policy.CommandNotListed)
	if k.Why == loader.WhyArgs {
		v.Reason = policy.ArgsNotListed
		program = r.ruleProgram(v, program)
	}
	e.Resource, e.Capability, e.Target = policy.Commands.String(), policy.Execute.String(), program
	q := explain.Question{Resource: policy.Commands, Target: program}
	if k.Why == loader.WhyArgs && k.Args != "" {
		called, args, _ := strings.Cut(k.Args, "\x00")
		argv := strings.Split(program+"\x00"+args, "\x00")
		argv = event.RedactArgv(argv[:len(argv)-1]) // redacted by the program: its caller chose argument 0
		argv[0] = event.RedactArgv([]string{called})[0]
		e.Asked = strings.Join(argv, " ")
		if len(k.Args) < loader.MaxArgs && k.Detail == 0 { // otherwise there may be more arguments
			q.Argv = argv
		}
		if why := r.policy.NameMismatch(v, argv[0]); why != "" {
			e.Extra["why"] = why
		}
	}
	r.suggest(e, v, q)
}

// ruleProgram returns the program of a rule about arguments. When the kernel checks the arguments of a script, the interpreter is executed.
func (r describer) ruleProgram(v policy.Verdict, executed string) string {
	if v.Rule >= 0 {
		if c := r.policy.Rules[v.Rule].Command; c != nil {
			return c.Program
		}
	}
	return executed
}
