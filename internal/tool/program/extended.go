package program

import "strings"

// Extended returns the effects of a command line for a shell to whose last command a program adds words that aren't known.
func Extended(line, dir Word) *Effects {
	in := &inspection{out: new(Effects), dir: dir}
	in.extended(line, line)
	return in.out
}

// extended is for such a command line. The words that are added can have any effect on a command that isn't simple.
func (in *inspection) extended(w, shown Word) {
	in.used = true
	if argv := literals(w.Text); w.Known && isPlain(w.Text) {
		switch {
		case len(argv) == 0 || argv[0].Text == ":" || argv[0].Text == "true" || argv[0].Text == "false":
			return
		case !strings.Contains(argv[0].Text, "="):
			in.call(append(argv, further))
			return
		}
	}
	in.unclear(shown.Text, "is a command line to which a program adds words")
	if w.Known {
		in.script("sh", w, shown)
	}
}
