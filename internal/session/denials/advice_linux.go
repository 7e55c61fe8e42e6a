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

// advise adds to a denial what there is to know before it's granted, and takes a grant away that would be of no use, or give more than was
// asked for.
func (r describer) advise(e *event.Event, advice string) {
	switch {
	case r.cfg.Mechanism != "bpf" && strings.Contains(e.Suggest, "\nmatch = "): // which no Landlock rule can be
		e.Suggest, advice = "", "the name is random, and the next one is another: grant the folder, if that is meant"
	case e.Suggest != "" && e.Extra["entry"] != "":
		advice = "which name it was the kernel doesn't report: the grant is for all in this folder"
	}
	if advice != "" {
		e.Extra["advice"] = advice
	}
}

// adviseProxy is what the grant of a proxy opens, and takes it away where what the proxy is asked for can't be read: scheme is what the
// grant is for, or what was spoken.
func adviseProxy(e *event.Event, p *api.Proxy, scheme string) {
	switch {
	case p == nil || e.Suggest == "":
	case p.Scheme == "http" && scheme == "http":
		e.Extra["advice"] = fmt.Sprintf("this is the proxy that %s names: with scheme = \"http\" the hosts behind it stay closed that nothing else grants", p.Variable)
	default:
		e.Suggest = ""
		e.Extra["advice"] = fmt.Sprintf("this is the proxy that %s names, and what it's asked for can't be read: a rule for it would open every host behind it", p.Variable)
	}
}

// proxyAt is the proxy that a target is; nil: it's none.
func (r describer) proxyAt(target string) *api.Proxy {
	_, rest, _ := strings.Cut(target, "://")
	rest, _, _ = strings.Cut(rest, "/")
	i := slices.IndexFunc(r.cfg.Proxies, func(p api.Proxy) bool { return sameEndpoint(&p, rest) })
	if i < 0 {
		return nil
	}
	return &r.cfg.Proxies[i]
}

// sameEndpoint reports whether a proxy is at this host and port. A proxy without a port is at whichever its clients take.
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

// adviseOrdinary notes for a name that wasn't made or removed that the permissions of its folder wouldn't have let this user either: the
// kernel asks the security modules first (security_path_mknod and its like, before may_create). A grant would be of no use.
func (r describer) adviseOrdinary(e *event.Event, folder string) {
	if len(e.Process) == 0 || MayOverride(r.policy) || !Forbidden(folder, &e.Process[0]) {
		return
	}
	e.Extra["anyway"] = "ordinary permissions deny it too"
	delete(e.Extra, "advice")
	e.Suggest = ""
}

// MayOverride reports whether permissions may not count in the session.
func MayOverride(c *policy.Compiled) bool {
	return slices.ContainsFunc(c.Layers, func(l *policy.Layer) bool { return slices.Contains(l.Capabilities, "CAP_DAC_OVERRIDE") })
}

// Forbidden reports whether a process without capabilities certainly can't make or remove names in a folder.
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

// groupsOf are a process's groups; known is false where it's gone. With the number of one that is gone another may be looked at, which then
// has groups of its own: what comes of it is a remark, and no decision.
func groupsOf(pid int) (groups []int, known bool) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, false
	}
	for _, word := range slices.Concat(proc.StatusField(status, "Gid"), proc.StatusField(status, "Groups")) {
		if n, err := strconv.Atoi(word); err == nil {
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
