package landlock

import (
	"io/fs"
	"os"
	"path"
	"slices"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/toolguard/toolguard/internal/policy"
)

// groups is where the control groups are: who writes there leaves a session's limits, and its network rules.
const groups = "/sys/fs/cgroup"

// unrestricted reports whether no authority restricts fs.
func unrestricted(c *policy.Compiled) bool {
	return !slices.ContainsFunc(c.Layers, func(l *policy.Layer) bool { return restricts(l, policy.FS) })
}

// sparing is a ruleset under which everything may be changed but what is at a path: everything beside it and beside the folders
// above it is granted by name. In those folders themselves nothing can be made, as a grant on one would be on all beneath.
func (p *Plan) sparing(spared string) Ruleset {
	changes := (rights(policy.Write) &^ (ll.AccessFSResolveUnix | ll.AccessFSIoctlDev)) & handled(p.ABI)
	rs := Ruleset{Authority: policy.Builtin, FS: changes}
	for at := spared; at != "/"; at = path.Dir(at) {
		entries, _ := os.ReadDir(path.Dir(at)) // what can't be listed isn't granted
		for _, e := range entries {
			name, dir := path.Join(path.Dir(at), e.Name()), e.IsDir()
			if name == at || e.Type()&fs.ModeSymlink != 0 {
				continue
			}
			access := changes
			if !dir {
				access &= onFiles
			}
			rs.Grants = append(rs.Grants, Grant{Path: name, Access: access, Dir: dir, Optional: true})
		}
	}
	return rs
}
