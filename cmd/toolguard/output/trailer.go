package output

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/grant"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/session"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// mostInTrailer is how many denials a trailer lists.
const mostInTrailer = 20

// trailer is the report after a command as one line of JSON, for models.
type trailer struct {
	Toolguard trailerReport `json:"toolguard"`
}

type trailerReport struct {
	Session   string          `json:"session"` // "": there was none
	Exit      int             `json:"exit"`
	Denials   []trailerDenial `json:"denials"`
	Truncated int             `json:"truncated"`        // different denials that aren't listed
	Unseen    string          `json:"unseen,omitempty"` // why denials can't be seen
}

type trailerDenial struct {
	Resource string   `json:"resource"`
	Action   string   `json:"action"`
	Target   string   `json:"target"`
	Reason   string   `json:"reason"`
	Rule     *ruleRef `json:"rule"`
	Count    uint64   `json:"count"`
	Suggest  string   `json:"suggest,omitempty"`
	Request  string   `json:"request,omitempty"` // a command line that asks a person for the grant
}

// Trailer writes the report after a command as one line of JSON. code is the exit status.
func (s *Screen) Trailer(r session.Result, code int) error {
	t := trailerReport{Session: r.Session, Exit: code}
	if !r.Visible && code != 0 && r.Session != "" {
		t.Unseen = cmp.Or(r.WhyUnseen, "this user may not")
	}
	t.Denials, t.Truncated = trailerDenials(r)
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(trailer{t}); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if _, err := s.W.Write([]byte(escapeUnprintable(b.String()))); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// trailerDenials returns the first denials of a run, and how many more there are.
func trailerDenials(r session.Result) (first []trailerDenial, more int) {
	first = []trailerDenial{}
	list := AnywayLast(r.Denials)
	for i := range list[:min(len(list), mostInTrailer)] {
		d := &list[i]
		first = append(first, trailerDenial{d.Resource, d.Capability, d.Target, d.Reason, deniedBy(&d.Event), d.Count, d.Suggest, requestFor(d)})
	}
	return first, len(list) - len(first)
}

// deniedBy returns the rule of a denial, or nil.
func deniedBy(e *event.Event) *ruleRef {
	if e.Rule == "" {
		return nil
	}
	r := &ruleRef{ID: e.Rule, Authority: e.Authority, File: e.Place}
	parts := strings.Split(e.Place, ":")
	if n := len(parts); n > 2 { // file:line:column; a file's name may have colons
		line, noLine := strconv.Atoi(parts[n-2])
		col, noCol := strconv.Atoi(parts[n-1])
		if noLine == nil && noCol == nil {
			r.File, r.Line, r.Col = strings.Join(parts[:n-2], ":"), line, col
		}
	}
	return r
}

// requestFor returns the command line that asks a person for what would allow a denial; "" where there is no such grant, or its target
// can't be pasted without danger.
func requestFor(d *denials.Denial) string {
	g := grant.Denial{
		Resource: d.Resource, Capability: d.Capability, Target: d.Target, Reason: d.Reason, Asked: d.Asked, Suggest: d.Suggest,
		Mechanism: d.Mechanism, Extra: d.Extra,
	}
	q, ok := g.Question()
	if !ok || d.Suggest == "" {
		return ""
	}
	var lines []string
	for _, words := range questionWords(q, d.Capability) {
		line, ok := shellLine(append([]string{"toolguard", "request"}, words...))
		if !ok {
			return ""
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, " && ")
}

// questionWords returns a question as the command line has it: resource, action and target. One about several capabilities is several.
func questionWords(q explain.Question, capability string) [][]string {
	switch q.Resource {
	case policy.FS:
		actions := strings.Split(capability, "+")
		if q.Symlink {
			actions = []string{"readlink"}
		}
		var all [][]string
		for _, action := range actions {
			all = append(all, []string{"fs", action, q.Target})
		}
		return all
	case policy.Net:
		action, target := "connect", q.Target
		if q.Listen {
			action = "listen"
		} else if q.Method != "" {
			action = q.Method
		}
		if _, rest, ok := strings.Cut(target, "://"); ok && q.Scheme != "" {
			target = q.Scheme + "://" + rest
		}
		return [][]string{{"net", action, target}}
	case policy.Env:
		return [][]string{{"env", "read", "--", q.Target}}
	}
	argv := q.Argv
	if len(argv) == 0 {
		argv = []string{q.Target}
	}
	return [][]string{append([]string{"command", "run", "--"}, argv...)}
}

// shellLine quotes words for a shell. ok is false if one has a character that isn't printable: a terminal into which it's pasted, or a shell
// that reads a line of its own, could take it for a command.
func shellLine(words []string) (line string, ok bool) {
	quoted := make([]string, len(words))
	for i, w := range words {
		if event.Plain(w) != w {
			return "", false
		}
		quoted[i] = w
		if w == "" || strings.ContainsFunc(w, func(r rune) bool { return !isShellSafe(r) }) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " "), true
}

// isShellSafe reports whether a character is itself in every shell, anywhere in a word. "~" and "=" aren't.
func isShellSafe(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || slices.Contains([]rune("/._-:@+"), r)
}

// escapeUnprintable escapes what a terminal may interpret in a line of JSON. Such characters are in its strings alone.
func escapeUnprintable(line string) string {
	var b strings.Builder
	for _, r := range line {
		switch {
		case r == '\n' || strconv.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
