//go:build linux && amd64

package differential

import (
	"fmt"
	"path/filepath"
	"strings"
)

// policies writes a host's policy and a session's with a tool's in it: three authorities, from a rule each to very many.
func (s *scene) policies(operator string) (host, session string) {
	first := fmt.Sprintf(`version = 1
[[access.fs]]
path = %s
read = true
execute = true
[[access.fs]]
path = %s
read = true
execute = true
[[access.fs]]
path = "/proc/self"
read = true
`, quoted(operator), quoted(programs))
	host = "version = 1\n[access]\n" + fmt.Sprintf("default = { fs = %q }\n", "allow") + s.rules("access", s.r.IntN(4))
	session = strings.Replace(first, "version = 1\n", "version = 1\nworkspace = "+quoted(s.root)+"\n[access]\n"+s.protect()+s.stance(), 1)
	session += s.rules("access", s.count())
	if s.r.IntN(2) == 0 {
		session += "[tools.t.access]\ndefault = { fs = \"allow\" }\n" + s.rules("tools.t.access", 1+s.r.IntN(6))
	}
	return host, session
}

func (s *scene) protect() string {
	return fmt.Sprintf("protect = %v\n", s.r.IntN(2) == 0)
}

func (s *scene) stance() string {
	return fmt.Sprintf("default = { fs = %q, net = \"allow\", env = \"allow\", commands = \"allow\" }\n", []string{"deny", "deny", "allow"}[s.r.IntN(3)])
}

// count is how many rules a policy has: few, mostly, and now and then 2,000.
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
		fmt.Fprintf(&b, "[[%s.fs]]\n%s\n", in, s.where())
		for _, c := range []string{"read", "create", "update", "delete", "execute"} {
			if s.r.IntN(5) > 1 {
				fmt.Fprintf(&b, "%s = true\n", c)
			}
		}
	}
	return b.String()
}

func (s *scene) where() string {
	if s.r.IntN(3) == 0 {
		return "match = " + quoted(s.pattern())
	}
	path := s.name()
	switch s.r.IntN(4) {
	case 0:
		path = filepath.Join(path, s.component())
	case 1:
		path = filepath.Dir(path)
	}
	if path == filepath.Dir(s.root) || len(path) > 3500 {
		path = s.root
	}
	return "path = " + quoted(path)
}

func (s *scene) pattern() string {
	last := s.component()
	switch s.r.IntN(4) {
	case 0:
		last = "x*"
	case 1:
		last = "*" + last[len(last)-1:]
	}
	pattern := "**/" + last
	for range s.r.IntN(3) {
		pattern += "/" + s.component()
	}
	switch s.r.IntN(3) {
	case 0:
		return filepath.Join(s.name(), pattern)
	case 1:
		return filepath.Join(s.root, pattern)
	}
	return pattern
}

// quoted is a TOML string. TOML has no way to write what isn't UTF-8: such names can't be in a policy, and so only in trees.
func quoted(path string) string {
	path = strings.ToValidUTF8(path, "?")
	return "'" + path + "'"
}
