package denials

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/proc"
)

// ListenNetwork begins to collect what the kernel's programs for the network deny.
func (d *Collector) ListenNetwork(s *cgroupsock.Session) error {
	return d.listenNetwork(s, d.deniedByNetwork)
}

func (d *Collector) listenNetwork(s *cgroupsock.Session, take func(cgroupsock.Event)) error {
	d.watchNetwork(s.Counts)
	return s.Listen(take)
}

// watchNetwork has the losses of what is denied of the network reported, or no more.
func (d *Collector) watchNetwork(counts func() cgroupsock.Counts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if counts != nil && d.networkCounts == nil && d.networkLossesReported == 0 { // another process has reported what came before, or it was missed
		before := counts()
		d.networkLossesReported = before.Lost + before.Suppressed
	}
	d.networkCounts = counts
}

// EndNetwork takes in the last of it while end ends the network, and returns what was counted there.
func (d *Collector) EndNetwork(end func() cgroupsock.Counts) cgroupsock.Counts {
	d.watchNetwork(nil)
	last := end()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endRepeats()
	d.reportNetworkLosses(last)
	return last
}

// checkNetworkLosses is reportNetworkLosses while the session lasts.
func (d *Collector) checkNetworkLosses() {
	if d.networkCounts != nil {
		d.reportNetworkLosses(d.networkCounts())
	}
}

// reportNetworkLosses is what of it was lost. It's called with the lock held.
func (d *Collector) reportNetworkLosses(c cgroupsock.Counts) {
	if n := c.Lost + c.Suppressed - d.networkLossesReported; n > 0 {
		d.networkLossesReported += n
		d.gap("netguard", n, "more were denied at a time than are reported", true)
	}
}

// Missed reports that denials may have gone unreported.
func (d *Collector) Missed(mechanism, why string) { d.Lost(mechanism, 0, why) }

// Lost reports that n denials weren't reported; 0: it isn't known how many.
func (d *Collector) Lost(mechanism string, n uint64, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gap(mechanism, n, why, n > 0)
}

// deniedByNetwork runs on the goroutine that listens to the kernel's programs for the network.
func (d *Collector) deniedByNetwork(k cgroupsock.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.takeNetwork(d.policy, k)
}

// takeNetwork takes in what the kernel's programs for the network report, by the policy that decided. It's called with the lock held.
func (d *Collector) takeNetwork(c *policy.Compiled, k cgroupsock.Event) {
	like := k
	like.Time, like.SeenAt, like.Sequence = time.Time{}, 0, 0
	first := event.Process{PID: k.PID, UID: k.UID, Comm: k.Comm}
	d.aggregate(like, k.Time, func() event.Event { return Describe(&d.cfg, c, &k, d.chainSince(first, k.SeenAt)) })
}

// chainSince is chain for who was seen in the kernel at a time since boot. He may be gone since: then it's he alone, and where nobody is
// known it's empty.
func (d *Collector) chainSince(first event.Process, seen time.Duration) []event.Process {
	switch {
	case first.PID == 0:
		return nil
	case d.cfg.Events == nil:
		return []event.Process{first}
	}
	still, _ := processAt(first.PID)
	still.UID, still.Comm = first.UID, first.Comm
	list := d.chain(still, event.Process{UID: -1})
	start, err := proc.Start(first.PID)
	if err != nil || start > seen { // looked at last: so it was him that was read about
		return []event.Process{first}
	}
	return list
}

// whyNet is why something is denied that no rule is about.
var whyNet = map[cgroupsock.Why]string{
	cgroupsock.WhyEgress: "it's toolguard's own port, or toolguard isn't there to be asked",
	cgroupsock.WhySocket: "always on: no raw or exotic sockets",
	cgroupsock.WhyDevice: "the socket would have a device of its own: by which one an address is reached is for the machine's routes to say",
	cgroupsock.WhyRoute:  "the packet could be led elsewhere, or isn't whole",
	cgroupsock.WhyMemory: "the kernel has no room to note down where the socket was going",
}

