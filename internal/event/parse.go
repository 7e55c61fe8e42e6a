package event

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// line has the members that OCSF.Append and OCSF18.Append write, as far as Parse needs them.
type line struct {
	Time      int64
	StartTime int64 `json:"start_time"`
	EndTime   int64 `json:"end_time"`
	Count     uint64
	Metadata  struct {
		UID      string
		Sequence uint64
		Product  struct{ Version string }
	}
	Device   struct{ Hostname string }
	Policy   struct{ Name string }
	Actor    struct{ Process *lineProcess }
	Process  *lineProcess
	Unmapped lineUnmapped
	Attested []struct {
		Previous *struct{ Fingerprint struct{ Value string } } `json:"prev_event"`
	} `json:"attestation_list"`
}

// previous returns the fingerprint of the previous record, which each version has in a different member.
func (l *line) previous() string {
	switch {
	case len(l.Attested) == 0:
		return l.Unmapped.RecordIntegrity.PrevEvent
	case l.Attested[0].Previous == nil:
		return Genesis
	}
	return l.Attested[0].Previous.Fingerprint.Value
}

// lineUnmapped has the fields without an OCSF attribute.
type lineUnmapped struct {
	Kind, Boot, Session, Owner, Tool, Agent, Mode, Digest, Authority, Rule, Place, Reason, Suggest string
	Resource, Capability, Target, Asked, Cgroup, Mechanism, Errno                                  string

	TargetHex       string `json:"target_hex"`
	Execs           uint64
	Degraded        []string
	Removed         []string `json:"removed_env"`
	Exit            *lineExit
	Extra           map[string]string
	RecordIntegrity struct {
		PrevEvent string `json:"prev_event"`
	} `json:"record_integrity"`
}

type lineExit struct {
	Code, Signal int
	Orphans      int `json:"leftover"`
	Denials      uint64
	Wall         int64  `json:"wall_ms"`
	User         int64  `json:"user_ms"`
	System       int64  `json:"system_ms"`
	MaxRSS       uint64 `json:"max_rss"`
	Usage        *Usage
}

type lineProcess struct {
	PID     int
	Name    string
	CmdLine string `json:"cmd_line"`
	File    struct{ Path string }
	User    struct{ UID string }
	Created int64        `json:"created_time"`
	Parent  *lineProcess `json:"parent_process"`
}

// Parse reads an event from a line that OCSF.Append or OCSF18.Append has written. Times have milliseconds, command lines are
// truncated as in the line, and strings that weren't UTF-8 contain U+FFFD, except for the target.
func Parse(text []byte) (Event, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return Event{}, fmt.Errorf("read an event: %w", err)
	}
	u := &l.Unmapped
	if u.Kind == "" {
		return Event{}, fmt.Errorf("read an event: not an event of toolguard in --format ocsf")
	}
	e := Event{
		Time: time.UnixMilli(cmp.Or(l.EndTime, l.Time)), First: milli(l.StartTime), UID: l.Metadata.UID, Boot: u.Boot, Host: l.Device.Hostname,
		Version: l.Metadata.Product.Version, Sequence: l.Metadata.Sequence, Previous: l.previous(), Kind: Kind(u.Kind),
		Session: u.Session, Owner: u.Owner, Tool: u.Tool, Agent: u.Agent, Mode: u.Mode,
		Policy: l.Policy.Name, Digest: u.Digest, Authority: u.Authority, Rule: u.Rule, Place: u.Place, Reason: u.Reason, Suggest: u.Suggest,
		Resource: u.Resource, Capability: u.Capability, Target: u.Target, Asked: u.Asked,
		Cgroup: u.Cgroup, Mechanism: u.Mechanism, Errno: u.Errno, Count: l.Count, Execs: u.Execs, Degraded: u.Degraded, Removed: u.Removed, Extra: maps.Clone(u.Extra),
	}
	if exact, err := hex.DecodeString(u.TargetHex); err == nil && u.TargetHex != "" {
		e.Target = string(exact)
	}
	if x := u.Exit; x != nil {
		e.Exit = &Exit{
			Code: x.Code, Signal: x.Signal, Wall: ms(x.Wall), User: ms(x.User), System: ms(x.System),
			MaxRSS: x.MaxRSS, Denials: x.Denials, Orphans: x.Orphans, Usage: x.Usage,
		}
	}
	e.Process = l.chain(&e)
	return e, nil
}

// chain returns the process chain. It is in process if the event is about a process, otherwise in actor.
func (l *line) chain(e *Event) (chain []Process) {
	from := l.Actor.Process
	if e.Kind == SessionStart || e.Kind == SessionEnd || e.Kind == Exec {
		if from = l.Process; from != nil && from.PID == 0 && from.Name == "" && from.File.Path == "" && from.CmdLine == "" {
			return nil // OCSF requires a process, even if none is known
		}
	}
	for p := from; p != nil; p = p.Parent {
		uid, err := strconv.Atoi(p.User.UID)
		if err != nil {
			uid = -1
		}
		next := Process{PID: p.PID, UID: uid, Exe: p.File.Path, Comm: p.Name, Start: milli(p.Created)}
		next.Argv = splitCommandLine(p.CmdLine)
		chain = append(chain, next)
	}
	return chain
}

// splitCommandLine is the inverse of commandLine, except for truncated parts.
func splitCommandLine(s string) (argv []string) {
	for s != "" {
		word, rest, _ := strings.Cut(s, " ")
		if quoted, err := strconv.QuotedPrefix(s); err == nil {
			word, rest = quoted, strings.TrimPrefix(s[len(quoted):], " ")
			word, _ = strconv.Unquote(quoted) // QuotedPrefix has validated it
		}
		argv, s = append(argv, word), rest
	}
	return argv
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// milli converts milliseconds to a time; 0 is the zero time.
func milli(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n)
}

// LineTime returns the Time of an OCSF line in milliseconds, or -1 if text isn't such a line. It doesn't parse the rest, so
// that a search for few events among many is fast.
func LineTime(text []byte) int64 {
	rest, ok := bytes.CutPrefix(text, []byte(`{"time":`))
	if _, end, several := bytes.Cut(rest, []byte(`,"end_time":`)); several {
		rest = end
	}
	digits, _, found := bytes.Cut(rest[:min(len(rest), 24)], []byte(","))
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if !ok || !found || err != nil {
		return -1
	}
	return n
}
