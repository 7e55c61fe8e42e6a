package event

import (
	"maps"
	"slices"
	"strings"
)

// The maximum sizes in bytes. The confined process chooses nearly all strings in an event. With these limits, long strings
// neither cause an event to be dropped for its size nor delay the events of other sessions. A path of PATH_MAX fits.
const (
	maxName     = 1 << 10
	maxText     = 4608
	maxDegraded = 16 << 10
	maxChain    = 48 << 10
)

// StringOverhead is the number of bytes that each string of a list takes in addition to its own.
const StringOverhead = 4

// truncated returns a copy of the event within the maximum sizes. A … marks each truncation.
func (e *Event) truncated() Event {
	out := *e
	for _, s := range out.shortFields() {
		*s = truncate(*s, maxName)
	}
	if len(e.Suggest) > maxText {
		out.Suggest = "" // a part of it would be no grant, or a different one
	}
	for _, s := range out.longFields() {
		*s = truncate(*s, maxText)
	}
	for k, v := range e.Extra {
		if short := truncate(v, maxText); short != v {
			out.Extra = maps.Clone(out.Extra)
			out.Extra[k] = short
		}
	}
	out.Degraded, out.Removed = TruncateList(e.Degraded), TruncateList(e.Removed)
	left := maxChain
	for i, p := range e.Process {
		if left -= p.size(); left < 0 {
			out.Process = slices.Clone(e.Process[:i+1])
			last := &out.Process[i]
			last.Exe, last.Comm, last.Argv = truncate(p.Exe, maxText), truncate(p.Comm, maxName), TruncateArgv(p.Argv)
			break
		}
	}
	return out
}

// TruncateList returns the beginning of a list, within the maximum size of one in an event.
func TruncateList(list []string) []string {
	left := maxDegraded
	for i, d := range list {
		if left -= len(d) + StringOverhead; left < 0 {
			return append(slices.Clone(list[:i]), truncate(d, max(0, left+len(d))))
		}
	}
	return list
}

// shortFields returns the fields that are short unless an attacker chose them.
func (e *Event) shortFields() []*string {
	return []*string{
		&e.Session, &e.Owner, &e.Tool, &e.Agent, &e.Mode, &e.Policy, &e.Digest, &e.Authority, &e.Rule, &e.Reason, &e.Resource, &e.Capability,
		&e.Cgroup, &e.Mechanism, &e.Errno,
	}
}

// longFields returns the fields that may be as long as a path.
func (e *Event) longFields() []*string { return []*string{&e.Suggest, &e.Place, &e.Target, &e.Asked} }

// maxToken is the length up to which truncate splits no word: half a secret isn't recognized as one.
const maxToken = 256

// truncate returns the beginning of a string, at most size bytes of it and a …
func truncate(s string, size int) string {
	if len(s) <= size {
		return s
	}
	end := max(0, size-maxToken)
	end += 1 + strings.LastIndexAny(s[end:size], " \t\n\"'&,;=")
	return strings.ToValidUTF8(s[:end], "") + "…"
}

func (p *Process) size() (n int) {
	n = len(p.Exe) + len(p.Comm)
	for _, a := range p.Argv {
		n += len(a)
	}
	return n
}