// socket makes an event of what a program on the cgroup denied.
func (r describer) socket(k *cgroupsock.Event, chain []event.Process) event.Event {
	e := r.about(event.Event{Kind: event.Denial, Process: chain, Mechanism: "netguard:" + k.Op.String()})
	e.Time, e.Resource, e.Capability = k.Time, policy.Net.String(), "connect"
	if k.Op != cgroupsock.OpPacket && k.Op != cgroupsock.OpAccept {
		e.Errno = errnoName(syscall.EACCES)
	}
	e.Extra = map[string]string{}
	if why := whyNet[k.Why]; why != "" {
		e.Extra["why"] = why
	}
	switch k.Op {
	case cgroupsock.OpSocket:
		e.Resource, e.Capability, e.Reason = "syscall", "socket", string(policy.SyscallDenied)
		e.Target = fmt.Sprintf("socket of type %d and protocol %d", k.Kind, k.Protocol)
		return e
	case cgroupsock.OpOption:
		e.Capability, e.Reason = "setsockopt", string(policy.HostNotListed)
		e.Target = fmt.Sprintf("option %d of level %d", k.Kind, k.Protocol)
		return e
	case cgroupsock.OpBind, cgroupsock.OpAccept:
		e.Capability = "listen"
	}
	e.Target = netTarget(k.Protocol, k.At)
	v := r.kernelSaid(k)
	switch k.Why {
	case cgroupsock.WhyPolicy:
	case cgroupsock.WhyTaken:
		r.describeTaken(&e, v)
		return e
	default:
		e.Reason = string(v.Reason)
		return e
	}
	r.suggest(&e, v, explain.Question{Resource: policy.Net, Target: e.Target, Listen: e.Capability == "listen"})
	return e
}

// describeTaken describes a denied bind where another process waits already. The rule of the verdict didn't decide: it grants free ports.
func (r describer) describeTaken(e *event.Event, v policy.Verdict) {
	e.Reason, e.Errno = string(policy.HostNotListed), errnoName(syscall.EADDRINUSE)
	e.Extra["why"] = "a process outside the session waits at this port"
	grant := "the policy"
	if v.Rule >= 0 {
		grant = fmt.Sprintf("%s (%s)", r.policy.Rules[v.Rule].ID, r.policy.Rules[v.Rule].Position)
	}
	e.Extra["advice"] = grant + " grants the session's own servers a free port: use another one (port 0: the kernel chooses), or end that process"
}

// kernelSaid is the kernel's verdict.
func (r describer) kernelSaid(k *cgroupsock.Event) policy.Verdict {
	v := policy.Verdict{Reason: policy.HostNotListed, Layer: -1, Rule: policy.NoMatch}
	if k.Layer >= 0 && k.Layer < len(r.policy.Layers) {
		v.Layer = int16(k.Layer)
	}
	if k.Rule >= 0 && k.Rule < len(r.policy.Rules) {
		v.Rule, v.Reason = int32(k.Rule), policy.RuleDenies
	}
	return v
}

// netTarget is an address as `check` writes it.
func netTarget(protocol int, at netip.AddrPort) string {
	switch protocol {
	case unix.IPPROTO_TCP:
		return "tcp://" + at.String()
	case unix.IPPROTO_UDP:
		return "udp://" + at.String()
	}
	return fmt.Sprintf("protocol %d to %s", protocol, at.Addr())
}

// namedLike is all that an event reports of what egress denied, but for the time and the client's port.
type namedLike struct {
	pid, uid                                   int
	comm, protocol, method, target, rule, note string
	to                                         netip.AddrPort
	reason                                     policy.Reason
}

// DeniedByName takes in what egress denied.
func (d *Collector) DeniedByName(k *message.Denial) {
	a := &k.Answer
	like := namedLike{k.Process.PID, k.Process.UID, k.Process.Comm, k.Protocol, k.Method, a.Target, "", a.Note, k.To, a.Reason}
	if a.Rule != nil {
		like.rule = a.Rule.ID
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.aggregate(like, time.Now(), func() event.Event {
		first := event.Process{PID: k.Process.PID, UID: k.Process.UID, Comm: k.Process.Comm}
		return Describe(&d.cfg, d.policy, k, d.chainSince(first, k.Process.SeenAt))
	})
}

func (r describer) egress(k *message.Denial, chain []event.Process) event.Event {
	a := &k.Answer
	e := r.about(event.Event{Kind: event.Denial, Process: chain, Mechanism: "egress:" + k.Protocol})
	e.Resource, e.Capability, e.Target = policy.Net.String(), "connect", a.Target
	if strings.HasPrefix(a.Target, "dns://") { // not an address that a name led to
		e.Capability = "resolve"
	}
	e.Reason, e.Suggest = string(a.Reason), a.Suggest
	if a.Authority != policy.Builtin && a.Authority < policy.NumAuthorities {
		e.Authority = a.Authority.String()
	}
	if a.Rule != nil {
		e.Rule, e.Place = a.Rule.ID, a.Rule.Position.String()
	}
	e.Extra = map[string]string{}
	for name, value := range map[string]string{"method": k.Method, "why": a.Note, "to": text(k.To), "from": text(k.Client)} {
		if value != "" {
			e.Extra[name] = value
		}
	}
	r.advise(&e, a.Advice)
	scheme, _, _ := strings.Cut(a.Target, "://")
	adviseProxy(&e, r.proxyAt(a.Target), scheme)
	return e
}

// text is an address and port, "" for none.
func text(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
