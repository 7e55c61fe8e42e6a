package session

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/network"
)

// rejectSockets rejects network sockets among the command's descriptors if the policy restricts the network: the session's programs don't decide
// about sockets that were made outside, and even a connected or listening one can be connected again to any address.
func rejectSockets(c *policy.Compiled, fds []int) error {
	if !c.DeniesNet() && !network.Decides(c) {
		return nil
	}
	for _, fd := range fds {
		switch family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); {
		case errors.Is(err, unix.ENOTSOCK) || errors.Is(err, unix.EBADF): // or it's closed
		case err != nil:
			return fmt.Errorf("descriptor %d: %w", fd, os.NewSyscallError("getsockopt(SO_DOMAIN)", err))
		case family != unix.AF_UNIX:
			return fmt.Errorf("descriptor %d is a network socket, which the command could connect to any address whatever the policy says: pass a pipe instead", fd)
		}
	}
	return nil
}

// openNetwork begins to enforce the network rules.
func (r *run) openNetwork() error {
	if !r.net.Enforces() {
		return nil
	}
	bundle := r.net.Bundle
	if !r.net.ByDaemon {
		upstream, err := network.MachineResolvers()
		if err != nil {
			return err
		}
		b, err := r.net.Enforce(r.denials, r.cfg.Policy, r.number, r.group.FD(), nil, upstream)
		if err != nil {
			return err
		}
		bundle = b.Bundle
		if err := r.net.Listen(r.denials.ListenNetwork); err != nil {
			return err
		}
	}
	if r.cfg.Policy.Intercepts() {
		if err := r.writeBundle(bundle); err != nil {
			return fmt.Errorf("pass the session its certificate authority: %w", err)
		}
	}
	return nil
}

// writeBundle passes the session's certificate authority to the command.
func (r *run) writeBundle(authority []byte) error {
	file, err := network.WriteBundle(r.cfg.Policy, authority)
	if err != nil {
		return err
	}
	for _, name := range message.BundleVars() {
		r.cmd.Env = slices.DeleteFunc(r.cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		r.cmd.Env = append(r.cmd.Env, name+"="+file)
	}
	return nil
}

// endEgress ends egress.
func (r *run) endEgress() {
	if r.net != nil {
		r.net.StopEgress()
	}
}

// closeNetwork ends the session's network.
func (r *run) closeNetwork() {
	r.endEgress()
	switch end := func() cgroupsock.Counts { return r.net.End(nil, r.cfg.Linger, r.cfg.notice) }; {
	case r.net == nil || !r.net.Loaded():
	case r.denials == nil:
		end()
	default:
		r.denials.EndNetwork(end)
	}
}
