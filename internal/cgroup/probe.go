package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Mode is how the machine's cgroups are mounted.
type Mode uint8

// The modes. The zero value is the most restricted.
const (
	None    Mode = iota // no cgroup file system is mounted
	Legacy              // version 1 only
	Hybrid              // both; the controllers are version 1's, or some of them
	Unified             // version 2 only
)

func (m Mode) String() string { return [...]string{"none", "legacy", "hybrid", "unified"}[m] }

// Support has the limits that this machine supports for this user.
type Support struct {
	Mode  Mode
	Mount string // where version 2 is mounted; "" when it isn't
	// Base is the folder below Mount in which sessions' cgroups can be created; "" if there is none. Root's is the root of the
	// hierarchy; a user's is the highest ancestor of its own cgroup that was delegated to it.
	Base        string
	Controllers []string // that Base can delegate
	Why         string   // what is missing, and how to get it; "" if nothing is
}

// Has reports whether a controller is usable.
func (f Support) Has(controller string) bool { return slices.Contains(f.Controllers, controller) }

var errMountinfo = errors.New("malformed mountinfo")

// mount is one mounted cgroup hierarchy.
type mount struct {
	version int
	root    string // the folder of the hierarchy
	point   string
}

// parseMountinfo finds the cgroup hierarchies in the text of /proc/self/mountinfo.
func parseMountinfo(text []byte) (found []mount, err error) {
	for line := range bytes.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), " - ")
		f, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 6 || len(kind) < 1 {
			return nil, fmt.Errorf("%w: %q", errMountinfo, line)
		}
		switch kind[0] {
		case "cgroup":
			found = append(found, mount{1, unescape(f[3]), unescape(f[4])})
		case "cgroup2":
			found = append(found, mount{2, unescape(f[3]), unescape(f[4])})
		}
	}
	return found, nil
}

// unescape decodes the octal escapes of mountinfo: \040 is a space.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if n, ok := octal(s[i:]); ok {
			b.WriteByte(n)
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(s string) (n byte, ok bool) {
	if len(s) < 4 || s[0] != '\\' || s[1] > '3' {
		return 0, false
	}
	for _, c := range []byte(s[1:4]) {
		if c < '0' || c > '7' {
			return 0, false
		}
		n = n<<3 | (c - '0')
	}
	return n, true
}

// modeOf returns the mode, and the version 2 mount that shows the largest part of the hierarchy.
func modeOf(mounts []mount) (m Mode, v2 mount) {
	v1 := false
	for _, c := range mounts {
		if c.version == 1 {
			v1 = true
		} else if v2.point == "" || len(c.root) < len(v2.root) {
			v2 = c
		}
	}
	switch {
	case v2.point == "" && v1:
		return Legacy, v2
	case v2.point == "":
		return None, v2
	case v1:
		return Hybrid, v2
	}
	return Unified, v2
}

// ownPath returns this process's version 2 cgroup in the text of /proc/self/cgroup.
func ownPath(text []byte) (string, bool) {
	for line := range bytes.Lines(text) {
		if p, ok := strings.CutPrefix(strings.TrimSuffix(string(line), "\n"), "0::/"); ok {
			return path.Clean("/" + p), !strings.HasPrefix(p, "../")
		}
	}
	return "", false
}

// pathsBelow lists a cgroup and its ancestors as seen below the mounted root, the highest first.
func pathsBelow(root, own string) ([]string, bool) {
	rel, ok := strings.CutPrefix(own, strings.TrimSuffix(root, "/"))
	if !ok || (rel != "" && rel[0] != '/') {
		return nil, false
	}
	chain := []string{"/"}
	at := ""
	for _, c := range strings.Split(strings.Trim(rel, "/"), "/") {
		if c != "" {
			at += "/" + c
			chain = append(chain, at)
		}
	}
	return chain, true
}

// missingControllers explains which controllers are missing, and how to get them.
func missingControllers(f Support) string {
	var absent []string
	for _, c := range []string{"memory", "pids", "cpu", "io"} {
		if !f.Has(c) {
			absent = append(absent, c)
		}
	}
	switch {
	case absent == nil:
		return ""
	case f.Mode == Hybrid:
		return "no cgroup v2 controller for " + strings.Join(absent, ", ") + ": version 1 has them on this machine (boot with " +
			"systemd.unified_cgroup_hierarchy=1, or cgroup_no_v1=all)"
	case f.Base != "/":
		return strings.Join(absent, ", ") + " not delegated to this user (as root: `systemctl edit user@.service`, " +
			"[Service] Delegate=cpu cpuset io memory pids)"
	}
	return "this kernel's cgroup v2 has no controller for " + strings.Join(absent, ", ")
}
