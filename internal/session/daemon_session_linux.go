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
	reloads  int           // how often its policy was replaced
	r        *run
}

// openDaemonSession makes toolguardd create the session, without a process in it.
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
		return errors.New("toolguardd doesn't enforce the session's network: it has another version")
	}
	r.net.Bundle = s.Bundle
	number, err := strconv.ParseUint(s.ID, 16, 64)
	if err != nil || len(s.ID) != 16 {
		return fmt.Errorf("toolguardd: a session %q", s.ID)
	}
	l := &daemonSession{client: client, id: s.ID, ended: make(chan struct{}), r: r}
	r.number, r.id, r.opened, r.nested = number, s.ID, l, s.Within != ""
	if s.Cgroup != "" {
		l.join, err = client.Upgrade("POST", l.path(api.Command))
	}
	return err
}

func (l *daemonSession) path(what string) string { return api.Sessions + "/" + l.id + what }

// Adopt makes toolguardd place the calling thread in the session, and checks that. Afterwards the thread can't connect to toolguardd, so collect
// connects from another one.
func (l *daemonSession) Adopt() error {
	thread := api.Enter{Thread: unix.Gettid()}
	requested := false
	request := func() error {
		requested = true
		return l.client.Do("PUT", l.path(api.Thread), thread, nil)
	}
	var err error
	if !l.r.nested {
		err = loader.SelfTest(request)
	}
	if l.r.nested || !requested && errors.Is(err, unix.EACCES) { // this process is confined already: the kernel reports the change of the session to toolguardd
		err = request()
		_ = loader.TryCanary() // the BPF programs adopt the thread at the first operation that they check
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

// receive receives events until the session ends. If toolguardd ends first the session continues, and the next toolguardd sends the later
// events.
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

// reconnect waits for the next toolguardd while the session lasts. It doesn't retry a rejected request.
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

// End makes toolguardd end the session's other processes, and waits until all events were received.
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
