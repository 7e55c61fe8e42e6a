package event

import (
	"encoding/hex"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The versions of the schema that appendOCSF follows (https://schema.ocsf.io/1.9.0).
const (
	version18 = "1.8.0"
	version19 = "1.9.0"
)

func appendOCSF(dst []byte, e *Event, version string) []byte {
	a, v, from := activityOf(e), verdictOf(e), len(dst)
	o := open(dst)
	at := e.Time
	if version != version18 && !e.First.IsZero() { // since 1.9, time is that of the first occurrence
		at = e.First
	}
	o.number("time", at.UnixMilli())
	o.class(a)
	o.number("severity_id", v.severity)
	o.text("severity", severityNames[v.severity])
	o.number("status_id", v.status)
	o.text("status", statusNames[v.status])
	o.text("status_code", e.Errno)
	o.text("status_detail", e.cause())
	o.number("action_id", v.action)
	o.text("action", actionNames[v.action])
	o.number("disposition_id", v.disposition)
	o.text("disposition", dispositionNames[v.disposition])
	o.text("message", summary(e))
	if e.Count > 1 || e.Kind == Gap { // a count of 1 is the default elsewhere
		o.count("count", e.Count)
	}
	if ms, err := strconv.ParseInt(e.Extra["duration_ms"], 10, 64); e.Kind == ToolCall && err == nil {
		o.number("duration", ms)
	}
	if !e.First.IsZero() {
		o.number("start_time", e.First.UnixMilli())
		o.number("end_time", e.Time.UnixMilli())
	}
	o.object("metadata", func(o *object) { o.metadata(e, version) })
	o.object("device", func(o *object) { o.number("type_id", 0); o.text("hostname", e.Host) })
	o.object("policy", func(o *object) { o.policy(e, v) })
	o.object("actor", func(o *object) { o.actor(e) })
	o.subject(e, a)
	if x := e.Exit; e.Kind == SessionEnd && x != nil && x.Code >= 0 {
		o.number("exit_code", int64(x.Code))
	}
	if version == version18 {
		o.object("unmapped", func(o *object) { o.unmapped(e); o.recordIntegrity(e) })
		return append(o.close(), '\n')
	}
	o.object("ai_agent", func(o *object) { o.text("name", e.Agent) })
	o.object("delegation", func(o *object) { o.text("uid", e.Digest) })
	o.object("unmapped", func(o *object) { o.unmapped(e) })
	o.attestation(e, from)
	return append(o.close(), '\n')
}

func (o *object) class(a activity) {
	category := a.uid / 1000
	o.number("category_uid", category)
	o.text("category_name", categories[category])
	o.number("class_uid", a.uid)
	o.text("class_name", a.class.name)
	o.number("activity_id", a.id)
	o.text("activity_name", a.name)
	o.number("type_uid", a.uid*100+a.id)
	o.text("type_name", a.class.name+": "+a.name)
}

func (o *object) metadata(e *Event, version string) {
	o.text("version", version)
	o.text("uid", e.UID)
	o.number("sequence", int64(e.Sequence))
	o.texts("profiles", profiles(e, version))
	o.text("correlation_uid", e.Session)
	o.object("product", func(o *object) {
		o.text("name", "toolguard")
		o.text("vendor_name", "toolguard")
		o.text("version", e.Version)
	})
}

// profiles returns the profiles whose attributes an event has.
func profiles(e *Event, version string) []string {
	list := []string{"security_control", "host"}
	if version != version18 && e.Agent+e.Digest != "" {
		list = append(list, "ai_operation")
	}
	if version != version18 && e.Previous != "" {
		list = append(list, "record_integrity")
	}
	return list
}

func (o *object) policy(e *Event, v verdict) {
	if e.Policy == "" && e.Digest == "" {
		return
	}
	o.text("name", e.Policy)
	o.text("uid", e.Digest)
	o.flag("is_applied", v.action != 3 || e.Kind.IsAboutCall())
}

// actor writes the session and the process chain that acted.
func (o *object) actor(e *Event) {
	o.text("app_name", first(e.Tool, "toolguard"))
	o.object("session", func(o *object) { o.text("uid", e.Session) })
	chain := e.Process
	if (e.Kind == SessionStart || e.Kind == Exec) && len(chain) > 1 {
		chain = chain[1:] // the first one is the started process
	}
	if len(chain) > 0 {
		o.object("process", func(o *object) { o.process(chain, e.UID) })
		o.object("user", func(o *object) { o.text("uid", userID(&chain[0])) })
	}
}

// process writes the first process of a chain, and the rest as its parents. OCSF requires a pid or a uid: a process without
// pid gets the event's uid.
func (o *object) process(chain []Process, uid string) {
	p := &chain[0]
	if p.PID > 0 {
		o.number("pid", int64(p.PID))
	} else {
		o.text("uid", first(uid, "unknown"))
	}
	o.text("name", p.Comm)
	if p.Exe != "" {
		o.object("file", func(o *object) { o.file(p.Exe, regularFile) })
	}
	o.text("cmd_line", commandLine(p.Argv))
	if !p.Start.IsZero() {
		o.number("created_time", p.Start.UnixMilli())
	}
	o.object("user", func(o *object) { o.text("uid", userID(p)) })
	if len(chain) > 1 {
		o.object("parent_process", func(o *object) { o.process(chain[1:], "") })
	}
}

func userID(p *Process) string {
	if p.UID < 0 {
		return ""
	}
	return strconv.Itoa(p.UID)
}

// The OCSF types of files.
const (
	unknownFile = 0
	regularFile = 1
)

func (o *object) file(name string, kind int64) {
	o.text("name", first(path.Base(name), "/"))
	o.text("path", name)
	o.number("type_id", kind)
}

// subject writes the target in the attribute of the class.
func (o *object) subject(e *Event, a activity) {
	switch a.class {
	case fileActivity:
		o.object("file", func(o *object) { o.file(e.Target, unknownFile) })
	case processActivity:
		o.object("process", func(o *object) { o.launched(e) })
	case networkActivity:
		o.connection(e, a)
	case apiActivity:
		o.object("api", func(o *object) { o.api(e) })
		o.object("src_endpoint", func(o *object) { o.text("hostname", first(e.Host, "localhost")) })
	}
}

// launched writes the process that started or ended. One whose start was denied never had a pid.
func (o *object) launched(e *Event) {
	if e.Kind != Denial && e.Kind != SessionRefused && len(e.Process) > 0 {
		o.process(e.Process, e.UID)
		return
	}
	o.text("uid", first(e.UID, "unknown"))
	if e.Target != "" {
		o.text("name", path.Base(e.Target))
		o.object("file", func(o *object) { o.file(e.Target, regularFile) })
	}
}

func (o *object) connection(e *Event, a activity) {
	const inbound, outbound = 1, 2
	name, direction := "dst_endpoint", int64(outbound)
	if a.name == "Listen" {
		name, direction = "src_endpoint", inbound
	}
	o.object(name, func(o *object) { o.endpoint(e.Target) })
	o.object("connection_info", func(o *object) {
		o.number("direction_id", direction)
		scheme, _, ok := strings.Cut(e.Target, "://")
		if ok && (scheme == "tcp" || scheme == "udp") {
			o.text("protocol_name", scheme)
		}
	})
}

// splitEndpoint splits "host:port", with or without a scheme and a path. It returns anything else, such as a socket's path, as name.
func splitEndpoint(target string) (host string, port int64, name string) {
	rest := target
	if _, after, ok := strings.Cut(rest, "://"); ok {
		rest, _, _ = strings.Cut(after, "/")
	}
	host, digits, err := net.SplitHostPort(rest)
	n, perr := strconv.ParseUint(digits, 10, 16)
	if err != nil || perr != nil {
		return "", 0, first(rest, "unknown")
	}
	return host, int64(n), ""
}

func (o *object) endpoint(target string) {
	host, port, name := splitEndpoint(target)
	switch {
	case name != "":
		o.text("name", name)
		return
	case net.ParseIP(host) != nil:
		o.text("ip", host)
	default:
		o.text("hostname", host)
	}
	o.number("port", port)
}

// api writes the operation, and of an event about a call its tool and its id.
func (o *object) api(e *Event) {
	o.text("operation", operation(e))
	if e.Kind.IsAboutCall() {
		if e.Resource == Tools {
			o.object("service", func(o *object) { o.text("name", e.Target) })
		}
		o.object("request", func(o *object) { o.text("uid", e.Extra["call"]) })
	}
}

// operation names an event of the API Activity class.
func operation(e *Event) string {
	if e.Kind == ToolDeny || e.Kind == ToolCall {
		return "tools/call"
	}
	if e.Resource == "" || e.Kind.IsAboutCall() {
		return first(string(e.Kind), "unknown")
	}
	return first(strings.TrimSuffix(e.Resource+" "+e.Capability, " "), "unknown")
}

func (o *object) unmapped(e *Event) {
	for _, f := range []struct{ name, value string }{
		{"kind", string(e.Kind)},
		{"boot", e.Boot},
		{"session", e.Session},
		{"owner", e.Owner},
		{"tool", e.Tool},
		{"agent", e.Agent},
		{"mode", e.Mode},
		{"digest", e.Digest},
		{"authority", e.Authority},
		{"rule", e.Rule},
		{"place", e.Place},
		{"reason", e.Reason},
		{"suggest", e.Suggest},
		{"resource", e.Resource},
		{"capability", e.Capability},
		{"target", e.Target},
		{"asked", e.Asked},
		{"cgroup", e.Cgroup},
		{"mechanism", e.Mechanism},
		{"errno", e.Errno},
	} {
		o.text(f.name, f.value)
	}
	if !utf8.ValidString(e.Target) {
		o.text("target_hex", hex.EncodeToString([]byte(e.Target)))
	}
	o.count("execs", e.Execs)
	o.texts("degraded", e.Degraded)
	o.texts("removed_env", e.Removed)
	if e.Exit != nil {
		o.object("exit", func(o *object) { o.exit(e.Exit) })
	}
	o.object("extra", func(o *object) {
		for _, k := range slices.Sorted(maps.Keys(e.Extra)) {
			o.text(plainKey(k), e.Extra[k])
		}
	})
}

func (o *object) exit(x *Exit) {
	o.number("code", int64(x.Code))
	o.count("signal", uint64(max(x.Signal, 0)))
	o.number("wall_ms", x.Wall.Milliseconds())
	o.number("user_ms", x.User.Milliseconds())
	o.number("system_ms", x.System.Milliseconds())
	o.count("max_rss", x.MaxRSS)
	o.number("denials", int64(x.Denials))
	o.count("leftover", uint64(max(x.Orphans, 0)))
	if u := x.Usage; u != nil {
		o.object("usage", func(o *object) {
			for _, f := range []struct {
				name string
				n    *uint64
			}{{"cpu_ms", u.CPU}, {"memory_peak", u.Memory}, {"io_read", u.Read}, {"io_written", u.Written}} {
				if f.n != nil {
					o.number(f.name, int64(min(*f.n, 1<<63-1)))
				}
			}
			o.text("missing", u.Missing)
		})
	}
}

func first(s ...string) string {
	for _, v := range s {
		if v != "" && v != "." {
			return v
		}
	}
	return ""
}

// timestamp formats a time for people.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
