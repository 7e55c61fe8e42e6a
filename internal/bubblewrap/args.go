package bubblewrap

import (
	"fmt"
	"path"
	"slices"

	"github.com/toolguard/toolguard/internal/mounts"
)

// maxArgs is how many arguments bubblewrap accepts (MAX_ARGS in bubblewrap.c, 0.3.2 and newer).
const maxArgs = 9000

// Options are the settings of a session that aren't part of the mount plan.
type Options struct {
	Dir     string // the working directory; "": this process's
	Network bool   // keep this machine's network namespace: Plan.Network, unless egress has its own

	Capabilities []string // that root's command keeps, such as "CAP_NET_BIND_SERVICE"
}

// Args returns the arguments, without the program's name, with which bubblewrap makes the mounts of a plan and executes inner.
func Args(p *mounts.Plan, o Options, inner []string) ([]string, error) {
	for _, m := range p.Mounts {
		if !path.IsAbs(m.Path) {
			return nil, fmt.Errorf("a mount needs an absolute path, and %q isn't one", m.Path)
		}
	}
	a := []string{"--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"}
	for _, name := range o.Capabilities {
		a = append(a, "--cap-add", name)
	}
	if !o.Network {
		a = append(a, "--unshare-net")
	}
	a = append(a, fileSystem(p)...)
	if o.Dir != "" {
		a = append(a, "--chdir", o.Dir)
	}
	a = append(append(a, "--"), inner...)
	if len(a) > maxArgs {
		return nil, fmt.Errorf("the policy takes %d bubblewrap arguments on this machine, and it accepts %d", len(a), maxArgs)
	}
	return a, nil
}

// fileSystem returns the options for the mounts. Options apply in their order.
func fileSystem(p *mounts.Plan) []string {
	var a, end []string
	root := p.Mounts[0]
	a = append(a, bind(root.Mode), "/", "/", "--proc", "/proc")
	a = append(a, device(p.Dev)...)
	made := map[string]mounts.Mode{"/": root.Mode}
	for _, m := range p.Mounts[1:] {
		a = append(a, reach(m.Path, made)...)
		made[m.Path] = m.Mode
		switch {
		case m.Path == "/tmp" && p.PrivateTmp:
			a = append(a, "--perms", "1777", "--tmpfs", "/tmp")
		case m.Mode != mounts.Hidden:
			a = append(a, bind(m.Mode), m.Path, m.Path)
		case !m.Dir:
			a = append(a, "--ro-bind", "/dev/null", m.Path) // it can't be opened, as bubblewrap mounts it without devices
		default:
			a = append(a, "--perms", permissions(m), "--tmpfs", m.Path)
			end = append(end, "--remount-ro", m.Path)
		}
	}
	return append(a, end...)
}

func bind(m mounts.Mode) string {
	if m == mounts.ReadWrite {
		return "--bind"
	}
	return "--ro-bind"
}

func permissions(m mounts.Mount) string {
	if m.Open {
		return "0111"
	}
	return "0000"
}

// reach returns options that make the folders between a covered folder and a mount in it. bubblewrap itself would make them readable.
func reach(at string, made map[string]mounts.Mode) []string {
	var missing []string
	for dir := path.Dir(at); ; dir = path.Dir(dir) {
		if mode, ok := made[dir]; ok {
			if mode != mounts.Hidden {
				return nil
			}
			break
		}
		missing = append(missing, dir)
	}
	var a []string
	for _, dir := range slices.Backward(missing) {
		made[dir] = mounts.Hidden
		a = append(a, "--perms", "0111", "--dir", dir)
	}
	return a
}

func device(d mounts.Dev) []string {
	switch d {
	case mounts.PrivateDev:
		return []string{"--dev", "/dev"}
	case mounts.TerminalsDev:
		return []string{"--dev", "/dev", "--dev-bind", "/dev/pts", "/dev/pts"}
	case mounts.HostDev:
		return []string{"--dev-bind", "/dev", "/dev", "--perms", "1777", "--tmpfs", "/dev/shm"}
	}
	return []string{"--dev-bind", "/dev", "/dev"}
}
