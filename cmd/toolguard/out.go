package main

// This file owns all output for people. Its rules:
//
//   - Standard output carries the answer that was asked for, and nothing else. In exec it belongs to the command alone.
//   - Everything else goes to standard error and begins with "toolguard: ": lower case, no full stop at the end. What
//     belongs to it follows, indented by two spaces.
//   - A message says what happened, which rule or line of which file decided, and what to do next, in this order.
//   - Whatever came from outside (names, paths, policy text, arguments) is written through clean: no control character,
//     no direction mark, no broken UTF-8 reaches a terminal.
//   - Colour only on a terminal, never with NO_COLOR or TERM=dumb, and it never carries a meaning that the words don't.
//   - Columns line up. A list that could be long has an end and says what it left out.
//   - A screen is one write, so that it isn't torn apart by what other processes write.

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session"
)

// screen is a stream that people read.
type screen struct {
	w        io.Writer
	terminal bool
	color    bool
	text     strings.Builder // what flush writes
}

// newScreen is the screen on f. A character device may be something other than a terminal (/dev/null): nobody reads
// colours there.
func newScreen(f *os.File) *screen {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &screen{w: f, terminal: terminal, color: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// flush writes the screen. There is nobody to tell when that fails.
func (s *screen) flush() {
	_, _ = io.WriteString(s.w, s.text.String())
	s.text.Reset()
}

func (s *screen) line(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

// style is how a word looks on a terminal.
type style string

const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

func (s *screen) in(st style, text string) string {
	if !s.color || st == plain || text == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

// clean makes text from outside fit for a terminal, on one line: what doesn't print is escaped as in Go.
func clean(text string) string {
	ok := true
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			ok = false
			break
		}
	}
	if ok {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n <= 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		text = text[n:]
	}
	return b.String()
}

// cell is a word in a table.
type cell struct {
	text  string
	style style
}

func c(text string) cell            { return cell{text: text} }
func cs(st style, text string) cell { return cell{text, st} }

// widest is the width beyond which a cell no longer widens its column; the row of such a cell is out of line instead.
const widest = 70

// table writes rows in columns, each row behind indent. The last cell of a row isn't padded.
func (s *screen) table(indent string, rows [][]cell) {
	var width []int
	for _, row := range rows {
		for i, c := range row[:max(len(row)-1, 0)] {
			if i == len(width) {
				width = append(width, 0)
			}
			if n := utf8.RuneCountInString(clean(c.text)); n <= widest {
				width[i] = max(width[i], n)
			}
		}
	}
	for _, row := range rows {
		for len(row) > 0 && row[len(row)-1].text == "" {
			row = row[:len(row)-1]
		}
		s.text.WriteString(indent)
		for i, c := range row {
			text := clean(c.text)
			s.text.WriteString(s.in(c.style, text))
			if i < len(row)-1 {
				s.text.WriteString(strings.Repeat(" ", max(width[i]-utf8.RuneCountInString(text), 0)+2))
			}
		}
		s.text.WriteByte('\n')
	}
}

// lineWidth is where running text is broken.
const lineWidth = 110

// list writes one item after the other, each behind a dash and broken into lines.
func (s *screen) list(indent string, items []string) {
	for _, item := range items {
		s.text.WriteString(indent + "-")
		at := len(indent) + 1
		for _, word := range strings.Fields(clean(item)) {
			n := utf8.RuneCountInString(word) + 1
			if at+n > lineWidth {
				s.text.WriteString("\n" + indent + " ")
				at = len(indent) + 1
			}
			s.text.WriteString(" " + word)
			at += n
		}
		s.text.WriteByte('\n')
	}
}

// count is "1 rule", "2 rules".
func count[N int | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// prefix begins every message.
func (s *screen) prefix() string { return s.in(bold, "toolguard:") + " " }

// say writes a message of one line.
func (s *screen) say(format string, args ...any) {
	s.text.WriteString(s.prefix() + clean(fmt.Sprintf(format, args...)) + "\n")
	s.flush()
}

// warn is say for what somebody should know about.
func (s *screen) warn(format string, args ...any) {
	s.text.WriteString(s.prefix() + s.in(yellow, "warning: ") + clean(fmt.Sprintf(format, args...)) + "\n")
	s.flush()
}

// mostErrors is how many errors a screen shows.
const mostErrors = 20

// failure says why a command ends without having done its work.
func (s *screen) failure(err error) {
	defer s.flush()
	var mistakes policy.Errors
	var mistake *policy.Error
	var u *usage
	switch {
	case errors.As(err, &mistakes):
		for i, m := range mistakes {
			if i == mostErrors {
				s.line("%s… and %s more", s.prefix(), count(len(mistakes)-i, "error"))
				break
			}
			s.mistake(m)
		}
	case errors.As(err, &mistake):
		s.mistake(mistake)
	case errors.As(err, &u):
		s.line("%s%s", s.prefix(), clean(u.msg))
		if u.hint != "" {
			s.line("  %s", clean(u.hint))
		}
		s.line("  '%s --help' shows how it's used", u.cmd.CommandPath())
	default:
		s.line("%s%s", s.prefix(), clean(errorText(err)))
	}
}

// crash tells of a mistake in toolguard itself.
func (s *screen) crash(p any, stack []byte) {
	defer s.flush()
	s.line("%sa mistake in toolguard: %s", s.prefix(), clean(fmt.Sprint(p)))
	s.line("  please report it with these lines and what you ran")
	for line := range strings.Lines(string(stack)) {
		s.line("  %s", clean(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")))
	}
}

// errorText is an error without the name of the system call that it comes from, unless what wraps it has words of its own.
func errorText(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) && pe.Error() == err.Error() {
		return pe.Path + ": " + pe.Err.Error()
	}
	return err.Error()
}

func (s *screen) mistake(e *policy.Error) {
	s.line("%s%s: %s", s.prefix(), s.in(bold, clean(e.Place.String())), clean(e.Msg))
	if e.Hint != "" {
		s.line("  %s", clean(e.Hint))
	}
}

// help is the help of a command.
func (s *screen) help(cmd *cobra.Command) {
	defer s.flush()
	about := cmd.Long
	if about == "" {
		about = cmd.CommandPath() + ": " + cmd.Short
	}
	s.line("%s\n\n%s\n  %s", about, s.in(bold, "Usage"), usageLine(cmd))
	if cmd.Example != "" {
		s.line("\n%s\n%s", s.in(bold, "Examples"), cmd.Example)
	}
	var rows [][]cell
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			rows = append(rows, []cell{cs(bold, sub.Name()), c(sub.Short)})
		}
	}
	if rows != nil {
		s.line("\n%s", s.in(bold, "Commands"))
		s.table("  ", rows)
		s.line("\n'%s COMMAND --help' tells more about each", cmd.CommandPath())
	}
	if rows == nil {
		s.flags(cmd.LocalFlags())
	}
}

// flags lists flags: name and value, then what it does, on the next line where the first is long.
func (s *screen) flags(flags *pflag.FlagSet) {
	const column = 18
	first := true
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if first {
			s.line("\n%s", s.in(bold, "Flags"))
			first = false
		}
		value, help := pflag.UnquoteUsage(f)
		if _, ok := f.Value.(choice); ok {
			help += " (default " + f.DefValue + ")"
		}
		name := "--" + f.Name
		if value != "" {
			name += " " + value
		}
		gap := "\n" + strings.Repeat(" ", column+4)
		if n := utf8.RuneCountInString(name); n <= column {
			gap = strings.Repeat(" ", column-n+2)
		}
		s.line("  %s%s%s", s.in(bold, name), gap, help)
	})
}

func usageLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.CommandPath() + " COMMAND"
	}
	return cmd.UseLine()
}

// refusal says why a policy can't be enforced here.
func (s *screen) refusal(r session.Report, name string) {
	defer s.flush()
	s.line("%s%s: %s can't enforce %s of policy %s", s.prefix(), s.in(red, "nothing was started"), r.Backend,
		count(len(r.Refusals), "rule"), clean(name))
	var ids []string
	for i, row := range r.Refusals {
		ids = append(ids, row.ID)
		if i < mostErrors {
			s.line("  %s: %s: %s: %s", s.in(bold, clean(place(row.Place))), clean(named(row)), shortfall(row, r.Backend), clean(row.Why))
		}
	}
	if n := len(r.Refusals) - mostErrors; n > 0 {
		s.line("  … and %d more (all of them with --dry-run)", n)
	}
	s.line("what to do:")
	s.line("  use a backend that can ('toolguard doctor' shows what this machine has), or change the rule, or")
	s.line("  accept that it isn't enforced: --allow-degraded=%s", clean(strings.Join(ids, ",")))
}

// shortfall says how far a row isn't enforced, and by what.
func shortfall(row policy.Coverage, backend string) string {
	by := row.By
	if by == "" {
		by = backend
	}
	if row.Status == policy.Partly {
		return "only partly enforceable by " + by
	}
	return "not enforceable by " + by
}

