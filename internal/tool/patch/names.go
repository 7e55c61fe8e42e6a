package patch

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
)

// devNull is the name of a file that doesn't exist, on one side of a diff.
const devNull = "/dev/null"

// name is the name on one side of a diff.
type name struct {
	given    bool
	null     bool     // /dev/null
	epoch    bool     // a time of 1970, which diff writes for a file that doesn't exist
	variants []string // as different programs read it
}

var (
	isoTime   = lazy.Regexp(`[ \t]+\d{4}-\d\d-\d\d[ T]\d\d:\d\d.*$`)
	epochTime = lazy.Regexp(`[ \t](?:1970-01-01|1969-12-31)[ T]|[ \t](?:Thu Jan  ?1|Wed Dec 31) .*(?:1970|1969)`)
)

// parseName reads what follows "--- " or "+++ ".
func (s *scan) parseName(rest string) name {
	n := name{given: true, epoch: epochTime().MatchString(rest)}
	rest = strings.TrimLeft(rest, " \t")
	if strings.HasPrefix(rest, `"`) {
		text, _ := s.unquote(rest)
		n.variants = []string{text}
		return n
	}
	tabbed, _, tab := strings.Cut(rest, "\t")
	variants := []string{strings.TrimRight(tabbed, " ")}
	if !tab {
		first, _, _ := strings.Cut(rest, " ")
		variants = append(variants, first, rest, isoTime().ReplaceAllString(rest, ""))
	}
	for _, v := range variants {
		if v == devNull {
			n.null = true
		} else {
			n.variants = append(n.variants, v)
		}
	}
	if n.null {
		n.variants = nil
	}
	slices.Sort(n.variants)
	n.variants = slices.Compact(n.variants)
	return n
}

// unquote reads a name in C's notation, as git and GNU patch write one with special characters, and returns what follows it.
func (s *scan) unquote(text string) (plain, rest string) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:]
		case c != '\\':
			b.WriteByte(c)
		case i+3 < len(text) && text[i+1] >= '0' && text[i+1] <= '3' && octal(text[i+2]) && octal(text[i+3]):
			b.WriteByte((text[i+1]-'0')<<6 | (text[i+2]-'0')<<3 | (text[i+3] - '0'))
			i += 3
		case i+1 < len(text) && strings.IndexByte(escapes, text[i+1]) >= 0:
			b.WriteByte(escaped[strings.IndexByte(escapes, text[i+1])])
			i++
		default:
			s.fail("the quoted name %.60q can't be read", text)
			return "", ""
		}
	}
	s.fail("the quoted name %.60q has no end", text)
	return "", ""
}

const (
	escapes = `abfnrtv"\`
	escaped = "\a\b\f\n\r\t\v\"\\"
)

func octal(c byte) bool { return c >= '0' && c <= '7' }

// gitNames reads the names of a line "diff --git". Where blanks make it ambiguous, the two names are equal but for their first folder;
// ok is false if they aren't.
func (s *scan) gitNames(rest string) (before, after string, ok bool) {
	switch {
	case len(rest) > longestNames:
		s.fail("the names of diff --git are longer than %d bytes", longestNames)
		return "", "", false
	case strings.HasPrefix(rest, `"`):
		before, after = s.unquote(rest)
		after = strings.TrimLeft(after, " ")
		if strings.HasPrefix(after, `"`) {
			after, _ = s.unquote(after)
		}
		return before, after, after != ""
	case strings.HasSuffix(rest, `"`) && strings.Contains(rest, ` "`):
		i := strings.Index(rest, ` "`)
		after, _ = s.unquote(rest[i+1:])
		return rest[:i], after, true
	}
	if before, after, ok = strings.Cut(rest, " "); !strings.Contains(after, " ") {
		return before, after, ok
	}
	middle := -1 // the blank with as many before it as behind it
	for range strings.Count(rest, " ")/2 + 1 {
		middle += 1 + strings.IndexByte(rest[middle+1:], ' ')
	}
	before, after = rest[:middle], rest[middle+1:]
	return before, after, withoutFolder(before) == withoutFolder(after)
}

// longestNames is how long the two names of a line may be.
const longestNames = 16 << 10

func withoutFolder(path string) string {
	_, rest, ok := strings.Cut(path, "/")
	if !ok {
		return path
	}
	return rest
}

// gitPrefixes reports whether the two names of a file have the prefixes that git adds to them. Where only one file exists, its name has
// the prefix of its side.
func gitPrefixes(before, after *name) bool {
	switch a, b := before.prefix(), after.prefix(); {
	case before.null:
		return b == "b/"
	case after.null:
		return a == "a/"
	default:
		return a != b && a != "" && b != ""
	}
}

// prefix returns the prefix of git that all readings of a name have.
func (n *name) prefix() string {
	if len(n.variants) == 0 {
		return ""
	}
	p := n.variants[0][:min(2, len(n.variants[0]))]
	for _, v := range n.variants {
		if !strings.HasPrefix(v, p) || len(v) < 3 {
			return ""
		}
	}
	if p != "a/" && p != "b/" {
		return ""
	}
	return p
}

// paths returns the paths that programs read in a name. stripped is whether the prefix is certainly one of git.
func (n *name) paths(stripped bool) (paths []string) {
	for _, v := range n.variants {
		short := ""
		if i := strings.IndexByte(v, '/'); i >= 0 {
			short = v[i+1:]
		}
		if !stripped {
			paths = append(paths, v)
		}
		if short == "" {
			continue
		}
		paths = append(paths, short)
		if relative := strings.TrimLeft(short, "/"); relative != short && relative != "" { // "a//etc": some programs strip both slashes
			paths = append(paths, relative)
		}
	}
	return paths
}
