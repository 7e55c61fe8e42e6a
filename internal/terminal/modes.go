package terminal

import (
	"slices"
	"strconv"
	"strings"
)

// tracked are the private modes (DECSET) that change what a prompt shows or what its keys send, in the order in which they're set again.
var tracked = []int{1, 3, 5, 6, 9, 12, 45, 47, 66, 69, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 1047, 1049, 2004, 2026, 2031}

// modes follows the modes that the command sets. It reads what the command writes, in pieces of any size, and remembers a bounded amount.
type modes struct {
	on        map[int]bool
	cursor    bool   // hidden
	noWrap    bool   // CSI ? 7 l
	otherKeys string // CSI > 4 ; N m
	state     sequence
	params    []byte
}

// alternate reports whether the command shows the alternate screen.
func (m *modes) alternate() bool { return m.on[47] || m.on[1047] || m.on[1049] }

func (m *modes) write(p []byte) {
	for _, b := range p {
		m.parse(b)
	}
}

func (m *modes) parse(b byte) {
	switch {
	case b == 0x18 || b == 0x1a:
		m.state = ground
		return
	case m.state == text:
		switch b {
		case 0x07:
			m.state = ground
		case 0x1b:
			m.state = textEscape
		}
		return
	case b == 0x1b:
		m.state = escape
		return
	}
	switch m.state {
	case escape, textEscape:
		m.state, m.params = ground, m.params[:0]
		switch b {
		case '[':
			m.state = control
		case ']', 'P', 'X', '^', '_':
			m.state = text
		case 'c': // a complete reset
			*m = modes{}
		}
	case control:
		switch {
		case b < 0x20: // is executed within the sequence
		case b < 0x40:
			if len(m.params) < 64 {
				m.params = append(m.params, b)
			}
		default:
			m.state = ground
			m.sequence(string(m.params), b)
		}
	}
}

// sequence is a whole control sequence.
func (m *modes) sequence(params string, final byte) {
	if list, ok := strings.CutPrefix(params, "?"); ok && (final == 'h' || final == 'l') {
		for p := range strings.SplitSeq(list, ";") {
			n, err := strconv.Atoi(p)
			if err == nil {
				m.set(n, final == 'h')
			}
		}
	}
	if n, ok := strings.CutPrefix(params, ">4;"); ok && final == 'm' && len(n) == 1 && n[0] >= '0' && n[0] <= '9' {
		m.otherKeys = n
	}
}

func (m *modes) set(n int, on bool) {
	switch {
	case n == 7:
		m.noWrap = !on
	case n == 25:
		m.cursor = !on
	case slices.Contains(tracked, n):
		if m.on == nil {
			m.on = map[int]bool{}
		}
		m.on[n] = on
	}
}

// begin is what ends the command's modes and begins a prompt. First it ends an unfinished sequence, VT52 mode, printing, and frozen updates.
func (m *modes) begin() string {
	var b strings.Builder
	b.WriteString("\x18\x1b\\\x1b<\x1b[4i\x1b[?2026l")
	if !m.alternate() {
		b.WriteString("\x1b[?1049h") // keeps the screen, the cursor and its attributes
	}
	b.WriteString("\x1b[>0u") // plain keys, in terminals with the protocol of kitty
	for _, n := range tracked {
		if n != 3 && n != 47 && n != 1047 && n != 1049 {
			b.WriteString("\x1b[?" + strconv.Itoa(n) + "l")
		}
	}
	b.WriteString("\x1b[>4;0m\x1b(B\x0f\x1b[0m\x1b[r\x1b[4l\x1b[20l\x1b[?7l\x1b[?25l\x1b[?2004h") // ASCII, no margins, no insertion, no wrapping
	b.WriteString("\x1b]104\x1b\\\x1b]110\x1b\\\x1b]111\x1b\\\x1b]117\x1b\\\x1b]119\x1b\\")       // the terminal's own colours
	b.WriteString("\x1b[H\x1b[2J")
	return b.String()
}

// end removes the prompt and sets the command's modes again.
func (m *modes) end() string {
	var b strings.Builder
	b.WriteString("\x1b[0m\x1b[H\x1b[2J\x1b[?2004l\x1b[?7h\x1b[<u")
	if !m.alternate() {
		b.WriteString("\x1b[?1049l")
	}
	for _, n := range tracked {
		if m.on[n] && n != 3 && n != 47 && n != 1047 && n != 1049 {
			b.WriteString("\x1b[?" + strconv.Itoa(n) + "h")
		}
	}
	if m.noWrap {
		b.WriteString("\x1b[?7l")
	}
	if !m.cursor {
		b.WriteString("\x1b[?25h")
	}
	if m.otherKeys != "" {
		b.WriteString("\x1b[>4;" + m.otherKeys + "m")
	}
	return b.String()
}

// reset is what leaves the terminal usable after a command that was killed.
func (m *modes) reset() string {
	var b strings.Builder
	for _, n := range tracked {
		if m.on[n] && n != 3 {
			b.WriteString("\x1b[?" + strconv.Itoa(n) + "l")
		}
	}
	if m.cursor {
		b.WriteString("\x1b[?25h")
	}
	if m.noWrap {
		b.WriteString("\x1b[?7h")
	}
	return b.String()
}
