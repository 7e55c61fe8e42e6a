package denials

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
)

// advise adds advice about the suggested grant to a denial. It removes a grant that would be useless, or would allow more than was requested.
func (r describer) advise(e *event.Event, advice string) {
	switch {
	case r.cfg.Mechanism != "bpf" && strings.Contains(e.Suggest, "\nmatch = "): // Landlock has no patterns
		e.Suggest, advice = "", "the name is random and differs the next time: grant the folder, if you want that"
	case e.Suggest != "" && e.Extra["entry"] != "":
		advice = "the kernel doesn't report the name: the grant applies to all names in this folder"
	}
	if advice != "" {
		e.Extra["advice"] = advice
	}
}

// adviseProxy adds what the grant of a proxy allows. It removes the grant if egress can't read the requests to the proxy. scheme is that of the
// grant, or of the connection.
func adviseProxy(e *event.Event, p *api.Proxy, scheme string) {
	switch {
	case p == nil || e.Suggest == "":
	case p.Scheme == "http" && scheme == "http":
		e.Extra["advice"] = fmt.Sprintf("this is the proxy that %s names: with scheme = \"http\" the hosts behind it still need rules of their own", p.Variable)
	default:
		e.Suggest = ""
		e.Extra["advice"] = fmt.Sprintf("this is the proxy that %s names, and toolguard can't read the requests to it: a rule for it would allow every host behind it", p.Variable)
	}
}

// proxyAt returns the proxy at a target; nil: the target isn't a proxy.
func (r describer) proxyAt(target string) *api.Proxy {
	_, rest, _ := strings.Cut(target, "://")
	rest, _, _ = strings.Cut(rest, "/")
	i := slices.IndexFunc(r.cfg.Proxies, func(p api.Proxy) bool { return sameEndpoint(&p, rest) })
	if i < 0 {
		return nil
	}
	return &r.cfg.Proxies[i]
}

// sameEndpoint reports whether a proxy is at this host and port. A proxy without a port matches every port.
func sameEndpoint(proxy *api.Proxy, endpoint string) bool {
	host, port, err := net.SplitHostPort(endpoint)
	if err != nil || proxy.Port != "" && proxy.Port != port {
		return false
	}
	at, err := netip.ParseAddr(host)
	return strings.EqualFold(host, proxy.Host) || err == nil && at.IsLoopback() && isLoopback(proxy.Host)
}

func isLoopback(host string) bool {
	at, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && at.IsLoopback()
}

// advisePermissions reports that the permissions of the folder also deny creating or removing the name, so that a grant would be useless: the
// kernel calls the security modules first (security_path_mknod and similar hooks, before may_create).
func (r describer) advisePermissions(e *event.Event, folder string) {
	if len(e.Process) == 0 || MayOverride(r.policy) || !Forbidden(folder, &e.Process[0]) {
		return
	}
	e.Extra["anyway"] = "ordinary permissions deny it too"
	delete(e.Extra, "advice")
	e.Suggest = ""
}

// MayOverride reports whether file permissions may not apply in the session (CAP_DAC_OVERRIDE).
func MayOverride(c *policy.Compiled) bool {
	return slices.ContainsFunc(c.Layers, func(l *policy.Layer) bool { return slices.Contains(l.Capabilities, "CAP_DAC_OVERRIDE") })
}

// Forbidden reports whether file permissions prevent a process without capabilities from making or removing names in a folder. If that isn't
// certain, it returns false.
func Forbidden(folder string, p *event.Process) bool {
	var st unix.Stat_t
	var fs unix.Statfs_t
	if unix.Stat(folder, &st) != nil {
		return false
	}
	// As the process sees it: toolguardd's unit has all of the machine read-only.
	if unix.Statfs(fmt.Sprintf("/proc/%d/root%s", p.PID, folder), &fs) == nil && fs.Flags&unix.ST_RDONLY != 0 {
		return true
	}
	if n, err := unix.Getxattr(folder, "system.posix_acl_access", nil); p.UID < 0 || err == nil && n > 0 {
		return false
	}
	const writeAndEnter = 3
	owner, group, others := st.Mode>>6&7, st.Mode>>3&7, st.Mode&7
	if int(st.Uid) == p.UID {
		return owner&writeAndEnter != writeAndEnter
	}
	switch groups, known := groupsOf(p.PID); {
	case known && slices.Contains(groups, int(st.Gid)):
		return group&writeAndEnter != writeAndEnter
	case !known && group&writeAndEnter == writeAndEnter:
		return false
	}
	return others&writeAndEnter != writeAndEnter
}

// groupsOf returns a process's groups; known is false if it has ended. If its PID was reused, the groups are those of another process: they
// are used for advice only.
func groupsOf(pid int) (groups []int, known bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, false
	}
	for _, field := range slices.Concat(proc.StatusField(status, "Gid"), proc.StatusField(status, "Groups")) {
		if n, err := strconv.Atoi(field); err == nil {
			groups = append(groups, n)
		}
	}
	return groups, true
}

// folderOf is the folder whose names an access to a path concerns.
func folderOf(e *event.Event) string {
	if e.Extra["entry"] != "" {
		return e.Target
	}
	return filepath.Dir(e.Target)
}
