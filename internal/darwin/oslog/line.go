package oslog

import (
	"strconv"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/lazy"
)

// Denial is one line about a denial.
type Denial struct {
	Time      time.Time // in the local time zone; zero if the line has none
	Comm      string    // of the denied process
	PID       int
	Operation string // such as "file-read-data"
	Target    string // a path, a service, an address; "" if the operation has none
	Count     uint64 // how many denials the line reports
	System    bool   // another authority of the machine denied it
	Tag       string // of the session; "": it has none
}

// decision is the message of a denial. The name of a process has at most 32 bytes (2*MAXCOMLEN in XNU's bsd/sys/param.h).
var decision = lazy.Regexp(`(?:(\d{1,9}) duplicate reports? for )?Sandbox: (.{1,32}?)\((\d{1,9})\) (System Policy: )?deny\(\d{1,9}\) ([a-z][a-z0-9*-]{0,63})(?: (.*))?$`)

// timeLayout is the time of --style compact.
const timeLayout = "2006-01-02 15:04:05.000"

// maxLine limits a line. The kernel's messages have at most a path (PATH_MAX is 1,024) and a tag.
const maxLine = 8 << 10

// Parse parses one line. ok is false if it's about something else.
func Parse(line string) (d Denial, ok bool) {
	if len(line) > maxLine {
		return d, false
	}
	at := decision().FindStringSubmatchIndex(line)
	if at == nil {
		return d, false
	}
	group := func(n int) string {
		if at[2*n] < 0 {
			return ""
		}
		return line[at[2*n]:at[2*n+1]]
	}
	pid, err := strconv.Atoi(group(3))
	if err != nil {
		return d, false
	}
	d = Denial{Comm: group(2), PID: pid, Operation: group(5), Count: 1, System: group(4) != ""}
	if n, err := strconv.ParseUint(group(1), 10, 32); err == nil && n > 0 {
		d.Count = n
	}
	d.Target, d.Tag = cutTag(strings.TrimRight(group(6), " \r"))
	if head := line[:at[0]]; len(head) >= len(timeLayout) {
		if t, err := time.ParseInLocation(timeLayout, head[:len(timeLayout)], time.Local); err == nil {
			d.Time = t
		}
	}
	return d, true
}

// tagPrefix begins every session's tag.
const tagPrefix = "toolguard-session-"

// TagOf returns the tag of a session.
func TagOf(session string) string { return tagPrefix + session }

// tagLine is a tag at the end of a message.
var tagLine = lazy.Regexp(`(?:^|\s)(` + tagPrefix + `[0-9a-f]{16})$`)

// cutTag returns a text without the tag at its end.
func cutTag(text string) (rest, tag string) {
	at := tagLine().FindStringSubmatchIndex(text)
	if at == nil {
		return text, ""
	}
	return strings.TrimRight(text[:at[0]], " "), text[at[2]:at[3]]
}

// Tag adds a tag to the default denial of a profile. A profile without the form that package darwin writes stays as it is.
func Tag(profile, tag string) string {
	return strings.Replace(profile, "(deny default)", `(deny default (with message "`+tag+`"))`, 1)
}
