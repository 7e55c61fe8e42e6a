package session

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/landlock"
)

// records are the kernel's audit records of one session, as this process reads them or toolguardd does.
type records interface {
	Listen()      // begins to deliver
	Prove() error // nil as soon as records are known to arrive
	Proven() bool
	Finish(context.Context) (kernelaudit.Totals, error) // delivers what is on its way
	Close() error
}

// ownRecords are read by this process.
type ownRecords struct {
	*kernelaudit.Reader
	*kernelaudit.Watch
}

// daemonRecords are read by toolguardd.
type daemonRecords struct {
	stream  *api.Stream
	denials *denials
	over    chan struct{}       // closed when nothing more comes
	totals  *kernelaudit.Totals // nil: the end didn't come
}

// subscribe has toolguardd read what this process may not, for the reason why.
func (d *denials) subscribe(why error) error {
	r := d.run
	if errors.Is(why, errDeaf) || r.held != nil {
		return why
	}
	stream, err := subscription(r.cfg.Daemon)
	if err != nil {
		if os.Geteuid() == 0 {
			err = fmt.Errorf("%w; %w", why, err)
		}
		return err
	}
	begin, err := stream.Begin()
	if err != nil {
		return errors.Join(err, stream.Close())
	}
	r.cmd.name, d.foreign = begin.Name, begin.PID != r.self
	// By it toolguardd finds denied system calls. Who has logged in has one, and may not begin another: then toolguardd looks at processes.
	r.in.do(func() { _, _ = kernelaudit.FreshSession() })
	d.records = &daemonRecords{stream: stream, denials: d, over: make(chan struct{})}
	return nil
}

// subscription asks toolguardd for what Landlock denies.
func subscription(daemon string) (*api.Stream, error) {
	if err := landlock.Audited(); err != nil {
		return nil, err
	}
	client := &api.Client{Socket: api.Socket}
	switch {
	case daemon == "none":
		return nil, errors.New("toolguardd reads what is denied for ordinary users: leave out --daemon none")
	case unix.Access(client.Socket, unix.F_OK) == unix.ENOENT: // package net would set its poller up
		return nil, errors.New("toolguardd reads what is denied for ordinary users, and nobody has set it up here: docs/daemon.md")
	}
	return client.Follow(api.Denials)
}

// subscribable is nil where toolguardd reads what Landlock denies for this user.
func subscribable() error {
	if err := landlock.Audited(); err != nil {
		return err
	}
	var status api.Daemon
	err := (&api.Client{Socket: api.Socket}).Do("GET", api.Status, nil, &status)
	if err == nil && status.Denials != "" {
		err = errors.New("toolguardd: " + status.Denials)
	}
	return err
}

// Listen begins to deliver.
func (s *daemonRecords) Listen() { go s.receive() }

func (s *daemonRecords) receive() {
	defer close(s.over)
	for {
		var r api.Record
		err := s.stream.Next(&r)
		switch {
		case err == nil && r.Denial != nil:
			for range max(1, r.Times) {
				s.denials.receive(*r.Denial)
			}
		case err == nil && r.Totals != nil:
			s.totals = r.Totals
			return
		case err != nil:
			s.denials.missed("toolguardd", "toolguardd ended meanwhile, and what was denied since isn't known")
			return
		}
	}
}

// Prove is nil: toolguardd had them proven before it answered.
func (s *daemonRecords) Prove() error { return nil }

// Proven is true.
func (s *daemonRecords) Proven() bool { return true }

// Finish has toolguardd report the rest. What was missed when it ended has been reported.
func (s *daemonRecords) Finish(ctx context.Context) (kernelaudit.Totals, error) {
	_ = s.stream.Send()
	select {
	case <-s.over:
	case <-ctx.Done():
		return kernelaudit.Totals{Why: "toolguardd doesn't report the end of them"}, nil
	}
	if s.totals == nil {
		return kernelaudit.Totals{Exact: true}, nil
	}
	return *s.totals, nil
}

// Close ends the subscription.
func (s *daemonRecords) Close() error { return s.stream.Close() }
