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

// state is what toolguardd says of itself, and the client that has asked.
type state struct {
	client *api.Client
	api.Daemon
}

// HasDaemon reports whether there's a toolguardd to ask. Most starts find none, and package net would set its poller up.
func HasDaemon() bool { return unix.Access(api.Socket, unix.F_OK) != unix.ENOENT }

// AskDaemon asks toolguardd for its state, on a connection that is kept for the requests that follow.
func AskDaemon() (state, error) { return askStateOf(api.Socket) }

func askStateOf(socket string) (s state, err error) {
	s.client = &api.Client{Socket: socket, KeepAlive: true}
	err = s.client.Do("GET", api.Status, nil, &s.Daemon)
	if err == nil && s.Protocol != api.Protocol {
		err = fmt.Errorf("toolguardd is of another version (%s) than this toolguard (%s): install both of one, and restart toolguardd "+
			"('systemctl restart toolguardd')", s.Version, version.String())
	}
	return s, err
}

// remote is the bpf backend of a user who may not load programs: toolguardd has them loaded, makes the session, and puts one of
// this process's threads into it. All the rest is as without toolguardd. Where it takes no part ok is false; the error says why it can't,
// and is nil where it is not set up or it isn't wanted.
func remote(daemon string, asked AskState) (b Backend, ok bool, err error) {
	if daemon == "none" || daemon != "require" && !HasDaemon() {
		return Backend{}, false, nil
	}
	status, err := asked()
	if err == nil && status.Why != "" {
		err = fmt.Errorf("toolguardd can make no session: %s", status.Why)
	}
	if err == nil && unix.Access(image.Canary, unix.F_OK) == unix.ENOENT { // as in a container that has nothing but the socket
		err = fmt.Errorf("toolguardd's folder isn't here: mount all of %s, not the socket alone", filepath.Dir(api.Socket))
	}
	if err != nil {
		return Backend{}, false, err
	}
	net := &Network{}
	return Backend{
		name:    "bpf",
		Network: net,
		gaps:    lentGaps,
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

var lentGaps = append(slices.Clone(bpfGaps[:len(bpfGaps)-1]),
	"when toolguard is killed (kill -9), toolguardd ends the session, but its TMPDIR stays",
	"where toolguardd can't hold the network, which ports were refused is told to root only")
