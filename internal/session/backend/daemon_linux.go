package backend

import (
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/seccomp"
	"github.com/toolguard/toolguard/internal/version"
)

// state is toolguardd's state, with the client that requested it.
type state struct {
	client *api.Client
	api.Daemon
}

// HasDaemon reports whether toolguardd's socket exists. Most starts find none, and package net would start its poller.
func HasDaemon() bool { return unix.Access(api.Socket, unix.F_OK) != unix.ENOENT }

// AskDaemon requests toolguardd's state, on a connection that stays open for later requests.
func AskDaemon() (state, error) { return askStateOf(api.Socket) }

func askStateOf(socket string) (s state, err error) {
	s.client = &api.Client{Socket: socket, KeepAlive: true}
	err = s.client.Do("GET", api.Status, nil, &s.Daemon)
	if err == nil && s.Protocol != api.Protocol {
		err = fmt.Errorf("toolguardd has another version (%s) than this toolguard (%s): install the same version of both, and restart toolguardd "+
			"('systemctl restart toolguardd')", s.Version, version.String())
	}
	return s, err
}

// byDaemon is the bpf backend for a user who may not load programs: toolguardd has loaded them, makes the session, and places one of this
// process's threads in it. Everything else is as without toolguardd. If toolguardd isn't used ok is false: the error is why it can't be, and nil
// if it isn't set up or isn't wanted.
func byDaemon(daemon string, ask AskState) (b Backend, ok bool, err error) {
	if daemon == "none" || daemon != "require" && !HasDaemon() {
		return Backend{}, false, nil
	}
	status, err := ask()
	if err == nil && status.Why != "" {
		err = fmt.Errorf("toolguardd can make no session: %s", status.Why)
	}
	if err == nil && unix.Access(image.Canary, unix.F_OK) == unix.ENOENT { // in a container with the socket alone
		err = fmt.Errorf("toolguardd's folder is missing: mount all of %s, not the socket alone", filepath.Dir(api.Socket))
	}
	if err != nil {
		return Backend{}, false, err
	}
	net := &Network{}
	return Backend{
		name:    "bpf",
		Network: net,
		gaps:    daemonGaps,
		Level:   seccomp.FullMediation,
		Maker:   Daemon,
		Client:  status.client,
		report: func(_ *Backend, c *policy.Compiled) []policy.Enforceability {
			_, err := image.New(c, 1)
			abi, _ := LandlockABI()
			ports := net.reportByDaemon(c, landlock.ReportPorts(c, abi), status.Network)
			ports = reportRings(c, ports, seccomp.Backend{ABI: seccomp.FullMediation, Net: net.Enforces()})
			rows := slices.Concat(reportPrograms(c, err), ports, reportEnv(c), reportLimits(c), reportAudit(c, "bpf", ""))
			if NeedsCgroup(c.Limits) {
				rows = append(rows, cgroup.Report(c, status.Cgroups)...)
			}
			return rows
		},
	}, true, nil
}

var daemonGaps = append(slices.Clone(bpfGaps[:len(bpfGaps)-1]),
	"when toolguard is killed (kill -9), toolguardd ends the session, but its TMPDIR stays",
	"where toolguardd can't enforce network rules, denied ports are reported to root only")
