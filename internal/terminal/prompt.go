package terminal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/calls/ask"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// prompt is the question about one approval.
type prompt struct {
	approval message.Approval
	keys     keys
	page     int  // 0: the summary; then the pages of all
	confirm  bool // allow always was chosen, and y is awaited
	deciding bool
	hint     string
}

// answer is what a key decides.
type answer int

const (
	nothing answer = iota
	redraw
	allowOnce
	allowAlways
	deny
	later
	allLater
)

// press takes a key that has settled.
func (p *prompt) press(key byte) answer {
	p.hint = ""
	confirm := p.confirm
	p.confirm = false
	offers := func(d string) bool { return slices.Contains(p.approval.Offers, d) }
	switch {
	case p.deciding:
		return nothing
	case confirm && key == 'y':
		return allowAlways
	case confirm:
		p.hint = "not allowed: only y confirms it"
	case key == 'o' && offers(message.AllowOnce):
		return allowOnce
	case key == 'a' && offers(message.AllowAlways):
		p.confirm = true
	case key == 'a':
		p.hint = "always isn't offered for this one"
	case key == 'd':
		return deny
	case key == 'l':
		return later
	case key == 'x':
		return allLater
	default:
		return nothing
	}
	return redraw
}

// frame is the prompt on a screen. Every line is cut to the width; nothing of the approval is at the beginning of a line.
func (p *prompt) frame(width, height, number, of int, now time.Time) string {
	width, height = max(width, 20), max(height, 5)
	head := "toolguard asks"
	if of > 1 {
		head += fmt.Sprintf(" (%d of %d)", number, of)
	}
	head += ", " + ask.Left(&p.approval, now)
	foot := p.foot(width)
	body, page, pages := p.body(width, height-2-len(foot))
	if p.page = page; pages > 1 && page > 0 {
		head += fmt.Sprintf(", page %d of %d", page, pages)
	}
	lines := append([]string{"\x1b[1m" + ask.Cut(head, width) + "\x1b[0m", ""}, body...)
	for len(lines) < height-len(foot) {
		lines = append(lines, "")
	}
	lines = append(lines[:height-len(foot)], foot...)
	var b strings.Builder
	for i, line := range lines {
		fmt.Fprintf(&b, "\x1b[%d;1H\x1b[K%s", i+1, line)
	}
	return b.String()
}

// foot are the keys.
func (p *prompt) foot(width int) []string {
	if p.deciding {
		return []string{"deciding …"}
	}
	if p.confirm {
		return ask.Wrap("allow this from now on, without asking? y: yes; any other key: no", width)
	}
	var words []string
	for _, o := range [][2]string{{message.AllowOnce, "o allow once"}, {message.AllowAlways, "a allow always"}} {
		if slices.Contains(p.approval.Offers, o[0]) {
			words = append(words, o[1])
		}
	}
	view := "v all of it"
	if p.page > 0 {
		view = "v next page"
	}
	words = append(words, "d deny", "l later", "x all later", view)
	foot := []string{""}
	for _, w := range words {
		last := &foot[len(foot)-1]
		switch {
		case *last == "":
			*last = w
		case ask.Width(*last+"   "+w) <= width:
			*last += "   " + w
		default:
			foot = append(foot, w)
		}
	}
	if p.hint != "" {
		foot = append([]string{ask.Cut(p.hint, width)}, foot...)
	}
	return foot
}

// nameWidth is the column in which the text of an approval begins.
const nameWidth = 11

// body are the lines about the approval: a summary, or a page of all of it.
func (p *prompt) body(width, height int) (lines []string, page, pages int) {
	height = max(height, 1)
	var all []string
	cut := false
	for _, r := range ask.Rows(&p.approval) {
		name, space := r.Name, width-nameWidth
		parts := []string{ask.Cut(r.Text, space)}
		cut = cut || parts[0] != r.Text
		if p.page > 0 || r.Warn {
			parts = ask.Wrap(r.Text, space)
		}
		for _, text := range parts {
			if r.Warn {
				text = "\x1b[1m" + text + "\x1b[0m"
			}
			all = append(all, fmt.Sprintf("%-*s%s", nameWidth, name, text))
			name = ""
		}
	}
	if p.page == 0 {
		remark := func(text string) string {
			return strings.Repeat(" ", nameWidth) + ask.Cut(text, width-nameWidth)
		}
		if len(all) > height {
			all = append(all[:height-1], remark(fmt.Sprintf("%d more lines: v shows them", len(all)-height+1)))
		} else if cut && len(all) < height {
			all = append(all, remark("… is where a line is cut: v shows all"))
		}
		return all, 0, 1
	}
	pages = (len(all) + height - 1) / height
	if p.page > pages { // after the last page, the summary
		p.page = 0
		return p.body(width, height)
	}
	return all[(p.page-1)*height : min(p.page*height, len(all))], p.page, pages
}