// named is a row's rule by id and text.
func named(row policy.Coverage) string {
	if row.Rule == nil || row.Rule.Text() == "" {
		return row.ID
	}
	return row.ID + " " + row.Rule.Text()
}

func place(p policy.Place) string {
	if p.File == "" {
		return "always"
	}
	return p.String()
}

// coverage is the enforceability report.
func (s *screen) coverage(r session.Report, p *policy.Compiled) {
	defer s.flush()
	s.line("policy %s, workspace %s, backend %s", s.in(bold, clean(p.Name)), clean(p.Workspace), s.in(bold, r.Backend))
	refused := map[string]bool{}
	for _, row := range r.Refusals {
		refused[row.ID] = true
	}
	rows, builtin := coverageRows(r, refused)
	s.line("")
	s.table("  ", rows)
	if builtin > 0 {
		s.line("  and %s of the built-in sets, enforced ('toolguard policy show' lists them)", count(builtin, "rule"))
	}
	if len(r.Gaps) > 0 {
		s.line("\nwhat %s never sees, whatever the policy says:", r.Backend)
		s.list("  ", r.Gaps)
	}
	s.line("")
	switch n := len(r.Refusals); {
	case n > 0:
		s.line("%s: %s can't be enforced here", s.in(red, "the command would not start"), count(n, "rule"))
	case len(r.Notes) > 0:
		s.line("%s, with %s not fully enforced, as allowed", s.in(green, "the command would start"), count(len(r.Notes), "rule"))
	default:
		s.line("%s", s.in(green, "the command would start"))
	}
}

// coverageRows are the rows of the report but for the built-in rules that need no word, which are counted. Built-in rules
// of which the same is to be said share a row.
func coverageRows(r session.Report, refused map[string]bool) (rows [][]cell, builtin int) {
	for i := 0; i < len(r.Rows); i++ {
		row := r.Rows[i]
		isBuiltin := row.Rule != nil && row.Rule.Builtin()
		if isBuiltin && row.Status == policy.Enforced && row.Why == "" {
			builtin++
			continue
		}
		id, text, n := row.ID, ruleText(row), 1
		for isBuiltin && i+1 < len(r.Rows) && alike(row, r.Rows[i+1]) && !refused[row.ID] {
			i++
			n++
		}
		if n > 1 {
			id, text = id+" to "+r.Rows[i].ID, count(n, "rule")
		}
		rows = append(rows, []cell{cs(bold, id), statusCell(row, refused[row.ID]), c(row.By), cs(faint, place(row.Place)), c(text)})
		if row.Why != "" {
			rows = append(rows, []cell{c(""), cs(faint, row.Why)})
		}
	}
	return rows, builtin
}

// alike tells whether the same is to be said of two built-in rules.
func alike(a, b policy.Coverage) bool {
	return b.Rule != nil && a.Rule.Place.File == b.Rule.Place.File && a.Status == b.Status && a.Why == b.Why && a.By == b.By
}

func ruleText(row policy.Coverage) string {
	if row.Rule == nil {
		return ""
	}
	return row.Rule.Text()
}

func statusCell(row policy.Coverage, refused bool) cell {
	switch {
	case row.Status == policy.Enforced:
		return cs(green, row.Status.String())
	case refused:
		return cs(red, row.Status.String())
	}
	return cs(yellow, row.Status.String()+" (allowed)")
}

// reportLines is the most that the report after a command takes.
const reportLines = 20

