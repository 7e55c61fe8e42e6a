package event

import (
	"encoding/hex"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The schemas that appendOCSF follows (https://schema.ocsf.io/1.9.0).
const (
	version18 = "1.8.0"
	version19 = "1.9.0"
)

// class is an OCSF class. Its category is its number's thousands.
type class struct {
	uid  int64
	name string
}

var (
	fileActivity    = class{1001, "File System Activity"}
	processActivity = class{1007, "Process Activity"}
	networkActivity = class{4001, "Network Activity"}
	apiActivity     = class{6003, "API Activity"}
)

var categories = map[int64]string{1: "System Activity", 4: "Network Activity", 6: "Application Activity"}

// activity is what was done, in the terms of a class.
type activity struct {
	class
	id   int64
	name string
}

// activityOf finds the class and the activity of an event.
func activityOf(e *Event) activity {
	switch {
	case e.Kind == SessionEnd:
		return activity{processActivity, 2, "Terminate"}
	case e.Kind == SessionStart, e.Kind == Exec, e.Kind == Refused, e.Kind == Denial && isLaunch(e):
		return activity{processActivity, 1, "Launch"}
	case e.Kind == Denial && e.Resource == "fs":
		return fileActivityOf(e.Capability)
	case e.Kind == Denial && e.Resource == "net" && e.Capability == "listen":
		return activity{networkActivity, 7, "Listen"}
	case e.Kind == Denial && e.Resource == "net":
		return activity{networkActivity, 1, "Open"}
	case e.Kind == Denial && e.Resource == "env":
		return activity{apiActivity, 2, "Read"}
	case e.Kind == Denial && e.Resource == "limits":
		return activity{apiActivity, 99, "Limit"}
	case e.Kind == Denial:
		return activity{apiActivity, 99, "System Call"}
	}
	return activity{apiActivity, 99, "Other"} // gaps
}

// isLaunch reports a program that wasn't allowed to start.
func isLaunch(e *Event) bool {
	return e.Resource == "commands" || e.Resource == "fs" && slices.Contains(strings.Split(e.Capability, "+"), "execute")
}

// fileActivityOf takes one capability or several, "read+update": the one that changes most gives the name.
func fileActivityOf(capability string) activity {
	has := map[string]bool{}
	for c := range strings.SplitSeq(capability, "+") {
		has[c] = true
	}
	switch {
	case has["create"] && has["delete"], strings.HasPrefix(capability, "rename"):
		return activity{fileActivity, 5, "Rename"}
	case has["delete"]:
		return activity{fileActivity, 4, "Delete"}
	case has["create"]:
		return activity{fileActivity, 1, "Create"}
	case has["update"]:
		return activity{fileActivity, 3, "Update"}
	case has["read"]:
		return activity{fileActivity, 2, "Read"}
	}
	return activity{fileActivity, 99, "Other"}
}

// verdict is the outcome in OCSF's numbers.
type verdict struct {
	action, disposition, status, severity int64
}

func verdictOf(e *Event) verdict {
	switch {
	case e.Kind == Gap:
		return verdict{action: 3, disposition: 17, status: 2, severity: 4}
	case e.Kind == Refused:
		return verdict{action: 2, disposition: 2, status: 2, severity: 3}
	case e.Kind == SessionEnd:
		return verdict{action: 1, disposition: 1, status: e.endStatus(), severity: 1}
	case e.Kind != Denial:
		return verdict{action: 1, disposition: 1, status: 1, severity: 1}
	case e.Mode == "audit": // would have been denied
		return verdict{action: 3, disposition: 17, status: 1, severity: 2}
	case e.Reason == "engine_error":
		return verdict{action: 2, disposition: 27, status: 2, severity: 4}
	case e.Reason == "approval_denied":
		return verdict{action: 2, disposition: 26, status: 2, severity: 2}
	case e.Reason == "protected":
		return verdict{action: 2, disposition: 2, status: 2, severity: 4}
	}
	return verdict{action: 2, disposition: 2, status: 2, severity: 3}
}

// endStatus is the status of a session's end: success is that the command ended by itself and with 0.
func (e *Event) endStatus() int64 {
	switch x := e.Exit; {
	case e.cause() != "":
		return 2
	case x == nil || x.Code < 0:
		return 0
	}
	return 1
}

// cause is the reason, and where an end has none of its own how the command ended, unless that was well.
func (e *Event) cause() string {
	x := e.Exit
	switch {
	case e.Kind != SessionEnd || e.Reason != "" || x == nil:
		return e.Reason
	case x.Signal > 0:
		return "signal " + strconv.Itoa(x.Signal)
	case x.Code > 0:
		return "exit status " + strconv.Itoa(x.Code)
	}
	return ""
}

var (
	actionNames      = map[int64]string{1: "Allowed", 2: "Denied", 3: "Observed"}
	dispositionNames = map[int64]string{1: "Allowed", 2: "Blocked", 17: "Logged", 26: "Unauthorized", 27: "Error"}
	statusNames      = map[int64]string{0: "Unknown", 1: "Success", 2: "Failure"}
	severityNames    = map[int64]string{1: "Informational", 2: "Low", 3: "Medium", 4: "High"}
)

func appendOCSF(dst []byte, e *Event, version string) []byte {
	a, v, from := activityOf(e), verdictOf(e), len(dst)
	o := open(dst)
	at := e.Time
	if version != version18 && !e.First.IsZero() { // since 1.9 several have the time of the first
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
	if e.Count > 1 || e.Kind == Gap { // one that is missing is more than none
		o.count("count", e.Count)
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
		o.object("unmapped", func(o *object) { o.unmapped(e); o.link(e) })
		return append(o.close(), '\n')
	}
	o.object("ai_agent", func(o *object) { o.text("name", e.Agent) })
	o.object("delegation", func(o *object) { o.text("uid", e.Digest) })
	o.object("unmapped", func(o *object) { o.unmapped(e) })
	o.attest(e, from)
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

// profiles are those whose attributes an event has.
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
	o.flag("is_applied", v.action != 3)
}

// actor is who did it: the process chain, else the session alone.
func (o *object) actor(e *Event) {
	o.text("app_name", first(e.Tool, "toolguard"))
	o.object("session", func(o *object) { o.text("uid", e.Session) })
	chain := e.Process
	if (e.Kind == SessionStart || e.Kind == Exec) && len(chain) > 1 {
		chain = chain[1:] // the first one is what was started
	}
	if len(chain) > 0 {
		o.object("process", func(o *object) { o.process(chain, e.UID) })
		o.object("user", func(o *object) { o.text("uid", userID(&chain[0])) })
	}
}

// process writes the first of a chain, and the others as its parents. A process must have a number or a name of its own:
// one that has none gets the event's.
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

// The OCSF kinds of files that can be told.
const (
	unknownFile = 0
	regularFile = 1
)

func (o *object) file(name string, kind int64) {
	o.text("name", first(path.Base(name), "/"))
	o.text("path", name)
	o.number("type_id", kind)
}

// subject is what it was done to, as each class calls it.
func (o *object) subject(e *Event, a activity) {
	switch a.class {
	case fileActivity:
		o.object("file", func(o *object) { o.file(e.Target, unknownFile) })
	case processActivity:
		o.object("process", func(o *object) { o.launched(e) })
	case networkActivity:
		o.connection(e, a)
	case apiActivity:
		o.object("api", func(o *object) { o.text("operation", operation(e)) })
		o.object("src_endpoint", func(o *object) { o.text("hostname", first(e.Host, "localhost")) })
	}
}

// launched is the process that started or ended. One that wasn't allowed to start never had a number.
func (o *object) launched(e *Event) {
	if e.Kind != Denial && e.Kind != Refused && len(e.Process) > 0 {
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

// endpointOf takes "host:port", with or without a scheme and a path; anything else, as a socket's name, is its name.
func endpointOf(target string) (host string, port int64, name string) {
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
	host, port, name := endpointOf(target)
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

// operation names what has no class of its own.
func operation(e *Event) string {
	if e.Resource == "" {
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
		for _, k := range sortedKeys(e.Extra) {
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
	o.count("leftover", uint64(max(x.Leftover, 0)))
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

// stamp is how times are written for people.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
