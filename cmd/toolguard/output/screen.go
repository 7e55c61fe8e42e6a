// Package output writes every text of toolguard for people, one file per screen, and the JSON objects that it writes for machines.
// Names in the JSON stay; names may be added. The rules of the texts:
//
//   - Standard output carries the answer that was asked for, and nothing else. In exec it belongs to the command alone.
//   - Everything else goes to standard error and begins with "toolguard: ": lower case, no full stop at the end. What
//     belongs to it follows, indented by two spaces.
//   - A message has what happened, which rule or line of which file decided, and what to do next, in this order.
//   - Text from outside (names, paths, policy text, arguments) is written through Clean: no control character,
//     no direction mark, no broken UTF-8 reaches a terminal.
//   - Colour only on a terminal, never with NO_COLOR or TERM=dumb, and it never carries a meaning that the words don't.
//   - Columns line up. A list that could be long has an end and shows what it left out.
//   - A screen is one write, so that what other processes write doesn't tear it apart.
package output

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/printable"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// Screen is a stream that people read.
type Screen struct {
	W        io.Writer
	Terminal bool
	color    bool
	text     strings.Builder // what flush writes
}

// New returns a screen that writes to w. color is for a terminal whose user wants colours.
func New(w io.Writer, terminal, color bool) *Screen {
	return &Screen{W: w, Terminal: terminal, color: color}
}

// NewFile returns the screen on f. A character device may be something other than a terminal (/dev/null): it shows no
// colours.
func NewFile(f *os.File) *Screen {
	info, err := f.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return New(&patient{f: f}, terminal, terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

// patient writes everything to a file that another process, such as the confined command, may have made non-blocking.
type patient struct {
	f      *os.File
	failed error // the first failure
}

func (p *patient) Write(text []byte) (n int, err error) {
	for {
		m, err := p.f.Write(text[n:])
		if n += m; !errors.Is(err, unix.EAGAIN) {
			p.failed = cmp.Or(p.failed, err)
			return n, err
		}
		ready := []unix.PollFd{{Fd: int32(p.f.Fd()), Events: unix.POLLOUT}}
		if _, err := unix.Poll(ready, -1); err != nil && err != unix.EINTR {
			return n, err
		}
	}
}

// flush writes the screen. Failed returns whether that went wrong.
func (s *Screen) flush() {
	_, _ = io.WriteString(s.W, s.text.String())
	s.text.Reset()
}

// Failed returns why something couldn't be written, nil where all was.
func (s *Screen) Failed() error {
	if p, ok := s.W.(*patient); ok && p.failed != nil {
		return fmt.Errorf("the answer couldn't be written to standard output: %s", errorText(errors.Unwrap(p.failed)))
	}
	return nil
}

func (s *Screen) line(format string, args ...any) { fmt.Fprintf(&s.text, format+"\n", args...) }

// style is the appearance of a word on a terminal.
type style string

const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

func (s *Screen) in(st style, text string) string {
	if !s.color || st == plain || text == "" {
		return text
	}
	return "\x1b[" + string(st) + "m" + text + "\x1b[0m"
}

// Clean makes text from outside fit for a terminal, on one line.
func Clean(text string) string { return printable.Clean(text) }

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
func (s *Screen) table(indent string, rows [][]cell) {
	var width []int
	for _, row := range rows {
		for i, c := range row[:max(len(row)-1, 0)] {
			if i == len(width) {
				width = append(width, 0)
			}
			if n := utf8.RuneCountInString(Clean(c.text)); n <= widest {
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
			text := Clean(c.text)
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
func (s *Screen) list(indent string, items []string) {
	for _, item := range items {
		s.text.WriteString(indent + "-")
		at := len(indent) + 1
		for _, word := range strings.Fields(Clean(item)) {
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

// Count is "1 rule", "2 rules".
func Count[N int | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// prefix begins every message.
func (s *Screen) prefix() string { return s.in(bold, "toolguard:") + " " }

// Message writes a message of one line.
func (s *Screen) Message(format string, args ...any) {
	s.text.WriteString(s.prefix() + Clean(fmt.Sprintf(format, args...)) + "\n")
	s.flush()
}

// Warn writes a warning of one line.
func (s *Screen) Warn(format string, args ...any) {
	s.text.WriteString(s.prefix() + s.in(yellow, "warning: ") + Clean(fmt.Sprintf(format, args...)) + "\n")
	s.flush()
}

// position returns the position of a rule; a rule without a file always applies.
func position(p policy.Position) string {
	if p.File == "" {
		return "always"
	}
	return p.String()
}

// FileName is a file's name on a line of its own.
func (s *Screen) FileName(file string) {
	s.line("%s", Clean(file))
	s.flush()
}
