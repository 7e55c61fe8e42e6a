package program

import "strings"

// certain returns how the word begins for certain: all of it, if it's known.
func (w Word) certain() string {
	if w.Known {
		return w.Text
	}
	return w.Prefix
}

// after returns the word without its first n bytes, which are certain.
func (w Word) after(n int) Word {
	if w.Known {
		return Literal(w.Text[n:])
	}
	w.Prefix = w.Prefix[n:]
	return w
}

// splits reports whether the word may become several of which only the first has its prefix: it has an expansion, not only a pattern.
func (w Word) splits() bool { return w.Many && strings.ContainsAny(w.Text, "$`") }

// maxPath is PATH_MAX: longer names of folders aren't joined, so that many of them take no quadratic time.
const maxPath = 4096

// inFolder returns a folder that's named from within another one.
func inFolder(dir, w Word) Word {
	switch {
	case strings.HasPrefix(w.certain(), "/"), dir.Known && dir.Text == "", !dir.Known && dir.Text == "" && dir.Prefix == "":
		return w
	case len(dir.Text)+len(w.Text) > maxPath:
		return Word{Text: "a folder with a very long name"}
	case !w.Known || !dir.Known:
		return Word{Text: dir.Text + "/" + w.Text}
	case w.Text == "" || w.Text == ".":
		return dir
	}
	return Literal(strings.TrimSuffix(dir.Text, "/") + "/" + w.Text)
}

// isPlain reports whether text has only characters that no shell, and no program that splits a command line by rules of its own, treats as
// special.
func isPlain(text string) bool {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if !isLetter(c) && !isDigit(c) && strings.IndexByte(" _./:,+@%=-", c) < 0 {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// assignment splits NAME=VALUE; ok is false if the word doesn't certainly begin with the name of a variable and "=".
func assignment(w Word) (v Variable, ok bool) {
	text := w.certain()
	i := 0
	for i < len(text) && (text[i] == '_' || isLetter(text[i]) || i > 0 && isDigit(text[i])) {
		i++
	}
	if i == 0 || i == len(text) || text[i] != '=' {
		return v, false
	}
	return Variable{Name: text[:i], Value: w.after(i + 1)}, true
}

// baseName returns a path's last component.
func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// literals returns the words of a text that spaces separate.
func literals(text string) (words []Word) {
	for f := range strings.FieldsSeq(text) {
		words = append(words, Literal(f))
	}
	return words
}

// further stands for arguments that a program adds to a command.
var further = Word{Text: "further arguments", Many: true}
