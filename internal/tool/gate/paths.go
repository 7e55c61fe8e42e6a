package gate

import (
	"net/url"
	"slices"
	"strings"
)

// maxReadings is how many readings of one path are judged at most.
const maxReadings = 8

// readings returns what a tool could understand by a path: each must be allowed. why is a reason for which that isn't known.
func readings(written, home string) (list []string, why string) {
	list = []string{written}
	for i := 0; i < len(list); i++ {
		for _, read := range []func(string, string) (string, string){trimmed, fileURL, unescaped, atHome} {
			other, why := read(list[i], home)
			if why != "" {
				return nil, why
			}
			if other == "" || slices.Contains(list, other) {
				continue
			}
			if len(list) == maxReadings {
				return nil, "can be read in too many ways"
			}
			list = append(list, other)
		}
	}
	return list, ""
}

func trimmed(s, _ string) (string, string) { return strings.TrimSpace(s), "" }

// fileURL is the path of a URL such as file:///etc/passwd.
func fileURL(s, _ string) (string, string) {
	if len(s) < 5 || !strings.EqualFold(s[:5], "file:") {
		return "", ""
	}
	rest, ok := strings.CutPrefix(s[5:], "//")
	if !ok {
		return s[5:], ""
	}
	host, path, ok := strings.Cut(rest, "/")
	switch {
	case !ok && host != "localhost":
		return rest, "" // file://name, which some programs take for a path
	case host != "" && !strings.EqualFold(host, "localhost") && host != ".." && host != "." && host != "~":
		return "", "names a file of another machine"
	case host == ".." || host == "." || host == "~":
		return rest, ""
	}
	return "/" + path, ""
}

// unescaped replaces percent-encoded characters.
func unescaped(s, _ string) (string, string) {
	if !strings.Contains(s, "%") {
		return "", ""
	}
	if other, err := url.PathUnescape(s); err == nil {
		return other, ""
	}
	var b strings.Builder // a % that encodes nothing stays
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := url.PathUnescape(s[i : i+3]); err == nil {
				b.WriteString(c)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}

// atHome replaces ~ and $HOME. Another variable, and another user's home, aren't known.
func atHome(s, home string) (string, string) {
	rest, ok := "", false
	for _, prefix := range []string{"~", "$HOME", "${HOME}"} {
		if rest, ok = strings.CutPrefix(s, prefix); ok && (rest == "" || rest[0] == '/') {
			break
		}
		ok = false
	}
	switch {
	case ok && home == "":
		return "", "is relative to a home that isn't known"
	case ok:
		return home + rest, ""
	case strings.HasPrefix(s, "~"):
		return "", "names another user's home"
	case strings.Contains(s, "$") && refersToVariable(s):
		return "", "has a variable in it"
	case strings.HasPrefix(s, `\\`):
		return "", "is the name of a network folder"
	case strings.Contains(s, "..") && strings.ContainsAny(s, "*?[{("):
		return "", "is a pattern that can lead out of its folder"
	}
	return "", ""
}

// refersToVariable reports whether a path has $NAME or ${ in it.
func refersToVariable(s string) bool {
	for i := range len(s) - 1 {
		if c := s[i+1]; s[i] == '$' && (c == '{' || c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z') {
			return true
		}
	}
	return false
}

// absolute joins a path to a folder. It doesn't clean it: what ".." means depends on symlinks.
func absolute(dir, path string) string {
	if strings.HasPrefix(path, "/") || dir == "" {
		return path
	}
	if path == "" {
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/" + path
}

// scheme is the scheme of a URL with "//", in lower case; "" for none. data: and about: have no address.
func scheme(s string) string {
	before, _, ok := strings.Cut(strings.TrimSpace(s), ":")
	if !ok || before == "" || strings.Trim(strings.ToLower(before), "abcdefghijklmnopqrstuvwxyz0123456789+-.") != "" {
		return ""
	}
	before = strings.ToLower(before)
	if before == "data" || before == "about" || before == "blob" || strings.HasPrefix(strings.TrimSpace(s)[len(before):], "://") {
		return before
	}
	return ""
}
