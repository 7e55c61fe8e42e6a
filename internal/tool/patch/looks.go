package patch

import (
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
)

var (
	beginsPatch = lazy.Regexp(`^(?:diff --git |From [0-9a-f]{40} |commit [0-9a-f]{40}\b|@@ -\d|diff -)`)
	fence       = lazy.Regexp("^(?:```|~~~)")
)

// maxHead is how much of a text Looks reads, in bytes.
const maxHead = 64 << 10

// Looks reports whether a text begins like a patch: with a header of either format, also indented, within a fence of Markdown, or in
// a here-document.
func Looks(text string) bool {
	text = strings.TrimPrefix(text, "\ufeff")
	text = text[:min(len(text), maxHead)]
	first, rest := nextLine(text)
	for range 2 {
		if fence().MatchString(first) || heredocStart().MatchString(first) {
			first, rest = nextLine(rest)
		}
	}
	second, _ := nextLine(rest)
	if applyMark().MatchString(first) || applyFile().MatchString(first) {
		return true
	}
	if strings.Contains(first, "<<") && applyMark().MatchString(second) {
		return true
	}
	_, isOld := after(first, "---")
	_, isNew := after(second, "+++")
	_, isContext := after(first, "***")
	_, isContextNew := after(second, "---")
	_, isIndex := after(first, "Index:")
	if isIndex && strings.HasPrefix(second, "===") || isOld && isNew || isContext && isContextNew {
		return true
	}
	return beginsPatch().MatchString(strings.TrimLeft(first, "X"))
}

// nextLine returns the first line that isn't empty, without the blanks around it, and what follows it.
func nextLine(text string) (line, rest string) {
	for text != "" && line == "" {
		line, text, _ = strings.Cut(text, "\n")
		line = strings.TrimSpace(line)
	}
	return line, text
}
