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

// hostsFile is the machine's hosts file. The process that starts egress reads it, never the session.
const hostsFile = "/etc/hosts"

// maxHosts limits the addresses of names that a policy has rules for.
const maxHosts = 1024

// hostsFor returns the addresses in a hosts(5) file of the names that a policy has rules for. With an error it returns what it could read.
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
				return hosts, fmt.Errorf("%s has more than %d addresses of names that the policy grants; later names are looked up by DNS", file, maxHosts)
			}
			hosts[name] = append(hosts[name], addr)
		}
	}
	return hosts, lines.Err()
}

// hostsLine returns the address and names of a line. An unspecified or multicast address has no names; many files block a name by 0.0.0.0.
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

// HostsFor returns the addresses in this machine's hosts file of the names that a policy has rules for. With an error it returns what it could read.
func HostsFor(c *policy.Compiled) (map[string][]netip.Addr, error) {
	hosts, err := hostsFor(hostsFile, c)
	if err != nil {
		err = fmt.Errorf("not all names of %s are used: %w", hostsFile, err)
	}
	return hosts, err
}