// report tells what was denied while the command ran.
func (s *screen) report(r session.Result, name string, events bool) {
	defer s.flush()
	if !r.Visible && len(r.Denials) == 0 {
		s.line("%sthis user can't see what the kernel denies: 'toolguard doctor' says what that takes (policy %s)", s.prefix(), clean(name))
	} else {
		s.line("%s%s (policy %s)", s.prefix(), s.in(red, count(r.Total, "denial")), clean(name))
	}
	var end []string
	if len(r.RemovedEnv) > 0 {
		end = append(end, "not in its environment: "+someOf(r.RemovedEnv, 20))
	}
	if r.WhyLost != "" {
		unseen := "some denials may have gone by unseen"
		if r.Lost > 0 {
			unseen = fmt.Sprintf("at least %s went by unseen", count(r.Lost, "denial"))
		}
		end = append(end, unseen+": "+r.WhyLost)
	}
	if r.More > 0 {
		end = append(end, fmt.Sprintf("and %s of what the policy allows: 'toolguard doctor' tells what the backend can't tell apart",
			count(r.More, "denial")))
	}
	if !r.Visible && len(r.Denials) > 0 {
		end = append(end, "what else the kernel denies can't be seen by this user: 'toolguard doctor' says what that takes")
	}
	rows, shown := denialRows(r.Denials, reportLines-1-len(end))
	s.table("  ", rows)
	if n := len(r.Denials) - shown; n > 0 {
		more := fmt.Sprintf("… and %d more", n)
		if !events {
			more += " (all of them with --events FILE)"
		}
		s.line("  %s", more)
	}
	for _, e := range end {
		s.line("  %s", clean(e))
	}
}

// denialRows are the rows of the first denials, in at most so many lines, one of which is left for what is left out.
func denialRows(denials []session.Denial, lines int) (rows [][]cell, shown int) {
	for i, d := range denials {
		block := [][]cell{{cs(bold, d.Capability), c(d.Target), c(decider(d)), cs(bold, times(d.Count))}}
		if d.Capability == d.Target { // a system call: that's all there is to it
			block[0][0].text = "call"
		}
		if d.Suggest != "" {
			block = append(block, []cell{c(""), cs(faint, "to allow: "+oneLine(d.Suggest))})
		}
		left := 1
		if i == len(denials)-1 {
			left = 0
		}
		if len(rows)+len(block)+left > lines {
			return rows, i
		}
		rows = append(rows, block...)
	}
	return rows, len(denials)
}

func times(n uint64) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf("×%d", n)
}

// decider says who denied something: the rule and its line, or, where no line of a file did, why.
func decider(d session.Denial) string {
	why := d.Extra["why"] // the mechanism's own words, for what no rule is about
	if why == "" {
		why = reasonText(policy.Reason(d.Reason))
	}
	switch {
	case d.Rule != "" && d.Place != "":
		return fmt.Sprintf("%s, %s", d.Rule, d.Place)
	case d.Rule != "":
		return fmt.Sprintf("%s (%s)", why, d.Rule)
	}
	return why
}

// oneLine puts a grant on one line: the table, then its keys.
func oneLine(toml string) string {
	table, keys, _ := strings.Cut(strings.TrimSpace(toml), "\n")
	return strings.TrimSpace(table + " " + strings.ReplaceAll(keys, "\n", ", "))
}

// someOf is the first n words, and how many there are beyond.
func someOf(words []string, n int) string {
	if len(words) <= n {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:n], ", "), len(words)-n)
}

// reasonText is a reason in words.
func reasonText(r policy.Reason) string {
	switch r {
	case policy.Allowed:
		return "a rule allows it"
	case policy.AllowedByDefault:
		return "no rule matches, and the default is allow"
	case policy.AllowedNoPolicy:
		return "no policy declares this resource"
	case policy.NoRule:
		return "no rule allows it"
	case policy.RuleDenies:
		return "a rule denies it"
	case policy.OutsideWorkspace:
		return "it's outside the workspace, and no rule allows it"
	case policy.WorkspaceEscape:
		return "it leads out of the workspace, to where no rule allows it"
	case policy.Protected:
		return "programs outside the session obey this file, so it's protected"
	case policy.PathUnresolved:
		return "the path is too long or too deep to follow"
	case policy.NoGain:
		return "it would get more access under its new name"
	case policy.CommandNotListed:
		return "this program isn't among those that may run"
	case policy.ArgsNotListed:
		return "this program may not run with these arguments"
	case policy.HostNotListed:
		return "no rule allows this host"
	case policy.HostMismatch:
		return "the name in the request isn't the one that was connected to"
	case policy.PrivateAddress:
		return "a public name that leads to a private address"
	case policy.DNSDenied:
		return "no rule allows looking this name up"
	case policy.SyscallDenied:
		return "the session may not make this system call"
	case policy.Limit:
		return "a limit was reached"
	}
	return string(r)
}

