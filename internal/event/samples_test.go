package event

import (
	"maps"
	"time"
)

var at = time.Date(2026, 11, 21, 8, 15, 2, 123e6, time.UTC)

// chain is a process with two ancestors.
func chain() []Process {
	return []Process{
		{PID: 4711, UID: 1000, Exe: "/usr/bin/python3.11", Comm: "python3", Argv: []string{"python3", "build.py", "--token=abc"}, Start: at.Add(-time.Second)},
		{PID: 4700, UID: 1000, Exe: "/usr/bin/make", Comm: "make", Argv: []string{"make", "all tests"}, Start: at.Add(-2 * time.Second)},
		{PID: 4690, UID: -1},
	}
}

// denial returns a complete denial.
func denial(resource, capability, target string) Event {
	return Event{
		Time: at, UID: "0011223344556677-3", Boot: "b007", Host: "box", Version: "0.1.0", Sequence: 3, Kind: Denial,
		Session: "s1", Tool: "build", Agent: "coder", Mode: "enforce",
		Policy: "work", Digest: "d1ge57", Authority: "session", Rule: "fs.3", Place: "/p/policy.toml:12:1", Reason: "rule_denies",
		Suggest:  `{ path = "/etc/passwd", read = true }`,
		Resource: resource, Capability: capability, Target: target,
		Process: chain(), Cgroup: "/toolguard/s1", Mechanism: "landlock:fs.read_file", Errno: "EACCES",
	}
}

func with(e Event, change func(*Event)) Event {
	change(&e)
	return e
}

