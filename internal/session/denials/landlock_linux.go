package denials

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/seccomp"
)

// audit makes the event of an audit record.
func (r describer) audit(k kernelaudit.Denial, chain []event.Process) event.Event {
	e := r.about(event.Event{Kind: event.Denial, Process: chain})
	e.Time = k.Time
	e.Extra = map[string]string{}
	if k.Errno != 0 {
		e.Errno = errnoName(k.Errno)
	}
	if k.Source == kernelaudit.Seccomp {
		r.describeCall(&e, k)
	} else {
		r.describeAccess(&e, k)
	}
	return e
}

// describeAccess describes a denial by Landlock. Landlock reports what it denied as blockers (Linux 6.15,
// Documentation/admin-guide/LSM/landlock.rst); the rule is the policy's own, found with the same evaluator that `check`
// uses.
func (r describer) describeAccess(e *event.Event, k kernelaudit.Denial) {
	e.Mechanism = "landlock:" + strings.Join(k.Blockers, ",")
	caps, entry := fsCaps(k.Blockers)
	switch {
	case caps != 0:
		r.describeLandlockPath(e, k, caps, entry)
	case slices.Contains(k.Blockers, "fs.refer"):
		e.Resource, e.Capability, e.Target = policy.FS.String(), "rename or link", k.Path
		e.Reason = string(policy.NoGain)
	case slices.Contains(k.Blockers, "fs.change_topology"):
		e.Resource, e.Capability, e.Target = "always", "mount", k.Path
		e.Reason = string(policy.SyscallDenied)
	case strings.HasPrefix(strings.Join(k.Blockers, ","), "net."):
		r.describePort(e, k)
	default:
		r.describeScope(e, k)
	}
}

// fsCaps returns the capabilities for blockers. With entry, the denied operation was on a name in the directory of the record, not on the
// directory.
func fsCaps(blockers []string) (caps policy.Caps, entry bool) {
	for _, b := range blockers {
		switch {
		case b == "fs.read_file" || b == "fs.read_dir":
			caps |= policy.Read
		case b == "fs.write_file" || b == "fs.truncate" || b == "fs.ioctl_dev" || b == "fs.resolve_unix":
			caps |= policy.Update
		case b == "fs.execute":
			caps |= policy.Execute
		case strings.HasPrefix(b, "fs.make_"):
			caps, entry = caps|policy.Create, true
		case strings.HasPrefix(b, "fs.remove_"):
			caps, entry = caps|policy.Delete, true
		}
	}
	return caps, entry
}

func (r describer) describeLandlockPath(e *event.Event, k kernelaudit.Denial, caps policy.Caps, entry bool) {
	e.Resource, e.Capability, e.Target = policy.FS.String(), caps.String(), k.Path
	if entry {
		e.Extra["entry"] = "the target is the directory: the kernel doesn't report the name of the entry"
	}
	if !filepath.IsAbs(k.Path) {
		e.Reason = string(policy.PathUnresolved)
		return
	}
	e.Target = ownName(k)
	v := r.policy.CheckFS(e.Target, caps)
	if v.Allow && caps&policy.Execute != 0 {
		v = r.policy.CheckCommand(e.Target, nil)
	}
	if v.Allow {
		e.Reason = string(policy.EngineError)
		e.Extra["why"] = "the policy allows this, and the landlock backend is stricter: --dry-run shows for which rules, `toolguard doctor` its stated gaps"
		return
	}
	if v.Reason == policy.NoRule && !strings.HasPrefix(e.Target+"/", r.policy.Workspace+"/") {
		v.Reason = policy.OutsideWorkspace
	}
	r.suggest(e, v, explain.Question{Resource: policy.FS, Caps: caps, Target: e.Target})
}

// ownName returns the record's path, with /proc/self for the process's own entries in /proc, as policies have it.
func ownName(k kernelaudit.Denial) string {
	if own, ok := strings.CutPrefix(k.Path+"/", fmt.Sprintf("/proc/%d/", k.PID)); ok {
		return filepath.Join("/proc/self", own)
	}
	return k.Path
}

func (r describer) describePort(e *event.Event, k kernelaudit.Denial) {
	e.Resource, e.Capability, e.Target = policy.Net.String(), "connect", k.Remote
	if slices.Contains(k.Blockers, "net.bind_tcp") || slices.Contains(k.Blockers, "net.bind_udp") {
		e.Capability, e.Target = "listen", k.Local
	}
	protocol := "tcp://"
	if slices.Contains(k.Blockers, "net.bind_udp") || slices.Contains(k.Blockers, "net.connect_send_udp") {
		protocol = "udp://"
	}
	e.Target = protocol + e.Target
	q := explain.Question{Resource: policy.Net, Target: e.Target, Listen: e.Capability == "listen"}
	t, err := q.NetTarget()
	if err != nil {
		e.Reason = string(policy.HostNotListed)
		return
	}
	r.suggest(e, r.policy.CheckNet(&t), q)
}

// describeScope describes a denied access to a process outside the session: signals, tracing, abstract sockets.
func (r describer) describeScope(e *event.Event, k kernelaudit.Denial) {
	e.Resource, e.Capability, e.Reason = "always", strings.Join(k.Blockers, ","), string(policy.SyscallDenied)
	switch {
	case slices.Contains(k.Blockers, "scope.signal"):
		e.Capability = "signal a process outside the session"
	case slices.Contains(k.Blockers, "ptrace"):
		e.Capability = "trace a process outside the session"
	case slices.Contains(k.Blockers, "scope.abstract_unix_socket"):
		e.Resource, e.Capability, e.Reason = policy.Net.String(), "connect", string(policy.HostNotListed)
	}
	if e.Target = k.Path; e.Target == "" && k.PeerPID != 0 {
		e.Target = k.PeerComm
	}
}

// describeCall describes a denied system call.
func (r describer) describeCall(e *event.Event, k kernelaudit.Denial) {
	name := seccomp.Name(k.Call.Arch, k.Call.Number)
	e.Resource, e.Capability, e.Target, e.Mechanism = "syscall", name, name, "seccomp"
	e.Reason = string(policy.SyscallDenied)
	if k.Signal != 0 {
		e.Extra["signal"] = unix.SignalName(syscall.Signal(k.Signal))
	}
	cause, ok := seccomp.Explain(r.policy, r.cfg.Others, k.Call.Arch, k.Call.Number, nil)
	if !ok {
		e.Extra["why"] = "not denied by this session's filters, but by one that the command loaded itself"
		return
	}
	e.Resource, e.Reason, e.Errno, e.Rule = cause.Resource, string(cause.Reason), cause.Errno, cause.ID
	if cause.Position != (policy.Position{}) {
		e.Place = cause.Position.String()
	}
	e.Extra["why"], e.Suggest = cause.Text, cause.Suggest
}
