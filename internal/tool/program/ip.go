package program

import "strings"

// inspectIP is for ip: netns exec and vrf exec, whose words may be abbreviated, and files with commands.
func inspectIP(in *inspection, words []Word) {
	operands := 0
	for i, w := range words {
		text := w.certain()
		switch {
		case !w.Known && (text == "" || text[0] == '-') && operands < 2:
			in.unclear(w.Text, "may be a command with which ip runs a program, and isn't known")
			return
		case strings.HasPrefix(text, "-b") || strings.HasPrefix(text, "--b"):
			in.unclear(text, "is a file with commands for ip")
		case strings.HasPrefix(text, "-"):
		case i > 0 && text != "" && strings.HasPrefix("exec", text) && hasExec(words[i-1].Text) && len(words) > i+2:
			takeCommandElsewhere(in, words[i+2], words[i+3:])
			return
		default:
			operands++
		}
	}
}

// hasExec reports whether a word names an object of ip that has the command exec.
func hasExec(text string) bool {
	return text != "" && (strings.HasPrefix("netns", text) || strings.HasPrefix("vrf", text))
}
