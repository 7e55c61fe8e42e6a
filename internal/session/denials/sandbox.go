package denials

import (
	"net"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/darwin/oslog"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// sandboxCaps are the capabilities that operations of macOS's sandbox need. An operation that isn't here is none of a policy's resources.
var sandboxCaps = map[string]policy.Caps{
	"file-read-data": policy.Read, "file-read-metadata": policy.Read, "file-read-xattr": policy.Read, "file-read*": policy.Read,
	"file-test-existence": policy.Read,
	"file-write-create":   policy.Create, "file-link": policy.Create, "file-clone": policy.Create,
	"file-write-unlink": policy.Delete,
	"file-write-data":   policy.Update, "file-write-mode": policy.Update, "file-write-flags": policy.Update, "file-write-times": policy.Update,
	"file-write-xattr": policy.Update, "file-write-acl": policy.Update, "file-write-owner": policy.Update, "file-write-setugid": policy.Update,
	"file-write*": policy.Update, "file-ioctl": policy.Update,
	"process-exec": policy.Execute, "process-exec*": policy.Execute, "process-exec-interpreter": policy.Execute,
	"file-map-executable": policy.Execute,
}

// DescribeSandbox makes the event of a denial that macOS's unified log reports, with the rule by the evaluator that `check` uses.
func DescribeSandbox(c *policy.Compiled, d oslog.Denial) event.Event {
	e := event.Event{Kind: event.Denial, Mechanism: "seatbelt:" + d.Operation, Errno: "EPERM", Target: d.Target, Count: d.Count}
	e.Process = []event.Process{{PID: d.PID, UID: -1, Comm: d.Comm}}
	e.Extra = map[string]string{"evidence": "oslog", "completeness": "best_effort"}
	caps, ofFile := sandboxCaps[d.Operation]
	path, absolute := canonicalMac(d.Target)
	switch network := strings.HasPrefix(d.Operation, "network-"); {
	case (ofFile || network) && absolute:
		if network { // connecting to a unix socket, or binding one
			caps = policy.Update
			if d.Operation == "network-bind" {
				caps = policy.Create
			}
		}
		describeSandboxPath(&e, c, caps, path)
	case ofFile:
		e.Resource, e.Capability, e.Reason = policy.FS.String(), caps.String(), string(policy.PathUnresolved)
	case network:
		describeSandboxNet(&e, c, d)
	default:
		e.Resource, e.Capability, e.Reason = "always", d.Operation, string(policy.SyscallDenied)
		e.Extra["why"] = "always on: no policy grants it"
	}
	return e
}

// canonicalMac returns a path as policies have it: the data volume's firmlinks lead to /.
func canonicalMac(target string) (path string, absolute bool) {
	if rest, ok := strings.CutPrefix(target, "/System/Volumes/Data/"); ok {
		target = "/" + rest
	}
	return target, strings.HasPrefix(target, "/")
}

func describeSandboxPath(e *event.Event, c *policy.Compiled, caps policy.Caps, path string) {
	e.Resource, e.Capability, e.Target = policy.FS.String(), caps.String(), path
	v := c.CheckFS(path, caps)
	q := explain.Question{Resource: policy.FS, Caps: caps, Target: path}
	if v.Allow && caps == policy.Execute {
		if v = c.CheckCommand(path, nil); !v.Allow {
			q = explain.Question{Resource: policy.Commands, Target: path, Argv: []string{path}}
		}
	}
	if v.Reason == policy.NoRule && !strings.HasPrefix(path+"/", c.Workspace+"/") {
		v.Reason = policy.OutsideWorkspace
	}
	decide(e, c, v, q)
}

// describeSandboxNet describes a denial of an address. The log has *:443 where the profile can't name the address, and no protocol.
func describeSandboxNet(e *event.Event, c *policy.Compiled, d oslog.Denial) {
	e.Resource, e.Capability = policy.Net.String(), "connect"
	q := explain.Question{Resource: policy.Net, Listen: d.Operation == "network-bind" || d.Operation == "network-inbound"}
	if q.Listen {
		e.Capability = "listen"
	}
	e.Reason = string(policy.HostNotListed)
	host, port, err := net.SplitHostPort(d.Target)
	if err != nil || host == "*" || host == "" {
		e.Extra["why"] = "the log doesn't name the address: what may be reached by name is reached through the proxy that HTTPS_PROXY names"
		return
	}
	q.Target = "tcp://" + net.JoinHostPort(host, port)
	e.Target = q.Target
	t, err := q.NetTarget()
	if err != nil {
		return
	}
	v := c.CheckNet(&t)
	if v.Allow && !q.Listen {
		e.Reason = string(policy.EngineError)
		e.Extra["why"] = "the policy allows this, but only through egress: the program ignores the variables HTTP_PROXY, HTTPS_PROXY and ALL_PROXY"
		return
	}
	decide(e, c, v, q)
}

// decide sets the rule that decided, and the smallest grant that would have allowed it.
func decide(e *event.Event, c *policy.Compiled, v policy.Verdict, q explain.Question) {
	if v.Allow {
		e.Reason = string(policy.EngineError)
		e.Extra["why"] = "the policy allows this, and the seatbelt backend is stricter: --dry-run shows for which rules, docs/macos.md its stated gaps"
		return
	}
	setRule(e, c, v)
	e.Reason = string(v.Reason)
	a := explain.Describe(c, v, q, q.Target)
	e.Suggest = a.Suggest
	for name, text := range map[string]string{"note": a.Note, "advice": a.Advice} {
		if text != "" {
			e.Extra[name] = text
		}
	}
}

// NoisySandbox reports whether an operation is one that every program tries, and that is denied without effect: it's not reported.
func NoisySandbox(d oslog.Denial) bool {
	return d.Operation == "mach-lookup" && slices.Contains([]string{"com.apple.diagnosticd", "com.apple.analyticsd", "com.apple.logd"}, d.Target) ||
		strings.HasPrefix(d.Target, "/dev/dtracehelper") || d.Target == "/dev/autofs_nowait"
}
