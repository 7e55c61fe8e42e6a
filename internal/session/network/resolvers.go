package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
)

// nameServers is the maximum number of name servers in resolv.conf(5) (MAXNS).
const nameServers = 3

// MachineResolvers returns the name servers of this machine.
func MachineResolvers() ([]netip.AddrPort, error) {
	list, err := resolvers("/etc/resolv.conf")
	if err != nil {
		return nil, fmt.Errorf("find the machine's name servers: %w", err)
	}
	return list, nil
}

// resolvers returns the name servers in a resolv.conf(5), or without any the machine itself.
func resolvers(file string) ([]netip.AddrPort, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var list []netip.AddrPort
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" || len(list) == nameServers {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil {
			list = append(list, netip.AddrPortFrom(a, 53))
		}
	}
	if len(list) == 0 {
		list = append(list, netip.MustParseAddrPort("127.0.0.1:53"))
	}
	return list, nil
}
