package fspath

import (
	"fmt"
	"path"
	"strings"
)

// Misread returns why a literal path is probably not intended literally, and the right notation; msg is "" for any other path.
// denies is for a rule without any capability, which a misread path would make useless.
func Misread(written string, denies bool) (msg, hint string) {
	switch name := variable(written); {
	case name != "":
		return fmt.Sprintf("%q has a variable in it, %s, and variables aren't expanded", written, name), insteadOf(written, name)
	case strings.HasPrefix(written, "file:"), strings.Contains(written, "://"):
		return fmt.Sprintf("%q is a URL, and not a path", written), fmt.Sprintf("write %q", pathOf(written))
	case strings.TrimSpace(written) != written:
		return fmt.Sprintf("%q begins or ends with a blank", written), fmt.Sprintf("write %q", strings.TrimSpace(written))
	case denies && strings.ContainsAny(written, "*?["):
		return fmt.Sprintf("path %q is literal, so its wildcard denies nothing", written), asMatch(written)
	case denies && encoded(written):
		return fmt.Sprintf("path %q is literal, so its percent-encoded characters deny nothing", written), "write the characters themselves"
	}
	return "", ""
}

// variable returns the first reference to a variable in a path, as written: $NAME, ${…} or %NAME%.
func variable(s string) string {
	for i := range len(s) {
		switch {
		case strings.HasPrefix(s[i:], "${"):
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				return s[i:]
			}
			return s[i : i+end+1]
		case s[i] == '$' && nameLength(s[i+1:]) > 0:
			return s[i : i+1+nameLength(s[i+1:])]
		case s[i] == '%':
			if n := nameLength(s[i+1:]); n > 0 && strings.HasPrefix(s[i+1+n:], "%") {
				return s[i : i+n+2]
			}
		}
	}
	return ""
}

// nameLength returns the length of the variable's name at the start of a text.
func nameLength(s string) int {
	for i := range len(s) {
		c := s[i] | 0x20
		if !(c >= 'a' && c <= 'z' || s[i] == '_' || i > 0 && s[i] >= '0' && s[i] <= '9') {
			return i
		}
	}
	return len(s)
}

// insteadOf returns what to write where a path refers to a variable.
func insteadOf(written, name string) string {
	rest, first := strings.CutPrefix(written, name)
	rest = strings.TrimLeft(rest, "/")
	switch strings.Trim(strings.ToUpper(name), "${}%") {
	case "HOME", "USERPROFILE":
		if first {
			return fmt.Sprintf("the home is ~/: write %q", "~/"+rest)
		}
	case "PWD", "WORKSPACE":
		if first {
			return fmt.Sprintf("relative paths are in the workspace: write %q", path.Join(".", rest))
		}
	case "TMPDIR":
		return "the session's own TMPDIR is granted by runtime = true: leave the rule out"
	}
	return "write its value as a path; ~/ is the home"
}

// pathOf returns the path in the URL of a file.
func pathOf(url string) string {
	_, rest, _ := strings.Cut(url, ":")
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		if i := strings.IndexByte(after, '/'); i >= 0 {
			return after[i:]
		}
		return after
	}
	return rest
}

// asMatch returns how a path with a wildcard is written.
func asMatch(written string) string {
	above, last := path.Split(written)
	above = strings.TrimSuffix(above, "/")
	if strings.Trim(last, "*") == "" && !strings.ContainsAny(above, Wildcards) {
		switch {
		case above == "" && written[0] == '/':
			above = "/"
		case above == "":
			above = "."
		}
		return fmt.Sprintf("a path is about all beneath it: write path = %q", above)
	}
	match := strings.TrimPrefix(above+"/**/"+last, "/")
	if strings.HasPrefix(written, "/") && above == "" {
		match = "/" + match
	}
	if _, err := ParsePattern(match); err != nil {
		return PatternForms
	}
	return fmt.Sprintf("a pattern goes into match: match = %q", match)
}

// encoded reports whether a text has a percent-encoded byte in it.
func encoded(s string) bool {
	for i := range len(s) {
		if s[i] == '%' && len(s) > i+2 && isHex(s[i+1]) && isHex(s[i+2]) {
			return true
		}
	}
	return false
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }
