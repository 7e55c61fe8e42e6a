package program

import "strings"

// checkAwk reports code for awk that may run a program, or write a file. It takes the text apart into strings, regular expressions and the
// rest, as ">" and "|" have other meanings there; where that isn't certain, the code isn't clear.
func (in *inspection) checkAwk(w, shown Word) {
	in.used = true
	if !w.Known || !awkIsClear(w.Text) {
		in.unclear(shown.Text, "is code for "+in.name)
	}
}

func awkIsClear(text string) bool {
	for _, name := range []string{"system", "getline", "@", "extension", "close", "fflush", "ARGV", "SYMTAB", "PROCINFO"} {
		if strings.Contains(text, name) {
			return false
		}
	}
	a := awkLexer{text: text}
	for a.at < len(text) {
		if !a.token() {
			return false
		}
	}
	return true
}

type awkLexer struct {
	text          string
	at            int
	last          byte // the last byte that's no space
	braces, round int
}

// token reads one token, and reports whether it's harmless.
func (a *awkLexer) token() bool {
	c := a.text[a.at]
	a.at++
	switch c {
	case ' ', '\t':
		return true
	case '#':
		if i := strings.IndexByte(a.text[a.at:], '\n'); i >= 0 {
			a.at += i
		} else {
			a.at = len(a.text)
		}
		return true
	case '\\':
		return false
	case '"':
		a.last = c
		return a.quoted('"')
	case '/':
		return a.slash()
	case '|':
		if a.at == len(a.text) || a.text[a.at] != '|' || strings.HasPrefix(a.text[a.at:], "||") {
			return false
		}
		a.at++
	case '>':
		if a.braces > 0 && a.round == 0 {
			return false
		}
	case '{':
		a.braces++
	case '}':
		a.braces--
	case '(':
		a.round++
	case ')':
		a.round--
	}
	a.last = c
	return a.braces >= 0 && a.round >= 0 && c < 0x80
}

// quoted reads to the end of a string or a regular expression.
func (a *awkLexer) quoted(end byte) bool {
	from := a.at
	for a.at < len(a.text) {
		c := a.text[a.at]
		a.at++
		switch c {
		case end:
			// A slash within brackets doesn't end the expression for each awk.
			inside := a.text[from : a.at-1]
			return end == '"' || strings.LastIndexByte(inside, '[') <= strings.LastIndexByte(inside, ']')
		case '\\':
			if a.at++; end == '"' && a.at <= len(a.text) && a.text[a.at-1] == '\n' {
				return false
			}
		case '\n':
			return false
		}
	}
	return false
}

// slash reads a division or a regular expression. After a name or a parenthesis it can be either: it's clear if there's no other slash.
func (a *awkLexer) slash() bool {
	if isDigit(a.last) {
		a.last = '/' // a division: no name after which an expression follows ends with a digit
		return true
	}
	if a.last == 0 || strings.IndexByte("({,;!~&|\n", a.last) >= 0 {
		a.last = '/'
		return a.quoted('/')
	}
	a.last = '/'
	return !strings.Contains(a.text[a.at:], "/")
}
