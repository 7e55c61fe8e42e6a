package firejail

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/mounts"
)

// PlanOptions returns the options of a plan for firejail.
func PlanOptions(visible []string) mounts.Options {
	return mounts.Options{Visible: visible, OpenRoot: true, NoHoles: true}
}

// Options are the settings of a session that aren't part of the mount plan.
type Options struct {
	Network   bool  // keep this machine's network namespace
	ProfileFD int   // the descriptor on which firejail finds the profile; it must be possible to open it again by /proc/self/fd
	Keep      []int // descriptors that the session inherits, besides 0, 1 and 2
}

// Args returns the arguments, without the program's name, with which firejail executes inner in the mounts of a profile.
func Args(o Options, inner []string) []string {
	a := []string{
		"--quiet", fmt.Sprintf("--profile=/proc/self/fd/%d", o.ProfileFD), "--deterministic-exit-code", "--deterministic-shutdown",
		"--allusers", "--keep-var-tmp", "--caps.drop=all", "--ipc-namespace",
	}
	if !o.Network {
		a = append(a, "--net=none")
	}
	if len(o.Keep) > 0 {
		fds := make([]string, len(o.Keep))
		for i, fd := range o.Keep {
			fds[i] = strconv.Itoa(fd)
		}
		a = append(a, "--keep-fd="+strings.Join(fds, ","))
	}
	return append(append(a, "--"), inner...)
}

// Profile returns the text of a profile that makes the mounts of a plan, which must have been made with PlanOptions.
func Profile(p *mounts.Plan) ([]byte, error) {
	var b bytes.Buffer
	line := func(word, at string) { fmt.Fprintf(&b, "%s %s\n", word, at) }
	if !p.WritesRoot {
		line("read-only", "/")
	}
	if p.Dev == mounts.PrivateDev || p.Dev == mounts.TerminalsDev {
		b.WriteString("private-dev\n")
	}
	if p.PrivateTmp {
		private(p, &b)
	}
	for _, m := range p.Mounts[1:] {
		if why := reject(m); why != "" {
			return nil, fmt.Errorf("%s", why)
		}
		switch {
		case m.Path == tmp && p.PrivateTmp:
		case m.Mode == mounts.Hidden:
			line("blacklist", m.Path)
		case m.Mode == mounts.ReadOnly:
			line("read-only", m.Path)
		default: // read-write alone makes no mount where the path is writable
			line("read-only", m.Path)
			line("read-write", m.Path)
		}
	}
	return b.Bytes(), nil
}

const tmp = "/tmp"

// private adds the options for a new /tmp in which those paths exist that the plan has a mount for.
func private(p *mounts.Plan, b *bytes.Buffer) {
	shown := map[string]bool{}
	for _, m := range p.Mounts {
		if m.Path == tmp || !strings.HasPrefix(m.Path, tmp+"/") || within(m.Path, shown) {
			continue
		}
		shown[m.Path] = true
		fmt.Fprintf(b, "whitelist %s\n", m.Path)
	}
	if len(shown) == 0 {
		b.WriteString("private-tmp\n")
	}
}

// within reports whether one of dirs is above a path.
func within(p string, dirs map[string]bool) bool {
	for p != "/" {
		p = path.Dir(p)
		if dirs[p] {
			return true
		}
	}
	return false
}
