package control

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// hostsFile is the administrator's word on names. It's read by the process that starts egress, never by the session.
const hostsFile = "/etc/hosts"

// maxHosts bounds the addresses of names that a policy has rules for.
const maxHosts = 1024

// hostsFor are the addresses that a hosts(5) file gives to the names that a policy has rules for. With an error it's what could be read.
func hostsFor(file string, c *policy.Compiled) (hosts map[string][]netip.Addr, err error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	hosts = map[string][]netip.Addr{}
	n := 0
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		addr, names := hostsLine(lines.Text())
		for _, name := range names {
			if name == "localhost" || slices.Contains(hosts[name], addr) || !c.HasRuleFor(name) {
				continue
			}
			if n++; n > maxHosts {
				return hosts, fmt.Errorf("%s has more than %d addresses of names that the policy grants; the names after those are looked up by DNS", file, maxHosts)
			}
			hosts[name] = append(hosts[name], addr)
		}
	}
	return hosts, lines.Err()
}

// hostsLine is a line's address and names. An address that is nobody's in particular (0.0.0.0, by which many block a name) gives none.
func hostsLine(line string) (addr netip.Addr, names []string) {
	line, _, _ = strings.Cut(line, "#")
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return addr, nil
	}
	addr, err := netip.ParseAddr(fields[0])
	if err != nil || addr.Zone() != "" {
		return addr, nil
	}
	if addr = addr.Unmap(); addr.IsUnspecified() || addr.IsMulticast() {
		return addr, nil
	}
	for _, f := range fields[1:] {
		if name, err := netname.Normalize(f); err == nil {
			names = append(names, name)
		}
	}
	return addr, names
}

// readHosts has the instructions say what the machine's hosts file says now. It's called with the lock held.
func (p *Supervisor) readHosts() {
	hosts, err := hostsFor(hostsFile, p.instructions.Policy)
	if err != nil {
		p.reports.Lost(0, fmt.Sprintf("not all names of %s count: %v", hostsFile, err))
	}
	p.instructions.Hosts = hosts
}
