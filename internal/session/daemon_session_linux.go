package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/session/launch"
	"github.com/toolguard/toolguard/internal/session/network"
)

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
	if r.net.Enforces() {
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
	if r.net.Enforces() && (!s.Network || s.Cgroup == "") {
		return errors.New("toolguardd doesn't hold the session's network: it's of another version")
	}
	r.net.Bundle = s.Bundle
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
