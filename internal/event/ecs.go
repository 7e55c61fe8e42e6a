package event

import (
	"net"
	"path"
	"strconv"
	"strings"
)

// ecsVersion is the version of the field reference that appendECS follows (https://www.elastic.co/docs/reference/ecs).
const ecsVersion = "9.4.0"

// ecsKind is an event's categories and types, which are lists in ECS.
type ecsKind struct{ category, types []string }

// ecsKindOf returns the categories and types of an event.
func ecsKindOf(e *Event) ecsKind {
	switch a := activityOf(e); {
	case e.Kind.IsAboutCall():
		return ecsKind{[]string{"api"}, []string{ecsCallType(e)}}
	case e.Kind == SessionStart:
		return ecsKind{[]string{"session", "process"}, []string{"start"}}
	case e.Kind == SessionEnd:
		return ecsKind{[]string{"session", "process"}, []string{"end"}}
	case e.Kind == Exec, e.Kind == SessionRefused, isLaunch(e):
		return ecsKind{[]string{"process"}, []string{"start"}}
	case a.class == fileActivity:
		return ecsKind{[]string{"file"}, []string{ecsFileType(a.name)}}
	case a.class == networkActivity && e.Mode == "audit":
		return ecsKind{[]string{"network"}, []string{"connection"}}
	case a.class == networkActivity:
		return ecsKind{[]string{"network"}, []string{"connection", "denied"}}
	case e.Resource == "env", e.Resource == "limits":
		return ecsKind{[]string{"process"}, []string{"info"}}
	case e.Kind == Denial:
		return ecsKind{[]string{"api"}, []string{"denied"}}
	}
	return ecsKind{[]string{"configuration"}, []string{"info"}}
}

// ecsCallType returns the type of an event about a call.
func ecsCallType(e *Event) string {
	switch action := callVerdict(e).action; {
	case action == 2:
		return "denied"
	case action == 3:
		return "info"
	}
	return "allowed"
}

// ecsFileType returns the type for an OCSF file activity.
func ecsFileType(activity string) string {
	switch activity {
	case "Create":
		return "creation"
	case "Delete":
		return "deletion"
	case "Update", "Rename":
		return "change"
	case "Read":
		return "access"
	}
	return "info"
}

func appendECS(dst []byte, e *Event) []byte {
	o := open(dst)
	o.text("@timestamp", timestamp(e.Time))
	o.text("message", summary(e))
	o.object("ecs", func(o *object) { o.text("version", ecsVersion) })
	o.object("event", func(o *object) { o.ecsEvent(e) })
	o.object("host", func(o *object) {
		o.text("hostname", e.Host)
		o.text("name", e.Host)
		o.object("boot", func(o *object) { o.text("id", e.Boot) })
	})
	o.object("observer", func(o *object) {
		o.text("vendor", "toolguard")
		o.text("product", "toolguard")
		o.text("type", "sandbox")
		o.text("version", e.Version)
	})
	o.object("rule", func(o *object) { o.text("id", e.Rule); o.text("reference", e.Place); o.text("ruleset", e.Policy) })
	o.object("error", func(o *object) { o.text("code", e.Errno) })
	o.ecsProcess(e)
	o.ecsTarget(e)
	o.object("toolguard", func(o *object) {
		o.count("count", e.Count)
		o.texts("ancestors", ecsAncestors(e.Process))
		o.unmapped(e)
		o.recordIntegrity(e)
	})
	return append(o.close(), '\n')
}

func (o *object) ecsEvent(e *Event) {
	k, v := ecsKindOf(e), verdictOf(e)
	o.text("kind", "event")
	o.texts("category", k.category)
	o.texts("type", k.types)
	o.text("action", string(e.Kind))
	o.text("outcome", strings.ToLower(statusNames[v.status]))
	o.text("reason", e.cause())
	o.number("severity", v.severity)
	o.text("module", "toolguard")
	o.text("provider", "toolguard")
	o.text("dataset", "toolguard."+plainKey(string(e.Kind)))
	o.text("id", e.UID)
	o.number("sequence", int64(e.Sequence))
	if ms, err := strconv.ParseInt(e.Extra["duration_ms"], 10, 64); e.Kind == ToolCall && err == nil {
		o.number("duration", ms*1e6)
	}
	if !e.First.IsZero() {
		o.text("start", timestamp(e.First))
		o.text("end", timestamp(e.Time))
	}
}

// ecsAncestors returns the labels of the processes before the parent, which ECS has no field for.
func ecsAncestors(chain []Process) (words []string) {
	for i := 2; i < len(chain); i++ {
		words = append(words, processLabel(&chain[i]))
	}
	return words
}

// ecsProcess writes the process and its parent.
func (o *object) ecsProcess(e *Event) {
	ended := e.Kind == SessionEnd && e.Exit != nil && e.Exit.Code >= 0
	if len(e.Process) == 0 {
		if ended {
			o.object("process", func(o *object) { o.number("exit_code", int64(e.Exit.Code)) })
		}
		return
	}
	o.object("process", func(o *object) {
		o.ecsProcessFields(&e.Process[0])
		if ended {
			o.number("exit_code", int64(e.Exit.Code))
		}
		if len(e.Process) > 1 {
			o.object("parent", func(o *object) { o.ecsProcessFields(&e.Process[1]) })
		}
	})
	o.object("user", func(o *object) { o.text("id", userID(&e.Process[0])) })
}

func (o *object) ecsProcessFields(p *Process) {
	o.count("pid", uint64(max(p.PID, 0)))
	o.text("name", p.Comm)
	o.text("executable", p.Exe)
	o.text("command_line", commandLine(p.Argv))
	if !p.Start.IsZero() {
		o.text("start", timestamp(p.Start))
	}
	o.object("user", func(o *object) { o.text("id", userID(p)) })
}

// ecsTarget writes the target where ECS has a field for it. toolguard.target always has it.
func (o *object) ecsTarget(e *Event) {
	switch a := activityOf(e); {
	case e.Kind.IsAboutCall():
	case a.class == fileActivity || e.Kind == SessionRefused || e.Kind == Denial && isLaunch(e):
		o.object("file", func(o *object) { o.text("name", path.Base(e.Target)); o.text("path", e.Target) })
	case a.name == "Listen":
		o.object("source", func(o *object) { o.ecsEndpoint(e.Target) })
		o.ecsNetwork(e.Target, "ingress")
	case a.class == networkActivity:
		o.object("destination", func(o *object) { o.ecsEndpoint(e.Target) })
		o.ecsNetwork(e.Target, "egress")
	}
}

func (o *object) ecsNetwork(target, direction string) {
	o.object("network", func(o *object) {
		o.text("direction", direction)
		if scheme, _, ok := strings.Cut(target, "://"); ok && (scheme == "tcp" || scheme == "udp") {
			o.text("transport", scheme)
		}
	})
}

func (o *object) ecsEndpoint(target string) {
	host, port, name := splitEndpoint(target)
	o.text("address", first(name, host))
	if net.ParseIP(host) != nil {
		o.text("ip", host)
	} else {
		o.text("domain", host)
	}
	if name == "" {
		o.number("port", port)
	}
}
