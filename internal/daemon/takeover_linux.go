package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"weak"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup/managed"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/proc"
)

// takeOver makes this toolguardd the owner of the sessions of the former one.
func (d *Daemon) takeOver() {
	entries, err := os.ReadDir(d.folder())
	if err != nil {
		d.log("look for sessions to take over: %v", err)
	}
	for _, e := range entries {
		id := e.Name()
		if !e.IsDir() {
			d.log("%s is removed: it belongs to another version of toolguard", id)
			_ = os.Remove(filepath.Join(d.folder(), id))
			continue
		}
		switch err := d.resume(id); {
		case errors.Is(err, loader.ErrEnded):
			d.removeEnded(id)
		case err != nil:
			d.log("session %s can't be taken over: it stays confined, and its denials go unreported: %v", id, err)
		}
	}
	taken := d.all(0)
	for _, s := range taken { // when all are known, outer ones first
		if err := s.catchUp(); err != nil {
			d.log("session %s is ended: its requested policy can't be applied: %v", s.id, err)
			s.stop()
		}
		go s.supervise()
		if s.currentState() != api.Starting {
			go s.moveIntoGroup()
		}
	}
	d.hub.publish(0, &event.Event{Kind: event.Daemon, Mechanism: "toolguardd", Extra: map[string]string{
		"what": "toolguardd started", "sessions": fmt.Sprint(len(taken)),
	}})
	if len(taken) > 0 {
		d.note(fmt.Sprintf("%d sessions taken over", len(taken)))
	}
}

// resume takes over one session.
func (d *Daemon) resume(id string) error {
	r, err := d.load(id)
	if errors.Is(err, os.ErrNotExist) { // toolguardd was killed while it made or removed it
		d.remove(id)
		return nil
	}
	if err != nil {
		return err
	}
	kernel, err := d.kernel.Resume(r.Number)
	if err != nil {
		return err
	}
	p, err := d.loadPolicies(r)
	if err != nil {
		kernel.Detach()
		return err
	}
	client, err := proc.Open(r.Info.PID, r.Client)
	if err != nil {
		client = proc.Ended(r.Info.PID)
	}
	s := d.newSession(r, client)
	s.kernel, s.recent = kernel, weak.Make(p)
	if r.Info.Cgroup != "" {
		if g, err := managed.Open(r.Info.Cgroup); err != nil {
			d.log("session %s: its cgroup can't be opened, and its limits stay enforced: %v", id, err)
			s.noGroup.Store(&err)
		} else {
			s.group.Store(g)
		}
	}
	switch {
	case r.Info.State != api.Starting:
		s.followDenials(true)
		s.denials.Missed("toolguardd", "toolguardd was down: the denials that the former one had collected and not emitted are lost")
	case r.Thread != 0:
		s.endUnlessConfirmed()
	}
	if r.Net != nil {
		s.resumeNetwork(p.inForce)
	}
	d.mu.Lock()
	d.sessions[r.Number] = s
	d.mu.Unlock()
	return nil
}

// catchUp finishes what the former toolguardd was killed in: applying the policy that the session's file names, or restricting it by that
// of the outer session.
func (s *session) catchUp() error {
	g, err := s.kernel.Generation()
	if err != nil || g == s.record.Generation && s.from == 0 {
		return err
	}
	p, err := s.policies()
	if err != nil {
		return err
	}
	if now := s.record.Generation; g != now {
		img, err := image.New(p.inForce, now)
		if err == nil {
			err = s.reloadNetwork(now, p.inForce)
		}
		if err == nil {
			err = s.kernel.Reload(img)
		}
		if err != nil {
			return err
		}
	}
	if s.d.checkNested(s.from, p.inForce) != nil {
		return s.reapplyPolicy()
	}
	return nil
}

// removeEnded cleans up after a session that ended without a toolguardd, or that belongs to another version.
func (d *Daemon) removeEnded(id string) {
	r, err := d.load(id)
	if err != nil {
		return
	}
	if r.Info.Cgroup != "" {
		if g, err := managed.Open(r.Info.Cgroup); err == nil {
			if busy, err := g.Populated(); err == nil && busy {
				d.log("session %s was ending, or belongs to another version of toolguard: its processes stay confined, and their denials go unreported", id)
				return
			}
			_ = g.Remove()
		}
	}
	d.remove(id)
}
