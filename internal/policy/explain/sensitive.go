package explain

import (
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// lazy is an expression that is compiled at the first use, since most sessions need none: it matches as much as it can.
func lazy(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp {
		r := regexp.MustCompile(text)
		r.Longest()
		return r
	})
}

// rootSockets are the sockets of services that run commands as root for their clients.
var rootSockets = []string{
	"docker.sock", "podman.sock", "containerd.sock", "crio.sock", "buildkitd.sock", "libvirt-sock", "snapd.socket", "system_bus_socket",
}

// tops are the folders at the top of file trees.
var tops = lazy(`^/(bin|boot|dev|etc|home(/[^/]+)?|lib\w*|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var|Users(/[^/]+)?|Applications|Library|System|Volumes|private)$`)

// wide reports whether a rule for a path would grant more than a suggestion may: everything around the workspace, a home, the system.
func wide(c *policy.Compiled, target string) bool {
	return target != c.Workspace && (fspath.Within(c.Workspace, target) || tops().MatchString(target))
}

// randomPart is what may be random in a name: a number (a process, a thread, a time), a hexadecimal number, and what mkstemp(3) and Python's
// tempfile end a name with.
var randomPart = lazy(`\d{6,}|\b[0-9a-f]{8,}\b|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|^tmp[a-z0-9_]{8}$|[._-][A-Za-z0-9]{6,12}$`)

// date is a number in a written date.
var date = lazy(`^(19|20)\d{2}(0\d|1[0-2])([0-3]\d)?$`)

// randomIn is where in a name its random part is; ok is false where there is none.
func randomIn(name string) (start, end int, ok bool) {
	for _, at := range randomPart().FindAllStringIndex(name, -1) {
		part := strings.TrimLeft(strings.TrimPrefix(name[at[0]:at[1]], "tmp"), "._-")
		digits := strings.Trim(part, "0123456789") == ""
		switch {
		case date().MatchString(part):
		case digits, strings.HasPrefix(name[at[0]:], "tmp"), strings.Trim(part, "0123456789abcdef-") == "" && strings.ContainsAny(part, "0123456789"), changes(part) > 2:
			return at[1] - len(part), at[1], true
		}
	}
	return 0, 0, false
}

// changes counts the changes between small letters, capital letters and digits.
func changes(s string) (n int) {
	class := func(c byte) int {
		switch {
		case c <= '9':
			return 0
		case c <= 'Z':
			return 1
		}
		return 2
	}
	for i := 1; i < len(s); i++ {
		if class(s[i]) != class(s[i-1]) {
			n++
		}
	}
	return n
}

// withoutRandom returns a rule without the random part of its path: a pattern instead of the last name. It returns none if a folder above is random.
func withoutRandom(c *policy.Compiled, r policy.FSRule, target string) (policy.FSRule, bool) {
	dir, name := relative(c, path.Dir(target)), path.Base(target)
	for above := path.Dir(target); !fspath.Within(c.Workspace, above); above = path.Dir(above) { // the folders above the workspace don't change
		if _, _, ok := randomIn(path.Base(above)); ok {
			return r, false
		}
	}
	start, end, ok := randomIn(name)
	if !ok || r.Match != "" {
		return r, !ok
	}
	base := strings.TrimSuffix(dir, "/") + "/**/"
	if dir == "." {
		base = "**/"
	}
	switch prefix, suffix := name[:start], name[end:]; {
	case len(strings.Trim(prefix, "._-")) > 1:
		r.Path, r.Match = "", base+prefix+"*"
	case len(strings.Trim(suffix, "._-")) > 1:
		r.Path, r.Match = "", base+"*"+suffix
	default:
		return r, false
	}
	_, err := fspath.ParsePattern(r.Match)
	return r, err == nil
}
