package session

import (
	"errors"
	"fmt"
	"os"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// listen collects the kernel's records of denials, if this user or toolguardd may read them.
func (r *run) listen() error {
	r.denials = denials.NewCollector(r.denialsConfig())
	reader, err := r.preflight.AuditReader()
	if err != nil {
		if err = r.subscribe(err); err != nil {
			r.denials.Unrecorded(err)
			r.warnUnread(err)
		}
		return nil
	}
	s := kernelaudit.Session{Audit: reader.AuditSession, Name: r.cmd.Name}
	if reader.AuditSessionErr != nil {
		s.PID = os.Getpid()
		r.cfg.notice("denials by system call filters can't be attributed and won't be shown: %v", reader.AuditSessionErr)
	}
	d, self := r.denials, r.self
	w, err := reader.Watch(s, func(k kernelaudit.Denial) {
		if k.PID != self { // toolguard's own kill(-1) signals every process of the machine (see launch.Thread)
			d.Receive(k)
		}
	})
	if err != nil {
		r.denials = nil
		return errors.Join(err, reader.Close())
	}
	d.CollectRecords(ownRecords{reader.Reader, w}, r.warnUnread)
	return nil
}

// warnUnread warns that denials aren't shown.
func (r *run) warnUnread(err error) {
	switch {
	case r.cfg.Events == nil:
	case r.report.Backend != "bpf":
		r.cfg.notice("denials are enforced but can't be shown: %v", err)
	case r.cmd.Plan != nil && !r.cfg.Policy.DeniesNet(): // the BPF programs report all other denials, and without the network there are no ports
		r.cfg.notice("denials of ports are enforced but can't be shown: %v", err)
	}
}

// ownRecords are the records that this process reads.
type ownRecords struct {
	*kernelaudit.Reader
	*kernelaudit.Watch
}

// subscribe makes toolguardd read the records; why is the reason why this process can't.
func (r *run) subscribe(why error) error {
	if errors.Is(why, launch.ErrWithoutDenials) || r.opened != nil {
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
	r.cmd.Name = begin.Name
	// toolguardd finds denied system calls by the audit session. A logged-in user has one and may not begin another: then toolguardd uses /proc.
	r.thread.Do(func() { _, _ = kernelaudit.FreshSession() })
	r.denials.Subscribe(stream, begin.PID != r.self)
	return nil
}

// subscription subscribes to toolguardd's reports of denials by Landlock.
func subscription(daemon string) (*api.Stream, error) {
	if err := landlock.Audited(); err != nil {
		return nil, err
	}
	switch {
	case daemon == "none":
		return nil, errors.New("toolguardd reads ordinary users' denials: leave out --daemon none")
	case !backend.HasDaemon():
		return nil, errors.New("toolguardd reads ordinary users' denials, and it isn't set up here: docs/daemon.md")
	}
	return (&api.Client{Socket: api.Socket}).Follow(api.Denials)
}
