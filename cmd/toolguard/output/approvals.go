package output

import (
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/calls/ask"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// Approvals is the answer of approvals list.
func (s *Screen) Approvals(list []message.Approval, now time.Time) {
	defer s.flush()
	if len(list) == 0 {
		s.line("no approval is pending")
		return
	}
	rows := [][]cell{{cs(faint, "approval"), cs(faint, "session"), cs(faint, "agent"), cs(faint, "risk"), cs(faint, "time"), cs(faint, "for")}}
	for i := range list {
		a := &list[i]
		rows = append(rows, []cell{
			cs(bold, shortest(list, a.ID)), c(a.Session), c(a.Agent), c(a.Risk), c(ask.Left(a, now)), c(ask.Cut(ask.Summary(a), lineWidth)),
		})
	}
	s.table("", rows)
	s.line("'toolguard approvals allow APPROVAL' allows it once, 'toolguard approvals deny APPROVAL' denies it; 'toolguard approvals show APPROVAL' shows all of it")
}

// shortest is the shortest beginning of an id that names only one of the list, and no shorter than eight characters.
func shortest(list []message.Approval, id string) string {
	n := 8
	for i := range list {
		other := list[i].ID
		for other != id && n < len(id) && strings.HasPrefix(other, id[:n]) {
			n++
		}
	}
	if n >= len(id) || strings.Trim(id, "0123456789abcdef") != "" {
		return ask.Quote(id)
	}
	return id[:n]
}

// Approval is one approval, with everything that a person should see before deciding.
func (s *Screen) Approval(a *message.Approval, now time.Time) {
	defer s.flush()
	s.line("%s  %s", s.in(bold, "approval "+ask.Quote(a.ID)), ask.Left(a, now))
	rows := [][]cell{}
	if a.Session != "" {
		rows = append(rows, []cell{c("session"), c(a.Session)})
	}
	for _, r := range ask.Rows(a) {
		st := plain
		if r.Warn {
			st = yellow
		}
		rows = append(rows, []cell{c(r.Name), cs(st, r.Text)})
	}
	s.table("  ", rows)
}

// ApprovalAsked is a new approval in approvals watch. The error is that it couldn't be written.
func (s *Screen) ApprovalAsked(a *message.Approval, now time.Time, asJSON bool) error {
	if asJSON {
		return s.ASCIIJSON(map[string]any{"event": "asked", "approval": a})
	}
	s.Approval(a, now)
	return s.Failed()
}

// ApprovalEnded is the end of an approval in approvals watch. gone: it's listed no more. The error is that it couldn't be written.
func (s *Screen) ApprovalEnded(a *message.Approval, gone bool, now time.Time, asJSON bool) error {
	outcome := ask.Outcome(a, gone, now)
	if asJSON {
		return s.ASCIIJSON(map[string]any{"event": "ended", "outcome": outcome, "approval": a})
	}
	s.line("approval %s: %s", ask.Quote(a.ID), outcome)
	s.flush()
	return s.Failed()
}

// Decided is the answer of approvals allow and deny.
func (s *Screen) Decided(a *message.Approval, made message.Decided) {
	defer s.flush()
	s.line("approval %s: %s: %s", ask.Quote(a.ID), ask.Escape(*made.Decision), ask.Summary(a))
	if *made.Decision == message.AllowAlways && a.Rule != "" {
		s.line("  stored:")
		for line := range strings.Lines(a.Rule) {
			s.line("    %s", ask.Escape(strings.TrimSuffix(line, "\n")))
		}
	}
	if made.Effect != "" {
		s.line("  in force: %s", ask.Escape(made.Effect))
	}
}

// Requested is the answer of request.
func (s *Screen) Requested(r *ask.Requested) {
	defer s.flush()
	a := &r.Approval
	switch d := a.Decision; {
	case r.Open:
		s.line("still open: nobody has decided yet about approval %s; the same request again waits for it", ask.Quote(a.ID))
	case d == nil:
		s.line("not given: nobody answered in time")
	case *d == message.Deny:
		s.line("denied by the user")
	case a.ID == "":
		s.line("%s", ask.Escape(a.Reason)) // nobody had to be asked
	default:
		s.line("given: %s", ask.Escape(*d))
		for line := range strings.Lines(a.Rule) {
			s.line("  %s", ask.Escape(strings.TrimSuffix(line, "\n")))
		}
		if r.Effect != "" {
			s.line("in force: %s", ask.Escape(r.Effect))
		}
	}
}

// NotRequested is the message of request where nobody serves requests. rule would allow it; "" if none can, and advice is why.
func (s *Screen) NotRequested(rule, advice string) {
	defer s.flush()
	s.text.WriteString(s.prefix() + "the session serves no requests: its policy has no [approvals], or no session runs here\n")
	switch {
	case rule != "":
		s.line("  this rule in the policy would allow it:")
		for line := range strings.Lines(rule) {
			s.line("    %s", Clean(strings.TrimSuffix(line, "\n")))
		}
	case advice != "":
		s.line("  %s", Clean(advice))
	}
}

// ASCIIJSON writes a value on one line. Everything outside ASCII is escaped, so that the line is fit for a terminal.
func (s *Screen) ASCIIJSON(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case r < 0x7f:
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			writeUnit(&b, 0xd800+r>>10)
			writeUnit(&b, 0xdc00+r&0x3ff)
		default:
			writeUnit(&b, r)
		}
	}
	b.WriteByte('\n')
	_, err = io.WriteString(s.W, b.String())
	return err
}

func writeUnit(b *strings.Builder, r rune) {
	b.WriteString(`\u`)
	for shift := 12; shift >= 0; shift -= 4 {
		b.WriteByte("0123456789abcdef"[r>>shift&15])
	}
}