// unseen is the one line after a command that failed where nobody can see what was denied. It's for people: a program
// that reads standard error of another one gets no remarks of ours in it.
func (s *screen) unseen(code int) {
	if !s.terminal {
		return
	}
	s.say("it ended with %d; whether something was denied can't be seen by this user ('toolguard doctor' says what that takes, "+
		"'toolguard check' what the policy allows)", code)
}

// answer is the answer of check.
func (s *screen) answer(q policy.Question, a policy.Answer) {
	defer s.flush()
	s.decision(q, a)
}

func (s *screen) decision(q policy.Question, a policy.Answer) {
	verdict := cs(green, "allow")
	if a.Decision != "allow" {
		verdict = cs(red, "deny")
	}
	rows := [][]cell{{verdict, c(asked(q, a.Target))}, {c("why"), c(reasonText(a.Reason) + " (" + string(a.Reason) + ")")}}
	if a.Rule != nil {
		rows = append(rows, []cell{c("rule"), c(ruleLine(a.Rule))})
	}
	if a.Authority != policy.Session && (a.Rule != nil || a.Authority != policy.Builtin) {
		rows = append(rows, []cell{c("by"), c("the " + a.Authority.String() + " authority")})
	}
	// These lines are TOML as they are, to be copied into the policy.
	for i, line := range strings.Split(strings.TrimSpace(a.Suggest), "\n") {
		rows = append(rows, []cell{c([...]string{"to allow", ""}[min(i, 1)]), c(line)})
	}
	if a.Suggest == "" {
		rows = rows[:len(rows)-1]
	}
	s.table("", rows)
}

// ruleLine is a rule on one line: id, text, place.
func ruleLine(r *policy.Rule) string { return fmt.Sprintf("%s  %s  (%s)", r.ID, r.Text(), r.Place) }

// asked is the question in the words of the command line.
func asked(q policy.Question, target string) string {
	if target == "" {
		target = q.Target
	}
	switch q.Resource {
	case policy.FS:
		return q.Caps.String() + " " + target
	case policy.Net:
		if q.Listen {
			return "listen on " + target
		}
		return "connect to " + target
	case policy.Env:
		return "read $" + target
	}
	return "run " + strings.Join(q.Argv, " ")
}

// explanation is the answer of explain.
func (s *screen) explanation(q policy.Question, e policy.Explanation) {
	defer s.flush()
	s.decision(q, e.Answer)
	if len(e.Layers) == 0 {
		s.line("\nno authority declares %s, so everything is allowed", q.Resource)
	}
	for _, l := range e.Layers {
		if l.Authority == policy.Builtin && l.Allow && len(l.Candidates) == 0 {
			continue // it isn't one of toolguard's own files: nobody expects it to be
		}
		s.opinion(l)
	}
}

// opinion is what one authority says, and why.
func (s *screen) opinion(l policy.LayerExplanation) {
	verdict := s.in(green, "allows")
	if !l.Allow {
		verdict = s.in(red, "denies")
	}
	s.line("\n%s %s: %s", s.in(bold, l.Authority.String()), verdict, reasonText(l.Reason))
	var rows [][]cell
	for _, k := range l.Candidates {
		mark, st := "  ", plain
		if k.Won {
			mark, st = "* ", bold
		}
		rows = append(rows, []cell{cs(st, mark+k.Rule.ID), cs(st, k.Rule.Text()), cs(faint, place(k.Rule.Place))})
		rows = append(rows, []cell{c(""), c(k.Grade + ": " + k.Why)})
	}
	s.table("  ", rows)
	if rows == nil {
		s.line("  no rule matches; the default is %s", stance(l.Stance))
	}
}

// lint is the answer of policy lint.
func (s *screen) lint(mistakes policy.Errors, warnings []policy.Warning) {
	defer s.flush()
	for _, m := range mistakes {
		s.finding(red, "error", m.Place, m.Msg, m.Hint)
	}
	for _, w := range warnings {
		s.finding(yellow, "warning", w.Place, w.Msg+" ["+w.Code+"]", w.Hint)
	}
	switch {
	case mistakes != nil:
		s.line("%s", s.in(red, count(len(mistakes), "error")))
	case warnings != nil:
		s.line("no errors, %s", count(len(warnings), "warning"))
	default:
		s.line("%s", s.in(green, "no errors, no warnings"))
	}
}

