package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/seccomp"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/session/launch"
	"github.com/toolguard/toolguard/internal/session/network"
	"github.com/toolguard/toolguard/internal/version"
)

// state is what toolguardd says of itself, and the client that has asked.
type state struct {
	client *api.Client
	api.Daemon
}

// hasDaemon reports whether there's a toolguardd to ask. Most starts find none, and package net would set its poller up.
func hasDaemon() bool { return unix.Access(api.Socket, unix.F_OK) != unix.ENOENT }

func askState() (state, error) { return askStateOf(api.Socket) }

func askStateOf(socket string) (s state, err error) {
	s.client = &api.Client{Socket: socket, Keep: true}
	err = s.client.Do("GET", api.Status, nil, &s.Daemon)
	if err == nil && s.Protocol != api.Protocol {
		err = fmt.Errorf("toolguardd is of another version (%s) than this toolguard (%s): install both of one, and restart toolguardd "+
			"('systemctl restart toolguardd')", s.Version, version.String())
	}
	return s, err
}

// remote is the bpf backend of a user who may not load programs: toolguardd has them loaded, makes the session, and puts one of
// this process's threads into it. All the rest is as without toolguardd. Where it takes no part ok is false; the error says why it can't,
// and is nil where nobody has set it up or it isn't wanted.
func remote(daemon string, asked asking) (b backend, ok bool, err error) {
	if daemon == "none" || daemon != "require" && !hasDaemon() {
		return backend{}, false, nil
	}
	status, err := asked()
	if err == nil && status.Why != "" {
		err = fmt.Errorf("toolguardd can make no session: %s", status.Why)
	}
	if err == nil && unix.Access(image.Canary, unix.F_OK) == unix.ENOENT { // as in a container that has nothing but the socket
		err = fmt.Errorf("toolguardd's folder isn't here: mount all of %s, not the socket alone", filepath.Dir(api.Socket))
	}
	if err != nil {
		return backend{}, false, err
	}
	net := &heldNetwork{}
	return backend{
		name:  "bpf",
		net:   net,
		gaps:  lentGaps,
		level: seccomp.FullMediation,
		hold:  func(r *run) error { return r.borrow(status.client) },
		cover: func(c *policy.Compiled) []policy.Coverage {
			_, err := image.New(c, 1)
			abi, _ := landlockABI()
			ports := net.coverLent(c, landlock.CoverPorts(c, abi), status.Network)
			ports = coverRings(c, ports, seccomp.Backend{ABI: seccomp.FullMediation, Net: net.held()})
			rows := slices.Concat(coverPrograms(c, err), ports, coverEnv(c), coverLimits(c), coverAudit(c, "bpf", ""))
			if needsCgroup(c.Limits) {
				rows = append(rows, cgroup.Report(c, status.Cgroups)...)
			}
			return rows
		},
	}, true, nil
}

var lentGaps = append(slices.Clone(bpfGaps[:len(bpfGaps)-1]),
	"when toolguard is killed (kill -9), toolguardd ends the session, but its TMPDIR stays",
	"where toolguardd can't hold the network, which ports were refused is told to root only")

// lent is a session that toolguardd owns.
type lent struct {
	client *api.Client
	id     string
	join   *os.File                 // see command.join
	told   <-chan outcome[struct{}] // all has been heard; nil: nobody listens
	ended  chan struct{}            // closed when the session is, or nobody is there to end it
	r      *run
}

