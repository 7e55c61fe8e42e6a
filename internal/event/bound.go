package event

import (
	"maps"
	"slices"
	"strings"
)

// What an event tells is chosen by others, nearly all of it by the guarded. These bound it, in bytes: so that one who chooses long names
// neither has his events dropped for their length nor makes everybody wait while they're written. What a kernel's path takes there's room for.
const (
	maxName     = 1 << 10
	maxText     = 4608
	maxDegraded = 16 << 10
	maxChain    = 48 << 10
)

// PerText is what each text of a list takes beside its bytes.
const PerText = 4

// bounded is an event that isn't longer than one may be: … stands for what was cut off.
func (e *Event) bounded() Event {
	out := *e
	for _, s := range out.names() {
		*s = cut(*s, maxName)
	}
	if len(e.Suggest) > maxText {
		out.Suggest = "" // a part of it would be no grant, or another
	}
	for _, s := range out.texts() {
		*s = cut(*s, maxText)
	}
	for k, v := range e.Extra {
		if short := cut(v, maxText); short != v {
			out.Extra = maps.Clone(out.Extra)
			out.Extra[k] = short
		}
	}
	out.Degraded, out.Removed = ShortList(e.Degraded), ShortList(e.Removed)
	room := maxChain
	for i, p := range e.Process {
		if room -= p.size(); room < 0 {
			out.Process = slices.Clone(e.Process[:i+1])
			last := &out.Process[i]
			last.Exe, last.Comm, last.Argv = cut(p.Exe, maxText), cut(p.Comm, maxName), ShortArgv(p.Argv)
			break
		}
	}
	return out
}

// ShortList is the beginning of a list, as long as an event may have it.
func ShortList(list []string) []string {
	room := maxDegraded
	for i, d := range list {
		if room -= len(d) + PerText; room < 0 {
			return append(slices.Clone(list[:i]), cut(d, max(0, room+len(d))))
		}
	}
	return list
}

// names are what is short, but for who means harm.
func (e *Event) names() []*string {
	return []*string{
		&e.Session, &e.Owner, &e.Tool, &e.Agent, &e.Mode, &e.Policy, &e.Digest, &e.Authority, &e.Rule, &e.Reason, &e.Resource, &e.Capability,
		&e.Cgroup, &e.Mechanism, &e.Errno,
	}
}

// texts are what may be as long as a path.
func (e *Event) texts() []*string { return []*string{&e.Suggest, &e.Place, &e.Target, &e.Asked} }

// longWord is how long a word may be that isn't cut in two: half a secret isn't known as one any more.
const longWord = 256

// cut is the beginning of a string.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := max(0, most-longWord)
	end += 1 + strings.LastIndexAny(s[end:most], " \t\n\"'&,;=")
	return strings.ToValidUTF8(s[:end], "") + "…"
}

func (p *Process) size() (n int) {
	n = len(p.Exe) + len(p.Comm)
	for _, a := range p.Argv {
		n += len(a)
	}
	return n
}
