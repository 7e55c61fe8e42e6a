package landlock

import (
	"io/fs"
	"os"
	"path"
	"slices"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/toolguard/toolguard/internal/policy"
)

// cgroupRoot has the control groups: a process that may write there can leave a session's limits and network rules.
const cgroupRoot = "/sys/fs/cgroup"

// unrestricted reports whether no authority restricts fs.
func unrestricted(c *policy.Compiled) bool {
	return !slices.ContainsFunc(c.Layers, func(l *policy.Layer) bool { return restricts(l, policy.FS) })
}

// allExcept returns a ruleset that allows to change every file except one path and all beneath it. It grants every other entry of the path's
// parent folders by name. In those folders themselves no file can be created, as a grant on one would include everything beneath.
func (p *Plan) allExcept(spared string) Ruleset {
	changes := (rights(policy.Write) &^ (ll.AccessFSResolveUnix | ll.AccessFSIoctlDev)) & handledFS(p.ABI)
	rs := Ruleset{Authority: policy.Builtin, FS: changes}
	for at := spared; at != "/"; at = path.Dir(at) {
		entries, _ := os.ReadDir(path.Dir(at)) // a folder that can't be listed isn't granted
		for _, e := range entries {
			name, dir := path.Join(path.Dir(at), e.Name()), e.IsDir()
			if name == at || e.Type()&fs.ModeSymlink != 0 {
				continue
			}
			access := changes
			if !dir {
				access &= fileRights
			}
			rs.Grants = append(rs.Grants, Grant{Path: name, Access: access, Dir: dir, Optional: true})
		}
	}
	return rs
}
