package program

import "strings"

// applySed adds a piece of a script.
func applySed(in *inspection, w, shown Word) {
	if !w.Known {
		in.unclear(shown.Text, "is code for sed, and isn't known")
		return
	}
	in.sedScript = append(in.sedScript, w.Text)
}

// sedParser reads a script of GNU sed, strictly: what isn't certain to be parsed as sed does is an error.
type sedParser struct {
	in   *inspection
	text string
	at   int
	bad  bool   // it isn't certain what sed does
	code string // a command that executes something

	// Whether a delimiter within brackets ends an expression differs between versions. Scripts are read in both ways.
	brackets bool
	fails    bool // sed certainly rejects the script
}

// checkSed reports the files that a script reads and writes, and what isn't clear about it.
func (in *inspection) checkSed(script string) {
	p := &sedParser{in: in, text: script, brackets: true}
	p.script()
	if p.code == "" && !p.bad && strings.Contains(script, "[") {
		p = &sedParser{in: &inspection{out: new(Effects)}, text: script}
		if p.script(); p.fails {
			return
		}
	}
	switch {
	case p.code != "":
		in.unclear(p.code, "makes sed execute commands")
	case p.bad:
		in.unclear(script, "is code for sed that isn't understood")
	}
}

func (p *sedParser) script() {
	if strings.HasPrefix(p.text, "#n\n") {
		p.at = 2
	}
	for p.at < len(p.text) && !p.bad {
		p.command()
	}
}

func (p *sedParser) fail() { p.bad, p.fails = true, true }

// next returns the next byte, and 0 at the end.
func (p *sedParser) next() byte {
	if p.at >= len(p.text) {
		p.at++
		return 0
	}
	p.at++
	return p.text[p.at-1]
}

func (p *sedParser) peek() byte {
	if p.at >= len(p.text) {
		return 0
	}
	return p.text[p.at]
}

func (p *sedParser) skip(set string) {
	for p.at < len(p.text) && strings.IndexByte(set, p.text[p.at]) >= 0 {
		p.at++
	}
}

// command reads addresses and one command.
func (p *sedParser) command() {
	p.skip(" \t\n;}")
	if p.at >= len(p.text) {
		return
	}
	if p.address(); p.bad {
		return
	}
	if p.skip(" \t"); p.peek() == ',' {
		p.at++
		p.skip(" \t")
		p.address()
	}
	p.skip(" \t!")
	switch c := p.next(); c {
	case '{':
	case '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
		p.end()
	case 'q', 'Q', 'l', 'L':
		p.skip(" \t0123456789")
		p.end()
	case '#':
		p.line()
	case ':', 'b', 't', 'T', 'v':
		p.label()
	case 'a', 'i', 'c':
		p.addedText()
	case 'r', 'R':
		p.file(Read)
	case 'w', 'W':
		p.file(Write)
	case 'e':
		p.code = "e" + p.line()
	case 's':
		p.substitute()
	case 'y':
		d := p.delimiter()
		p.until(d, true)
		p.until(d, false)
		p.end()
	default:
		p.bad = true
	}
}

// address reads an address, if there's one.
func (p *sedParser) address() {
	switch c := p.peek(); {
	case c == '$':
		p.at++
	case isDigit(c) || c == '+' || c == '~':
		p.skip("0123456789+~")
	case c == '/':
		p.at++
		p.until('/', true)
		p.skip("IM")
	case c == '\\':
		p.at++
		p.until(p.delimiter(), true)
		p.skip("IM")
	}
}

// delimiter reads what separates the parts of s and y.
func (p *sedParser) delimiter() byte {
	c := p.next()
	if c <= ' ' || c == '\\' || c > '~' || isLetter(c) || isDigit(c) {
		p.bad = true
	}
	return c
}

// until reads to the delimiter.
func (p *sedParser) until(delimiter byte, expression bool) {
	for !p.bad {
		switch c := p.next(); {
		case c == 0:
			p.fail()
		case c == delimiter:
			return
		case c == '\\':
			if p.next() == 0 {
				p.fail()
			}
		case c == '\n' && expression:
			p.bad = true
		case c == '[' && expression && p.brackets:
			p.set()
		}
	}
}

// set reads a bracket expression after its "[". A backslash before "]" isn't certain.
func (p *sedParser) set() {
	if p.peek() == '^' {
		p.at++
	}
	if p.peek() == ']' {
		p.at++
	}
	for !p.bad {
		switch c := p.next(); {
		case c == 0:
			p.fail()
		case c == '\n':
			p.bad = true
		case c == ']':
			return
		case c == '\\':
			p.bad = p.peek() == ']' || p.peek() == '\\'
		case c == '[' && p.peek() != 0 && strings.IndexByte(":.=", p.peek()) >= 0:
			end := p.text[p.at:p.at+1] + "]"
			i := strings.Index(p.text[p.at+1:], end)
			if i < 0 {
				p.bad = true
				return
			}
			p.at += 1 + i + 2
		}
	}
}

// end requires the end of a command.
func (p *sedParser) end() {
	p.skip(" \t")
	if c := p.peek(); c != 0 && strings.IndexByte(";\n}#", c) < 0 {
		p.fail()
	}
}

// line reads the rest of the line.
func (p *sedParser) line() string {
	from := min(p.at, len(p.text))
	text, _, _ := strings.Cut(p.text[from:], "\n")
	p.at = from + len(text)
	return text
}

// label reads a label, which ends with the line; some versions also end it at a semicolon.
func (p *sedParser) label() {
	p.skip(" \t")
	for p.at < len(p.text) && strings.IndexByte("\n;}", p.text[p.at]) < 0 {
		p.at++
	}
}

// addedText reads the text of a, i and c. A backslash at the end of a line continues it.
func (p *sedParser) addedText() {
	if p.skip(" \t"); p.peek() == '\\' {
		p.at++
		p.skip(" \t")
		if p.peek() == '\n' {
			p.at++
		}
	}
	text := p.line()
	p.bad = p.bad || strings.Contains(text, `\\`) || strings.HasSuffix(text, `\`)
}

func (p *sedParser) file(a Access) {
	p.skip(" \t")
	name := p.line()
	if a == Read {
		p.in.file(Literal(name), Read)
	} else {
		applyRedirect(p.in, Literal(name), Literal(name))
	}
}

// substitute reads the parts of s, and its flags.
func (p *sedParser) substitute() {
	d := p.delimiter()
	p.until(d, true)
	p.until(d, false)
	for !p.bad {
		switch c := p.peek(); {
		case c == 'w':
			p.at++
			p.file(Write)
			return
		case c == 'e':
			p.code = "s///e"
			return
		case strings.IndexByte("gpiImM", c) >= 0 && c != 0 || isDigit(c):
			p.at++
		default:
			p.end()
			return
		}
	}
}
