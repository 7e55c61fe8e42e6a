//go:build linux && amd64

package differential

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/policy"
)

// rule grants or denies capabilities on a path.
type rule struct {
	path string
	caps policy.Caps
}

// others are layers besides the host's and the session's: each can only deny.
var others = []string{"profile", "provider", "global", "agent", "agent.a", "group", "sandbox"}

// policies writes a host's policy and a session's with a tool's in it, and rules of some other authorities in either: from one rule
// to very many.
func (s *scene) policies(operator string) (host, session string) {
	s.able = map[string]bool{}
	host = "version = 1\n" + s.access("access", "allow", operator, s.r.IntN(4))
	session = "version = 1\nworkspace = " + s.quoted(s.root) + "\n" +
		s.access("access", []string{"deny", "deny", "allow"}[s.r.IntN(3)], operator, s.count())
	if s.r.IntN(2) == 0 {
		session += "[tools.t.access]\ndefault = { fs = \"allow\" }\n" + s.rules("tools.t.access", 1+s.r.IntN(6))
	}
	for _, authority := range others {
		if s.r.IntN(6) > 0 {
			continue
		}
		in := &host
		if s.r.IntN(2) == 0 {
			in = &session
		}
		*in += s.access("authorities."+authority+".access", []string{"deny", "allow", "allow"}[s.r.IntN(3)], operator, 1+s.r.IntN(4))
	}
	return host, session
}

// access writes the rules of one authority. They grant the confined process itself and the programs; if they would grant nothing else, also the
// tree.
func (s *scene) access(in, defaultAction, operator string, n int) string {
	text := fmt.Sprintf("[%s]\nprotect = %v\nsecrets = %v\ndefault = { fs = %q, net = \"allow\", env = \"allow\", commands = \"allow\" }\n", in, s.r.IntN(2) == 0, s.r.IntN(2) == 0, defaultAction)
	for _, path := range []string{operator, programs} {
		text += fmt.Sprintf("[[%s.fs]]\npath = %s\nread = true\nexecute = true\n", in, s.quoted(path))
	}
	text += fmt.Sprintf("[[%s.fs]]\npath = \"/proc/self\"\nread = true\n", in)
	if n < 10 && defaultAction == "deny" {
		text += fmt.Sprintf("[[%s.fs]]\npath = %s\nread = true\nwrite = true\nexecute = true\n", in, s.quoted(s.root))
	}
	text += s.rules(in, n)
	for _, r := range s.special {
		text += fmt.Sprintf("[[%s.fs]]\npath = %s\n", in, s.quoted(r.path))
		for c := policy.Read; c <= policy.Execute; c <<= 1 {
			text += fmt.Sprintf("%s = %v\n", c, r.caps&c != 0)
		}
	}
	return text
}

// count returns the number of rules of a policy: mostly few, sometimes 2,000.
func (s *scene) count() int {
	switch s.r.IntN(8) {
	case 0:
		return 1
	case 1:
		return 2000
	case 2:
		return 200
	}
	return 2 + s.r.IntN(20)
}

func (s *scene) rules(in string, n int) string {
	var b strings.Builder
	for range n {
		where := s.where()
		if s.r.IntN(max(3, n/40)) == 0 { // the kernel's matcher has a limit
			where = "match = " + s.pattern()
		}
		fmt.Fprintf(&b, "[[%s.fs]]\n%s\n%s", in, where, s.gives())
	}
	return b.String()
}

func (s *scene) gives() (text string) {
	for _, c := range []string{"read", "create", "update", "delete", "execute"} {
		if s.r.IntN(5) > 1 {
			text += c + " = true\n"
		}
	}
	for _, lift := range []string{"unprotect", "secret"} {
		if s.r.IntN(12) == 0 {
			text += lift + " = true\n"
		}
	}
	return text
}

func (s *scene) where() string {
	path := s.name()
	switch s.r.IntN(4) {
	case 0:
		path = filepath.Join(path, s.component())
	case 1:
		path = filepath.Dir(path)
	}
	if path == filepath.Dir(s.root) {
		path = s.root
	}
	return "path = " + s.quoted(path)
}

func (s *scene) pattern() string {
	last := s.component()
	switch s.r.IntN(4) {
	case 0:
		last = "x*"
	case 1:
		_, size := utf8.DecodeLastRuneInString(last)
		last = "*" + last[len(last)-size:]
	}
	pattern := "**/" + last
	for range s.r.IntN(3) {
		pattern += "/" + s.component()
	}
	switch s.r.IntN(3) {
	case 0:
		return s.quoted(filepath.Join(s.name(), pattern))
	case 1:
		return s.quoted(filepath.Join(s.root, pattern))
	}
	return s.quoted(pattern)
}

// quoted returns a TOML string. Names that aren't UTF-8 can only be in trees, not in a policy.
func (s *scene) quoted(path string) string {
	path = strings.ToValidUTF8(path, "_")
	if _, known := s.able[path]; !known {
		s.able[path] = nameable(path)
	}
	if !s.able[path] {
		path = s.root
	}
	return strconv.Quote(path)
}

// removeRules removes the rules with errors from policies.
func removeRules(t *testing.T, texts map[string]string, mistakes policy.Errors) {
	t.Helper()
	files := map[string][]string{}
next:
	for _, m := range mistakes {
		lines := files[m.Position.File]
		if lines == nil {
			lines = strings.Split(texts[m.Position.File], "\n")
			files[m.Position.File] = lines
		}
		first := m.Position.Line - 1
		if first < 0 || first >= len(lines) {
			t.Fatal(m)
		}
		if lines[first] == "" { // already removed for another error
			continue
		}
		for !strings.HasPrefix(lines[first], "[[") {
			if first--; first < 0 || strings.HasPrefix(lines[first+1], "[") {
				continue next // the error is about no rule
			}
		}
		lines[first] = ""
		for i := first + 1; i < len(lines) && !strings.HasPrefix(lines[i], "["); i++ {
			lines[i] = ""
		}
	}
	for file, lines := range files {
		texts[file] = strings.Join(lines, "\n")
	}
}
