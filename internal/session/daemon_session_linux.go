package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/session/launch"
	"github.com/toolguard/toolguard/internal/session/network"
)

// prefetchState returns a function that requests toolguardd's state once. With now, the request is sent immediately if toolguardd is set up.
func prefetchState(now bool) backend.AskState {
	ask := sync.OnceValues(backend.AskDaemon)
	if now && backend.HasDaemon() {
		go ask()
	}
	return ask
}

// daemonSession is a session that toolguardd owns.
type daemonSession struct {
	client   *api.Client
	id       string
	join     *os.File      // see launch.Command.Join
	received <-chan error  // gets the result when all events were received; nil: none are received
	ended    chan struct{} // closed when the session has ended, or can't be ended
	r        *run
}

// openDaemonSession has toolguardd make the session, without a process in it.
func (r *run) openDaemonSession(client *api.Client) error {
	st := api.Start{
		Policy: r.cfg.Policy, Limits: r.wantedLimits(), Argv: r.cfg.Argv, Tool: r.cfg.Tool, Agent: r.cfg.Agent,
		Degraded: degraded(r.report.Notes), Removed: event.TruncateList(r.result.RemovedEnv), Linger: r.cfg.Linger,
	}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		st.Home = home
	}
	if r.net.Enforces() {
		list, err := network.MachineResolvers()
		if err != nil {
			return err
		}
		st.Network = &api.Network{Resolvers: list, Proxies: r.cfg.Proxies}
	}
	var s api.Session
	err := client.Do("POST", api.Sessions, st, &s)
	if err != nil {
		return err
	}
	if r.net.Enforces() && (!s.Network || s.Cgroup == "") {
		return errors.New("toolguardd doesn't enforce the session's network: it's of another version")
	}
	r.net.Bundle = s.Bundle
	number, err := strconv.ParseUint(s.ID, 16, 64)
	if err != nil || len(s.ID) != 16 {
		return fmt.Errorf("toolguardd: a session %q", s.ID)
	}
	l := &daemonSession{client: client, id: s.ID, ended: make(chan struct{}), r: r}
	r.number, r.id, r.opened, r.within = number, s.ID, l, s.Within != ""
	if s.Cgroup != "" {
		l.join, err = client.Handed("POST", l.path(api.Command))
	}
	return err
}

func (l *daemonSession) path(what string) string { return api.Sessions + "/" + l.id + what }

// Adopt has toolguardd place the calling thread in the session, and proves that. The thread can't connect to toolguardd any more then;
// collect does from another thread.
func (l *daemonSession) Adopt() error {
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
	if l.r.within || !asked && errors.Is(err, unix.EACCES) { // confined already: the kernel reports to toolguardd that the thread has changed sessions
		err = ask()
		_ = loader.TryCanary() // the programs adopt the thread with the first operation that they decide about
	}
	return err
}

// collect reports to toolguardd that the thread is in the session, and begins to receive the session's events.
func (l *daemonSession) collect(d *denials.Collector) error {
	opened, received := make(chan error), make(chan error, 1)
	go func() {
		s, err := l.client.Follow(l.path(api.Notices))
		if opened <- err; err == nil {
			received <- l.receive(s, d)
		}
	}()
	if err := <-opened; err != nil {
		return err
	}
	l.received = received
	return nil
}

// receive takes events in until the session ends. When toolguardd ends first, the session goes on, and the next toolguardd reports what
// follows.
func (l *daemonSession) receive(s *api.Stream, d *denials.Collector) error {
	for {
		var n api.Notice
		err := s.Next(&n)
		switch {
		case err == nil && n.End != nil:
			time.AfterFunc(launch.Patience, l.r.abortWait) // the first process should have ended with it
			return s.Close()
		case err == nil && n.Event != nil:
			d.Forward(*n.Event)
			continue
		}
		_ = s.Close()
		if s, err = l.reconnect(); err != nil {
			d.Missed("toolguardd", "toolguardd ended meanwhile")
			return err
		}
		d.Missed("toolguardd", "toolguardd ended meanwhile")
	}
}

// reconnect waits for the next toolguardd as long as the session goes on. One that rejects the request isn't asked again.
func (l *daemonSession) reconnect() (*api.Stream, error) {
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		time.Sleep(pause)
		s, err := l.client.Follow(l.path(api.Notices))
		var statusError *api.StatusError
		if err == nil || errors.As(err, &statusError) {
			return s, err
		}
		select {
		case <-l.ended:
			return nil, err
		default:
		}
	}
}

// End has toolguardd end the session's other processes, and waits until all of its events were received.
func (l *daemonSession) End() (loader.Counts, error) {
	if l.join != nil {
		_ = l.join.Close()
	}
	var end api.End
	err := l.client.Do("POST", l.path(api.Ended), api.Outcome{Exit: l.r.exit()}, &end)
	l.r.usage = end.Usage
	close(l.ended)
	if l.received != nil {
		err = errors.Join(err, <-l.received)
	}
	return loader.Counts{}, err
}
