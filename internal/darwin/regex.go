package darwin

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Pieces of regular expressions. A name can contain every character but a slash, so that "." isn't used: it may not match a line break.
const (
	anyName  = "/[^/]+"
	anyNames = "(/[^/]+)*"
	end      = "(/|$)"
)

// namesRegex matches names as they are written, or in any case and however a volume composes their letters.
func namesRegex(names string, anyCase bool) string {
	var b strings.Builder
	if !anyCase {
		return quoted(names)
	}
	var letters norm.Iter
	for letters.InitString(norm.NFD, names); !letters.Done(); {
		letter := string(letters.Next()) // with its marks
		switch c := letter[0]; {
		case len(letter) > 1:
			b.WriteString("(" + strings.Join(variants(letter), "|") + ")")
		case c|0x20 == 'k':
			b.WriteString("([kK]|\u212a)") // the Kelvin sign
		case c|0x20 == 's':
			b.WriteString("([sS]|\u017f)") // the long s
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			b.WriteString("[" + string(c|0x20) + string(c&^0x20) + "]")
		default:
			b.WriteString(quoted(letter))
		}
	}
	return b.String()
}

// quoted returns names as a regular expression has them.
func quoted(names string) string {
	var b strings.Builder
	for _, c := range []byte(names) {
		if strings.IndexByte(`.*+?()[]{}^$|\`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// variants returns the regular expressions of a letter with its marks, in each case, composed and decomposed.
func variants(letter string) (list []string) {
	first, n := utf8.DecodeRuneInString(letter)
	for r := first; ; {
		for _, form := range []norm.Form{norm.NFD, norm.NFC} {
			if v := quoted(form.String(string(r) + letter[n:])); !slices.Contains(list, v) {
				list = append(list, v)
			}
		}
		if r = unicode.SimpleFold(r); r == first {
			return list
		}
	}
}

// pathRegex matches a path, and everything beneath, in any case.
func pathRegex(path string) string { return "^" + namesRegex(path, true) + end }

// above matches as many components as a path has.
func above(path string) string { return "^" + strings.Repeat(anyName, fspath.Depth(path)) }

// suffix is what a pattern matches beneath a point.
type suffix struct {
	direct bool   // directly beneath; else at any depth
	folded bool   // only if the case of names is ignored
	last   string // "" for what is directly beneath, which has no wildcard
	names  string // with slashes
}

func (s suffix) regex(anyCase bool) string {
	re := ""
	switch before, ok := strings.CutSuffix(s.last, "*"); {
	case ok:
		re = namesRegex(before, anyCase) + "[^/]*"
	case strings.HasPrefix(s.last, "*"):
		re = "[^/]*" + namesRegex(s.last[1:], anyCase)
	default:
		re = namesRegex(s.last, anyCase)
	}
	if s.names == "" {
		return re
	}
	return strings.TrimPrefix(re+"/", "/") + namesRegex(s.names, anyCase)
}

// suffixesOf returns what a pattern matches strictly beneath a point, which is its BASE or lies beneath that.
func suffixesOf(e *fspath.Entry, point string) (list []suffix) {
	list = append(list, suffix{last: e.Last, names: strings.Join(e.Names, "/")})
	parts := components(point)
	for n := 1; n <= len(e.Names) && n <= len(parts)-fspath.Depth(e.Path); n++ {
		begins, exactly := beginsWith(e, parts[len(parts)-n:])
		if begins {
			list = append(list, suffix{direct: true, folded: !exactly, names: strings.Join(e.Names[n-1:], "/")})
		}
	}
	return list
}

// partsOf returns the folders that are a part of a pattern, as .git is of **/.git/hooks.
func partsOf(e *fspath.Entry, point string) (list []suffix) {
	for n := range e.Names {
		part := *e
		part.Names = e.Names[:n]
		list = append(list, suffixesOf(&part, point)...)
	}
	return list
}

// beginsWith reports whether a pattern begins with names, in any case and exactly.
func beginsWith(e *fspath.Entry, names []string) (inAnyCase, exactly bool) {
	written := append([]string{e.Last}, e.Names...)
	inAnyCase, exactly = true, true
	for i, name := range names {
		inAnyCase = inAnyCase && matches(strings.ToLower(written[i]), strings.ToLower(name), i == 0)
		exactly = exactly && matches(written[i], name, i == 0)
	}
	return inAnyCase, exactly
}

// matches reports whether a name is one that LAST, or another name of a pattern, matches.
func matches(written, name string, last bool) bool {
	if before, ok := strings.CutSuffix(written, "*"); ok && last {
		return strings.HasPrefix(name, before)
	}
	if after, ok := strings.CutPrefix(written, "*"); ok && last {
		return strings.HasSuffix(name, after)
	}
	return written == name
}

// mostNames limits the names in one regular expression.
const mostNames = 24

// links are sets of suffixes, each beneath the one before.
type links struct {
	sets  [][]suffix
	whole bool   // the path ends there
	key   string // the same for equal links
}

func newLinks(whole bool, sets ...[]suffix) links {
	var key strings.Builder
	for _, set := range sets {
		for _, s := range set {
			for _, yes := range []bool{s.direct, s.folded, whole} {
				key.WriteByte("01"[map[bool]int{true: 1}[yes]])
			}
			key.WriteString(s.last + "/" + s.names + "\x00")
		}
		key.WriteByte('\n')
	}
	return links{sets, whole, key.String()}
}

// regexes returns the regular expressions of which one matches a path beneath a point that has these suffixes.
func (l links) regexes(spelling string, anyCase bool) (list []string) {
	heads := []string{above(spelling)}
	for i, set := range l.sets {
		var next []string
		for _, direct := range []bool{false, true} {
			if direct && i > 0 {
				continue
			}
			for _, names := range chunks(set, direct, anyCase) {
				for _, h := range heads {
					between := anyNames
					if direct {
						between = ""
					}
					next = append(next, h+between+"/("+names+")")
				}
			}
		}
		heads = next
	}
	for _, h := range heads {
		if l.whole {
			h += "$"
		} else {
			h += end
		}
		list = append(list, h)
	}
	return list
}

// chunks returns alternatives, mostNames in one.
func chunks(set []suffix, direct, anyCase bool) (list []string) {
	var names []string
	seen := map[string]bool{}
	flush := func() {
		if len(names) > 0 {
			list, names = append(list, strings.Join(names, "|")), nil
		}
	}
	for _, s := range set {
		re := s.regex(anyCase)
		if s.direct != direct || s.folded && !anyCase || seen[re] {
			continue
		}
		seen[re] = true
		if names = append(names, re); len(names) == mostNames {
			flush()
		}
	}
	flush()
	return list
}

// components returns the names in a canonical path.
func components(path string) []string {
	if path == "/" {
		return nil
	}
	return strings.Split(path[1:], "/")
}