// call is a tool call with everything that is known about one.
func call() *Call {
	return &Call{
		ID: "7", Invocation: "build-7", Tool: "Bash", Agent: "coder.sub", Provider: "anthropic", Model: "large", Risk: "high", Declared: true,
		Arguments:   []byte(`{"command": "curl -u me:hunter2 https://example.com", "env": {"API_TOKEN": "hunter2"}}`),
		HostSession: "host-1", ToolUseID: "toolu_01", Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

// calls returns the events about calls, as the process of a session would report them.
func calls() map[string]Event {
	by := Decider{UID: 1000, PID: 4801, Exe: "/usr/bin/toolguard", Via: "terminal"}
	denied := ToolDenied(call(), "rule_denies", "access denied: update on src/list")
	denied.Authority, denied.Rule, denied.Place, denied.Suggest = "session", "fs.3", "/p/policy.toml:12:1", "[[access.fs]]\npath = \"src\"\nupdate = true\n"
	grant := &GrantRequest{
		ID: "g1", Resource: "fs", Capability: "read", Target: "/srv/data set", Rule: "[[access.fs]]\npath = \"/srv/data set\"\nread = true\n",
		Why: "the tests need it", For: time.Minute,
	}
	host := &GrantRequest{ID: "g2", Resource: "net", Capability: "connect", Target: "https://example.com/x?token=hunter2"}
	program := &GrantRequest{ID: "g3", Resource: "commands", Capability: "execute", Target: "/usr/bin/psql", Argv: []string{"psql", "password=hunter2"}}
	unknown := ToolDenied(&Call{ID: "9", Tool: "exec"}, "approval_denied", "nobody has answered")
	unknown.Process = chain()
	all := map[string]Event{
		"tool_denied":        denied,
		"tool_denied_person": unknown,
		"tool_denied_error":  ToolDenied(call(), "engine_error", "the store can't be read"),
		"tool_denied_own":    ToolDenied(call(), "protected", "access denied: update on .git/hooks/x"),
		"tool_call":          ToolRan(call(), OK, 1200*time.Millisecond, false, false),
		"tool_call_approved": ToolRan(call(), Failed, time.Millisecond, true, true),
		"tool_call_changed":  ToolRan(call(), Cancelled, 0, true, false),
		"approval_requested": ApprovalRequested(call(), "a1", "no rule names what it runs"),
		"approval":           ApprovalDecided(call(), "a1", "allow-always", "[[access.commands.curl]]\nargs = [[\"x\"]]\n", by),
		"approval_denied":    ApprovalDecided(call(), "a1", "deny", "", Decider{UID: -1, Via: "api"}),
		"approval_expired":   ApprovalEnded(call(), "a1", Expired),
		"approval_withdrawn": ApprovalEnded(call(), "a1", Withdrawn),
		"hook_failed":        HookFailure(call(), "scan", "before", "no answer within 5s"),
		"grant_requested":    GrantRequested(grant),
		"grant":              GrantDecided(grant, Given, "next start: landlock can't widen a session that runs", by),
		"grant_denied":       GrantDecided(host, Rejected, "", by),
		"grant_expired":      GrantEnded(program, Expired),
	}
	for name, e := range all {
		e.Time, e.UID, e.Boot, e.Host, e.Version, e.Sequence = at, "0011223344556677-5", "b007", "box", "0.1.0", 5
		e.Session, e.Tool, e.Agent, e.Mode, e.Policy, e.Digest = "s1", "build", "coder", "enforce", "work", "d1ge57"
		all[name] = e
	}
	return all
}

// samples returns events by the names of their golden files.
func samples() map[string]Event {
	base := denial("", "", "")
	base.Rule, base.Place, base.Reason, base.Suggest, base.Mechanism, base.Errno = "", "", "", "", "", ""
	of := func(k Kind, change func(*Event)) Event { e := base; e.Kind = k; change(&e); return e }
	all := calls()
	maps.Copy(all, map[string]Event{
		"fs_read":    denial("fs", "read", "/etc/passwd"),
		"fs_create":  with(denial("fs", "create", "/srv/new file"), func(e *Event) { e.Asked, e.Count, e.First = "../new file", 12, at.Add(-time.Second) }),
		"fs_update":  denial("fs", "update", "/"),
		"fs_delete":  with(denial("fs", "delete", "/x"), func(e *Event) { e.Reason = "protected" }),
		"fs_hostile": denial("fs", "read", "/tmp/a\nb\x1b[2J\"\\\u202e\xff\u2028"),
		"fs_rename":  denial("fs", "create+delete", "/srv"),
		"fs_link":    denial("fs", "rename or link", "/srv"),
		"fs_rw":      denial("fs", "read+update", "/etc/passwd"),
		"limit":      denial("limits", "wall_time", "wall_time"),
		"fs_execute": denial("fs", "execute", "/usr/bin/curl"),
		"fs_unknown_process": with(denial("fs", "read", "/etc/passwd"), func(e *Event) {
			e.Process = []Process{{UID: -1}}
		}),
		"fs_no_process": with(denial("fs", "read", "/etc/passwd"), func(e *Event) { e.Process = nil }),
		"fs_audit":      with(denial("fs", "read", "/etc/passwd"), func(e *Event) { e.Mode = "audit" }),
		"command":       denial("commands", "run", "/usr/bin/git"),
		"net_connect":   denial("net", "connect", "https://example.com:443/x?token=1"),
		"net_address":   denial("net", "connect", "tcp://[2001:db8::1]:22"),
		"net_listen":    denial("net", "listen", "tcp://0.0.0.0:8080"),
		"net_socket":    denial("net", "connect", "@abstract"),
		"env":           denial("env", "read", "AWS_SECRET_ACCESS_KEY"),
		"exec": of(Exec, func(e *Event) {
			e.Target, e.Asked, e.Mechanism = "/usr/bin/python3.11", "./build.py", "bpf:exec"
		}),
		"exec_alone":   of(Exec, func(e *Event) { e.Target, e.Process = "/usr/bin/true", e.Process[:1] }),
		"gap_execs":    of(Gap, func(e *Event) { e.Count, e.Execs = 42, 40 }),
		"syscall":      with(denial("syscall", "ptrace", ""), func(e *Event) { e.Reason = "syscall_denied"; e.Mechanism = "seccomp" }),
		"engine_error": with(denial("fs", "read", "/x"), func(e *Event) { e.Reason = "engine_error" }),
		"bare":         {Kind: Denial},
		"session_start": of(SessionStart, func(e *Event) {
			e.Degraded = []string{"fs.4: no match rules"}
			e.Removed = []string{"AWS_SECRET_ACCESS_KEY", "EDITOR"}
		}),
		"session_refused": of(SessionRefused, func(e *Event) {
			e.Target, e.Reason, e.Extra = "make", "not_enforceable", map[string]string{"why": "1 rule can't be enforced by the landlock backend"}
			e.Degraded = []string{"fs.4: no match rules"}
		}),
		"session_end_well":   of(SessionEnd, func(e *Event) { e.Exit = &Exit{Wall: time.Second} }),
		"session_end_three":  of(SessionEnd, func(e *Event) { e.Exit = &Exit{Code: 3, Wall: time.Second}; e.Process = nil }),
		"session_end_unseen": of(SessionEnd, func(e *Event) { e.Exit = &Exit{Code: -1} }),
		"session_end_limit": of(SessionEnd, func(e *Event) {
			e.Exit, e.Reason, e.Rule, e.Place = &Exit{Wall: time.Minute}, "limit", "limits.wall_time", "/p/policy.toml:3:1"
		}),
		"session_end": of(SessionEnd, func(e *Event) {
			e.Exit = &Exit{
				Code: 137, Signal: 9, Wall: 1500 * time.Millisecond, User: time.Second, System: 30 * time.Millisecond,
				MaxRSS: 1 << 20, Denials: 7, Orphans: 2,
				Usage: &Usage{CPU: new(uint64(1090)), Memory: new(uint64(3 << 20)), Missing: "disk traffic (the kernel has no io.stat of its cgroup)"},
			}
			e.Extra = map[string]string{"b": "2", "a\n\"": "1"}
		}),
		"gap": of(Gap, func(e *Event) { e.Count = 42; e.Reason = "the kernel dropped records" }),
		"checkpoint": of(Checkpoint, func(e *Event) {
			e.Previous, e.Extra = "f00d", map[string]string{"what": "time", "key": "c0de", "signature": "5e41"}
		}),
		"daemon": {
			Time: at, UID: "0011223344556677-1", Boot: "b007", Host: "box", Version: "0.1.0", Sequence: 1, Kind: Daemon,
			Mechanism: "toolguardd", Extra: map[string]string{"what": "toolguardd stopped"},
		},
		"gap_unknown": of(Gap, func(*Event) {}),
	})
	return all
}
