package denials

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/seccomp"
)

// Config is what the events of a session depend on. It is immutable.
type Config struct {
	Session     uint64           // its number
	Policy      *policy.Compiled // in force when it begins
	Tool, Agent string
	Mechanism   string          // the backend that enforces the policy: "bpf" or "landlock"
	Others      seccomp.Backend // the mechanisms that enforce it in addition to the system call filters
	Proxies     []api.Proxy     // that the command's environment names
	Self        int             // the toolguard that started the session: its own denials are not reported; 0: there is none
	Events      *event.Queue    // nil: events are not emitted
	Warn        func(string)    // shows one line to people, from any goroutine; may be nil
}

func (c *Config) warn(format string, args ...any) {
	if c.Warn != nil {
		c.Warn(fmt.Sprintf(format, args...))
	}
}

// describer makes events of the mechanisms' records, by the policy that decided. It has no state.
type describer struct {
	cfg    *Config
	policy *policy.Compiled
}

// Describe makes the event of a denial: the operation, the process, the rule that decided, and the smallest grant that would allow it. The record is a
// *loader.Event, *kernelaudit.Denial, *cgroupsock.Event or *message.Denial; chain is the process and its ancestors.
func Describe(cfg *Config, c *policy.Compiled, record any, chain []event.Process) event.Event {
	r := describer{cfg, c}
	switch k := record.(type) {
	case *loader.Event:
		return r.bpf(k, chain)
	case *kernelaudit.Denial:
		return r.audit(*k, chain)
	case *cgroupsock.Event:
		return r.socket(k, chain)
	case *message.Denial:
		return r.egress(k, chain)
	}
	panic(fmt.Sprintf("no mechanism reports a %T", record))
}

// about sets the fields that all events of the session have.
func (r describer) about(e event.Event) event.Event {
	return r.cfg.About(r.policy, e)
}

// About sets the fields that all events of the session under a policy have.
func (c *Config) About(p *policy.Compiled, e event.Event) event.Event {
	return about(e, p, c.Session, c.Tool, c.Agent)
}

// decided sets the rule that decided.
func (r describer) decided(e *event.Event, v policy.Verdict) { setRule(e, r.policy, v) }

// suggest adds the rule that decided and the smallest grant that would have allowed it.
func (r describer) suggest(e *event.Event, v policy.Verdict, q explain.Question) {
	var p *api.Proxy
	if q.Resource == policy.Net && !q.Listen {
		p = r.proxyAt(q.Target)
	}
	if p != nil && p.Scheme == "http" {
		q.Scheme = p.Scheme // egress reads the requests: a grant of the address would allow every host behind the proxy
	}
	r.decided(e, v)
	e.Reason = string(v.Reason)
	a := explain.Describe(r.policy, v, q, q.Target)
	if e.Suggest = a.Suggest; a.Note != "" {
		e.Extra["note"] = a.Note
	}
	r.advise(e, a.Advice)
	adviseProxy(e, p, q.Scheme)
	if q.Resource == policy.FS && q.Caps&(policy.Create|policy.Delete) != 0 {
		r.advisePermissions(e, folderOf(e))
	}
}

func errnoName(n syscall.Errno) string {
	if s := unix.ErrnoName(n); s != "" {
		return s
	}
	return n.Error()
}
