package program

import "strings"

// inspectShell parses the options of a shell as bash, dash and the others of that family do: letters may follow -c, and -o takes the next
// word, not the rest of its own.
func inspectShell(in *inspection, words []Word) {
	command, input := false, false
	for len(words) > 0 {
		w := words[0]
		text := w.certain()
		if w.splits() || !w.Known && (text == "" || text[0] == '-' || text[0] == '+') {
			in.unclear(w.Text, "may be an option with which "+in.name+" runs a command, and isn't known")
			return
		}
		if text == "" || text[0] != '-' && text[0] != '+' {
			break
		}
		words = words[1:]
		if text == "-" || text == "--" {
			break
		}
		values, ok := shellLong[strings.TrimLeft(text, "-")]
		if !ok {
			if values, ok = in.shellLetters(text, &command, &input); !ok {
				return
			}
		}
		for _, v := range words[:min(values, len(words))] {
			if strings.Contains(text, "file") {
				in.unclear(v.Text, "is loaded by "+in.name+", and is code")
			} else if v.Many {
				in.unclear(v.Text, "may be several words, of which one is a command")
			}
		}
		words = words[min(values, len(words)):]
	}
	switch {
	case len(words) == 0 && !command, input && !command:
		in.unclear(in.name, nones["stdin"])
	case len(words) == 0:
	case command:
		in.script(in.name, words[0], words[0])
	default:
		takeScript(in, words[0], nil)
	}
}

// shellLong are bash's long options, which may also have a single dash, and how many values each has.
var shellLong = map[string]int{
	"rcfile": 1, "init-file": 1, "login": 0, "norc": 0, "noprofile": 0, "posix": 0, "noediting": 0, "restricted": 0, "verbose": 0,
	"version": 0, "help": 0, "debugger": 0, "debug": 0, "dump-strings": 0, "dump-po-strings": 0, "pretty-print": 0,
}

// shellLetters parses bundled options, and returns how many of the next words are their values.
func (in *inspection) shellLetters(text string, command, input *bool) (values int, ok bool) {
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == 'c':
			*command = true
		case c == 's':
			*input = true
		case (c == 'o' || c == 'O') && i == len(text)-1:
			values = 1
		case strings.IndexByte("abefghiklmnprtuvxBCEHP", c) < 0:
			in.unclear(text, "is an option of "+in.name+" that isn't understood")
			return 0, false
		}
	}
	return values, true
}

// inspectParallel is for GNU parallel, which makes a command line for a shell of its words and of each input.
func inspectParallel(in *inspection, words []Word) {
	var text []string
	for _, w := range words {
		if w.Known && strings.HasPrefix(w.Text, ":::") {
			break
		}
		switch {
		case !w.Known || len(text) == 0 && strings.HasPrefix(w.Text, "-"):
			in.unclear(w.Text, "is an option of parallel, or a part of its command line")
			return
		case w.Text == "{}":
			text = append(text, `"$1"`)
		case strings.ContainsAny(w.Text, "{}"):
			in.unclear(w.Text, "is a part of a command line that parallel completes")
			return
		default:
			text = append(text, w.Text)
		}
	}
	if len(text) == 0 {
		in.unclear(in.name, "reads its commands from its input")
		return
	}
	all := strings.Join(text, " ")
	if !strings.Contains(all, `"$1"`) {
		all += ` "$1"`
	}
	in.script("sh", Literal(all), words[0])
}

// inspectExpression is for programs whose operands are code if there are any.
func inspectExpression(in *inspection, words []Word) {
	for _, w := range words {
		if !w.Known || !strings.HasPrefix(w.Text, "-") {
			in.unclear(w.Text, "is code for "+in.name)
			return
		}
	}
}
