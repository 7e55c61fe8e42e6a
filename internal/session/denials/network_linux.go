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

// ListenNetwork begins to collect the denials of the programs on the session's cgroup.
func (d *Collector) ListenNetwork(s *cgroupsock.Session) error {
	return d.listenNetwork(s, d.deniedByNetwork)
}

func (d *Collector) listenNetwork(s *cgroupsock.Session, handle func(cgroupsock.Event)) error {
	d.watchNetwork(s.Counts)
	return s.Listen(handle)
}

// watchNetwork sets the counts by which lost network denials are reported; nil: they are no longer reported.
func (d *Collector) watchNetwork(counts func() cgroupsock.Counts) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if counts != nil && d.networkCounts == nil && d.networkLossesReported == 0 { // another process was to report the earlier losses
		before := counts()
		d.networkLossesReported = before.Lost + before.Suppressed
	}
	d.networkCounts = counts
}

// EndNetwork collects the last network denials while end ends the network, and returns the counts of end.
func (d *Collector) EndNetwork(end func() cgroupsock.Counts) cgroupsock.Counts {
	d.watchNetwork(nil)
	last := end()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endRepeats()
	d.reportNetworkLosses(last)
	return last
}

// checkNetworkLosses calls reportNetworkLosses while the network exists.
func (d *Collector) checkNetworkLosses() {
	if d.networkCounts != nil {
		d.reportNetworkLosses(d.networkCounts())
	}
}

// reportNetworkLosses reports the network denials that the kernel lost since the last call. mu is locked.
func (d *Collector) reportNetworkLosses(c cgroupsock.Counts) {
	if n := c.Lost + c.Suppressed - d.networkLossesReported; n > 0 {
		d.networkLossesReported += n
		d.gap("netguard", n, "there were more denials at a time than are reported", true)
	}
}

// Missed reports that denials may be missing.
func (d *Collector) Missed(mechanism, why string) { d.Lost(mechanism, 0, why) }

// Lost reports that n denials weren't reported; 0: the number is unknown.
func (d *Collector) Lost(mechanism string, n uint64, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gap(mechanism, n, why, n > 0)
}

// deniedByNetwork runs on the goroutine that reads the ring buffer of the programs on the cgroup.
func (d *Collector) deniedByNetwork(k cgroupsock.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handleNetwork(d.policy, k)
}

// handleNetwork handles an event of the programs on the cgroup, by the policy that decided. mu is locked.
func (d *Collector) handleNetwork(c *policy.Compiled, k cgroupsock.Event) {
	key := k
	key.Time, key.SeenAt, key.Sequence = time.Time{}, 0, 0
	first := event.Process{PID: k.PID, UID: k.UID, Comm: k.Comm}
	d.aggregate(key, k.Time, func() event.Event { return Describe(&d.cfg, c, &k, d.chainSince(first, k.SeenAt)) })
}

// chainSince is chain for a process that the kernel saw at a time since boot. If the process has ended since, the chain is that process alone. If
// the process is unknown, the chain is empty.
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
	if err != nil || start > seen { // checked last: another process has reused the PID
		return []event.Process{first}
	}
	return list
}

// whyNet explains denials that don't depend on rules.
var whyNet = map[cgroupsock.Why]string{
	cgroupsock.WhyEgress: "it's toolguard's own port, or toolguard's egress process isn't running",
	cgroupsock.WhySocket: "always on: no raw or exotic sockets",
	cgroupsock.WhyDevice: "the socket would select a network device: the machine's routes must select it",
	cgroupsock.WhyRoute:  "the packet could be routed elsewhere, or is incomplete",
	cgroupsock.WhyMemory: "the kernel has no space to record the destination of the socket",
}

// socket makes the event of a denial by a program on the cgroup.
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
	v := r.socketVerdict(k)
	switch k.Why {
	case cgroupsock.WhyPolicy:
	case cgroupsock.WhyTaken:
		r.describePortInUse(&e, v)
		return e
	default:
		e.Reason = string(v.Reason)
		return e
	}
	r.suggest(&e, v, explain.Question{Resource: policy.Net, Target: e.Target, Listen: e.Capability == "listen"})
	return e
}

// describePortInUse describes a denied bind to a port at which a process outside the session listens. The verdict's rule allows free ports.
func (r describer) describePortInUse(e *event.Event, v policy.Verdict) {
	e.Reason, e.Errno = string(policy.HostNotListed), errnoName(syscall.EADDRINUSE)
	e.Extra["why"] = "a process outside the session listens on this port"
	grant := "the policy"
	if v.Rule >= 0 {
		grant = fmt.Sprintf("%s (%s)", r.policy.Rules[v.Rule].ID, r.policy.Rules[v.Rule].Position)
	}
	e.Extra["advice"] = grant + " grants the session's own servers a free port: use another one (port 0: the kernel chooses), or end that process"
}

// socketVerdict returns the kernel's verdict about a socket.
func (r describer) socketVerdict(k *cgroupsock.Event) policy.Verdict {
	v := policy.Verdict{Reason: policy.HostNotListed, Layer: -1, Rule: policy.NoMatch}
	if k.Layer >= 0 && k.Layer < len(r.policy.Layers) {
		v.Layer = int16(k.Layer)
	}
	if k.Rule >= 0 && k.Rule < len(r.policy.Rules) {
		v.Rule, v.Reason = int32(k.Rule), policy.RuleDenies
	}
	return v
}

// netTarget formats an address for `check`.
func netTarget(protocol int, at netip.AddrPort) string {
	switch protocol {
	case unix.IPPROTO_TCP:
		return "tcp://" + at.String()
	case unix.IPPROTO_UDP:
		return "udp://" + at.String()
	}
	return fmt.Sprintf("protocol %d to %s", protocol, at.Addr())
}

// egressKey is all that an event reports of a denial by egress, except the time and the client's port.
type egressKey struct {
	pid, uid                                   int
	comm, protocol, method, target, rule, note string
	to                                         netip.AddrPort
	reason                                     policy.Reason
}

// DeniedByName handles a denial by egress.
func (d *Collector) DeniedByName(k *message.Denial) {
	a := &k.Answer
	key := egressKey{k.Process.PID, k.Process.UID, k.Process.Comm, k.Protocol, k.Method, a.Target, "", a.Note, k.To, a.Reason}
	if a.Rule != nil {
		key.rule = a.Rule.ID
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.aggregate(key, time.Now(), func() event.Event {
		first := event.Process{PID: k.Process.PID, UID: k.Process.UID, Comm: k.Process.Comm}
		return Describe(&d.cfg, d.policy, k, d.chainSince(first, k.Process.SeenAt))
	})
}

func (r describer) egress(k *message.Denial, chain []event.Process) event.Event {
	e, a := r.about(egressEvent(k)), &k.Answer
	e.Process = chain
	r.advise(&e, a.Advice)
	scheme, _, _ := strings.Cut(a.Target, "://")
	adviseProxy(&e, r.proxyAt(a.Target), scheme)
	return e
}