func (s *screen) finding(st style, kind string, p policy.Place, msg, hint string) {
	s.line("%s: %s: %s", s.in(bold, clean(p.String())), s.in(st, kind), clean(msg))
	if hint != "" {
		s.line("  %s", clean(hint))
	}
}

// policy is the answer of policy show.
func (s *screen) policy(p *policy.Compiled) {
	defer s.flush()
	rows := [][]cell{{c("policy"), cs(bold, p.Name)}, {c("workspace"), c(p.Workspace)}, {c("digest"), c(p.Digest)}}
	for _, f := range p.Files {
		rows = append(rows, []cell{c("file"), c(f)})
	}
	s.table("", rows)
	for _, l := range p.Layers {
		s.layer(p, l)
	}
	if rows := limitRows(p.Limits); rows != nil {
		s.line("\n%s", s.in(bold, "limits"))
		s.table("  ", rows)
	}
}

func (s *screen) layer(p *policy.Compiled, l *policy.Layer) {
	s.line("\n%s", s.in(bold, l.Authority.String()))
	for r := range policy.NumResources {
		rules := rulesOf(p, l, r)
		if rules == nil && l.Stance[r] == policy.Undeclared {
			continue
		}
		s.line("  %s, what no rule matches: %s", r, stance(l.Stance[r]))
		s.table("    ", ruleRows(rules))
	}
	if l.Protect != nil {
		s.line("  protect = %s, what trusted programs obey: no create, update, delete", protectMode(l.Mode))
		s.table("    ", ruleRows(l.Protect.Rules()))
	}
	s.settings(l)
}

// rulesOf are the rules of one layer on one resource, but for those of protect.
func rulesOf(p *policy.Compiled, l *policy.Layer, r policy.Resource) (rules []*policy.Rule) {
	for _, rule := range p.Rules {
		if rule.Authority == l.Authority && rule.Resource == r && !(l.Protect != nil && slices.Contains(l.Protect.Rules(), rule)) {
			rules = append(rules, rule)
		}
	}
	return rules
}

func ruleRows(rules []*policy.Rule) (rows [][]cell) {
	for _, r := range rules {
		rows = append(rows, []cell{c(r.ID), c(r.Text()), cs(faint, place(r.Place))})
	}
	return rows
}

func protectMode(m policy.ProtectMode) string { return [...]string{"false", "auto", "true"}[m] }

// settings are what a layer says beside its rules, where it isn't the usual.
func (s *screen) settings(l *policy.Layer) {
	var rows [][]cell
	add := func(key, value string) { rows = append(rows, []cell{c(key), c(value)}) }
	if l.Namespaces {
		add("namespaces", "true")
	}
	if l.Syscalls.Profile != "" && l.Syscalls.Profile != "default" {
		add("syscalls", l.Syscalls.Profile)
	}
	if len(l.Syscalls.Allow) > 0 {
		add("syscalls allowed", strings.Join(l.Syscalls.Allow, " "))
	}
	if len(l.Syscalls.Deny) > 0 {
		add("syscalls denied", strings.Join(l.Syscalls.Deny, " "))
	}
	if len(l.Capabilities) > 0 {
		add("capabilities", strings.Join(l.Capabilities, " "))
	}
	for _, d := range l.Degraded {
		add("may be degraded", d.ID+"  ("+d.Place.String()+")")
	}
	s.table("  ", rows)
}

func limitRows(l policy.Limits) (rows [][]cell) {
	add := func(name, value string, set bool, p policy.Place) {
		if set {
			rows = append(rows, []cell{c(name), c(value), cs(faint, place(p))})
		}
	}
	add("memory", size(l.Memory.N), l.Memory.N > 0, l.Memory.Place)
	add("pids", fmt.Sprint(l.Pids.N), l.Pids.N > 0, l.Pids.Place)
	add("cpu", fmt.Sprintf("%d%%", l.CPU.N), l.CPU.N > 0, l.CPU.Place)
	add("io", size(l.IO.N)+"/s", l.IO.N > 0, l.IO.Place)
	add("wall_time", span(l.WallTime.D), l.WallTime.D > 0, l.WallTime.Place)
	add("open_files", fmt.Sprint(l.OpenFiles.N), l.OpenFiles.N > 0, l.OpenFiles.Place)
	add("file_size", size(l.FileSize.N), l.FileSize.N > 0, l.FileSize.Place)
	return rows
}