// borrow has toolguardd make the session. Nobody is in it yet.
func (r *run) borrow(client *api.Client) error {
	st := api.Start{
		Policy: r.cfg.Policy, Limits: r.wanted(), Argv: r.cfg.Argv, Tool: r.cfg.Tool, Agent: r.cfg.Agent,
		Degraded: degraded(r.report.Notes), Removed: event.TruncateList(r.result.RemovedEnv), Linger: r.cfg.Linger,
	}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		st.Home = home
	}
	if r.net.held() {
		list, err := network.Resolvers("/etc/resolv.conf")
		if err != nil {
			return fmt.Errorf("find the machine's name servers: %w", err)
		}
		st.Network = &api.Network{Resolvers: list, Proxies: r.cfg.Proxies}
	}
	var s api.Session
	err := client.Do("POST", api.Sessions, st, &s)
	if err != nil {
		return err
	}
	if r.net.held() && (!s.Network || s.Cgroup == "") {
		return errors.New("toolguardd doesn't hold the session's network: it's of another version")
	}
	r.net.bundle = s.Bundle
	number, err := strconv.ParseUint(s.ID, 16, 64)
	if err != nil || len(s.ID) != 16 {
		return fmt.Errorf("toolguardd: a session %q", s.ID)
	}
	l := &lent{client: client, id: s.ID, ended: make(chan struct{}), r: r}
	r.number, r.id, r.held, r.within = number, s.ID, l, s.Within != ""
	if s.Cgroup != "" {
		l.join, err = client.Handed("POST", l.path(api.Command))
	}
	return err
}

func (l *lent) path(what string) string { return api.Sessions + "/" + l.id + what }

// Adopt has toolguardd put the calling thread into the session, and proves that it's in. It may not speak to toolguardd any more then: hear
// does from another thread.
func (l *lent) Adopt() error {
	thread := api.Enter{Thread: unix.Gettid()}
	asked := false
	ask := func() error {
		asked = true
		return l.client.Do("PUT", l.path(api.Thread), thread, nil)
	}
	var err error
	if !l.r.within {
		err = loader.SelfTest(ask)
	}
	if l.r.within || !asked && errors.Is(err, unix.EACCES) { // guarded already: that it has changed sessions the kernel tells toolguardd
		err = ask()
		_ = loader.TryCanary() // something that the programs decide about: they adopt it with that
	}
	return err
}

// hear tells toolguardd that the thread is in, and begins to receive what it hears of the session.
func (l *lent) hear(d *denials.Collector) error {
	opened := <-async(func() (*api.Stream, error) { return l.client.Follow(l.path(api.Notices)) })
	if opened.err != nil {
		return opened.err
	}
	l.told = async(func() (struct{}, error) { return struct{}{}, l.receive(opened.value, d) })
	return nil
}

// receive takes events in until the session is over. When toolguardd ends first, the session goes on, and another toolguardd
// tells what follows.
func (l *lent) receive(s *api.Stream, d *denials.Collector) error {
	for {
		var n api.Notice
		err := s.Next(&n)
		switch {
		case err == nil && n.End != nil:
			time.AfterFunc(launch.Patience, l.r.giveUp) // the first process should have ended with it
			return s.Close()
		case err == nil && n.Event != nil:
			d.Forward(*n.Event)
			continue
		}
		_ = s.Close()
		if s, err = l.again(); err != nil {
			d.Missed("toolguardd", "toolguardd ended meanwhile")
			return err
		}
		d.Missed("toolguardd", "toolguardd ended meanwhile")
	}
}

// again waits for another toolguardd, as long as the session goes on. One that says no isn't asked again.
func (l *lent) again() (*api.Stream, error) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		time.Sleep(pause)
		s, err := l.client.Follow(l.path(api.Notices))
		var refusal *api.Refusal
		if err == nil || errors.As(err, &refusal) {
			return s, err
		}
		select {
		case <-l.ended:
			return nil, err
		default:
		}
	}
}

// End has toolguardd end what is left of the session, and waits until all that happened in it has been told.
func (l *lent) End() (loader.Counts, error) {
	if l.join != nil {
		_ = l.join.Close()
	}
	var end api.End
	err := l.client.Do("POST", l.path(api.Ended), api.Outcome{Exit: l.r.exit()}, &end)
	l.r.usage = end.Usage
	close(l.ended)
	if l.told != nil {
		err = errors.Join(err, (<-l.told).err)
	}
	return loader.Counts{}, err
}