// span is a duration without the parts that are zero.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// size is a number of bytes in the largest unit that needs no fraction.
func size(n uint64) string {
	unit := 0
	for n > 0 && n%1024 == 0 && unit < 4 {
		n /= 1024
		unit++
	}
	return fmt.Sprintf("%d%s", n, [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit])
}

// changes is the answer of policy diff.
func (s *screen) changes(changes []policy.Change) {
	defer s.flush()
	if len(changes) == 0 {
		s.line("the two policies mean the same")
		return
	}
	var rows [][]cell
	more := map[[3]string]int{} // the row of the first of those that differ in their target alone
	others := map[int]int{}
	for _, ch := range changes {
		what, rules := ch.Old+" → "+ch.New, rulePlaces(ch)
		key := [3]string{ch.Resource, what, rules}
		if row, ok := more[key]; ok && rules != "" {
			others[row]++
			continue
		}
		more[key] = len(rows)
		rows = append(rows, []cell{direction(ch), c(ch.Resource), c(ch.Target), c(what), cs(faint, rules)})
	}
	for row, n := range others {
		rows[row][2].text += fmt.Sprintf(" and %d more", n)
	}
	s.table("", rows)
}

// direction says whether a change gives or takes.
func direction(ch policy.Change) cell {
	switch {
	case ch.Widened && !ch.Narrowed:
		return cs(red, "wider")
	case ch.Narrowed && !ch.Widened:
		return cs(green, "narrower")
	}
	return cs(yellow, "different")
}

// rulePlaces are the rules that decide before and after, where there's one.
func rulePlaces(ch policy.Change) string {
	if ch.OldRule == nil && ch.NewRule == nil {
		return ""
	}
	place := func(r *policy.Rule) string {
		if r == nil {
			return "no rule"
		}
		return r.ID + " " + r.Place.String()
	}
	return place(ch.OldRule) + " → " + place(ch.NewRule)
}

// name is a file's name on a line of its own.
func (s *screen) name(file string) {
	s.line("%s", clean(file))
	s.flush()
}

// version is the answer of version.
func (s *screen) version(b build) {
	defer s.flush()
	commit := ""
	if b.Commit != "" {
		commit = ", commit " + b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			commit += " with changes"
		}
	}
	s.line("toolguard %s (%s, %s/%s%s)", clean(b.Version), b.Go, b.OS, b.Arch, commit)
}

// machine is the answer of doctor.
func (s *screen) machine(m session.Machine) {
	defer s.flush()
	var rows [][]cell
	for _, p := range m.Probes {
		rows = append(rows, []cell{triCell(p.Result), cs(bold, p.Name), c(p.Detail)})
		if p.Result == session.Yes {
			continue
		}
		rows = append(rows, []cell{c(""), c(""), c("needed by " + p.Needs)})
		if p.Fix != "" {
			rows = append(rows, []cell{c(""), c(""), cs(yellow, "to get it: "+p.Fix)})
		}
	}
	s.line("%s", s.in(bold, "what this machine has, for this user"))
	s.table("  ", rows)
	s.line("\n%s", s.in(bold, "backends"))
	if len(m.Backends) == 0 {
		s.line("  %s", s.in(red, "none: toolguard exec refuses to start anything here"))
	}
	for _, b := range m.Backends {
		state := s.in(green, "usable")
		if !b.Available {
			state = s.in(red, "not usable") + ": " + clean(b.Why)
		}
		s.line("  %s: %s", s.in(bold, clean(b.Name)), state)
		if len(b.Gaps) > 0 {
			s.line("  what it never sees, whatever the policy says:")
		}
		s.list("    ", b.Gaps)
	}
	s.line("\n'toolguard exec --policy FILE --dry-run' tells what is enforced of a policy")
}

func triCell(t session.Tri) cell {
	switch t {
	case session.Yes:
		return cs(green, "yes")
	case session.No:
		return cs(red, "no")
	}
	return cs(yellow, "unknown")
}
