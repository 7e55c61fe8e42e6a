package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"weak"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup/managed"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
)

func (d *Daemon) folder() string { return filepath.Join(d.cfg.State, "sessions") }

func (d *Daemon) file(id string) string { return filepath.Join(d.folder(), id, "session.json") }

func (d *Daemon) policyFile(id string, generation uint32) string {
	return filepath.Join(d.folder(), id, fmt.Sprintf("policy-%d.json", generation))
}

// openState makes the folder of the sessions' files, and makes sure that no other toolguardd uses it.
func (d *Daemon) openState() error {
	if err := os.MkdirAll(d.folder(), 0o700); err != nil {
		return err
	}
	fd, err := unix.Open(filepath.Join(d.cfg.State, "lock"), unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("open the lock in %s: %w", d.cfg.State, err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil { // held as long as this process lives
		return fmt.Errorf("another toolguardd uses %s", d.cfg.State)
	}
	return nil
}

// save writes a session's file, all of it or nothing.
func (d *Daemon) save(r *record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return refuse(422, "%v", err)
	}
	if err := replace(d.file(r.Info.ID), text); err != nil {
		return fmt.Errorf("keep what session %s is: %w", r.Info.ID, err)
	}
	return nil
}

// replace writes a file, all of it or nothing as long as the machine runs: sessions end with it, so nobody waits for a disk, as
// audit.Replace does.
func replace(name string, text []byte) error {
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// savePolicy writes the file of the policy in force, which the session's file, written next, names: what it is, and what was asked for if
// that isn't the same.
func (d *Daemon) savePolicy(r *record, p *policies) error {
	text, err := p.inForce.MarshalJSON() // not by json.Marshal, which reads it all once more
	if err == nil && p.asked != p.inForce {
		var asked []byte
		asked, err = p.asked.MarshalJSON()
		text = append(append(text, '\n'), asked...)
	}
	if err != nil {
		return refuse(422, "%v", err)
	}
	name := d.policyFile(r.Info.ID, r.Generation)
	err = os.Mkdir(filepath.Dir(name), 0o700)
	if err == nil || errors.Is(err, os.ErrExist) {
		err = replace(name, text)
	}
	if err != nil {
		return fmt.Errorf("keep the policy of session %s: %w", r.Info.ID, err)
	}
	return nil
}

// loadPolicies reads a session's policies.
func (d *Daemon) loadPolicies(r *record) (*policies, error) {
	d.tidy.Reset(quiet)
	p := &policies{size: r.Size, all: map[uint32]*policy.Compiled{}}
	for generation := range r.Sizes {
		c, asked, err := readPolicy(d.policyFile(r.Info.ID, generation))
		if err != nil {
			return nil, err
		}
		p.all[generation] = c
		if generation == r.Generation {
			p.inForce, p.asked = c, asked
		}
	}
	if p.inForce == nil {
		return nil, errors.New("its file doesn't say which policy is in force")
	}
	return p, nil
}

// readPolicy reads what savePolicy has written.
func readPolicy(name string) (c, asked *policy.Compiled, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if err := dec.Decode(&c); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := dec.Decode(&asked); err == io.EOF {
		asked = c
	} else if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, asked, nil
}

// removePolicies removes those that were kept before and aren't any more. What stays goes with the session.
func (d *Daemon) removePolicies(before, now *record) {
	for generation := range before.Sizes {
		if _, kept := now.Sizes[generation]; !kept {
			_ = os.Remove(d.policyFile(now.Info.ID, generation))
		}
	}
}

// remove forgets a session: first what says that there is one.
func (d *Daemon) remove(id string) {
	err := os.Remove(d.file(id))
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = os.RemoveAll(filepath.Join(d.folder(), id))
	}
	if err != nil {
		d.log("forget session %s: %v", id, err)
	}
}

// takeOver makes this toolguardd the owner of the sessions that one before has left.
func (d *Daemon) takeOver() {
	entries, err := os.ReadDir(d.folder())
	if err != nil {
		d.log("look for sessions to take over: %v", err)
	}
	for _, e := range entries {
		id := e.Name()
		if !e.IsDir() {
			d.log("%s is removed: it's of a version of toolguard that kept its sessions otherwise", id)
			_ = os.Remove(filepath.Join(d.folder(), id))
			continue
		}
		switch err := d.resume(id); {
		case errors.Is(err, loader.ErrOver):
			d.over(id)
		case err != nil:
			d.log("session %s can't be taken over: it stays guarded, and nobody hears of it: %v", id, err)
		}
	}
	taken := d.all(0)
	for _, s := range taken { // when all are known, those around first
		if err := s.catchUp(); err != nil {
			d.log("session %s is ended: it can't be held to the policy that it was to get: %v", s.id, err)
			s.stop()
		}
		go s.supervise()
		if s.now() != api.Starting {
			go s.alongside()
		}
	}
	d.hub.publish(0, &event.Event{Kind: event.Daemon, Mechanism: "toolguardd", Extra: map[string]string{
		"what": "toolguardd started", "sessions": fmt.Sprint(len(taken)),
	}})
	if len(taken) > 0 {
		d.note(fmt.Sprintf("%d sessions taken over", len(taken)))
	}
}

func (d *Daemon) load(id string) (*record, error) {
	r := &record{}
	text, err := os.ReadFile(d.file(id))
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err == nil && r.Info.ID != id {
		err = errors.New("its file doesn't say what it is")
	}
	return r, err
}

// resume takes one session over.
func (d *Daemon) resume(id string) error {
	r, err := d.load(id)
	if errors.Is(err, os.ErrNotExist) { // toolguardd was killed while it made or forgot it
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
			d.log("session %s: its limits hold, and its cgroup can't be looked at: %v", id, err)
			s.noGroup.Store(&err)
		} else {
			s.group.Store(g)
		}
	}
	switch {
	case r.Info.State != api.Starting:
		s.follow(true)
		s.denials.Missed("toolguardd", "there was no toolguardd for a while: what its predecessor had collected and not emitted yet is lost")
	case r.Thread != 0:
		s.expect()
	}
	if r.Net != nil {
		s.resumeNetwork(p.inForce)
	}
	d.mu.Lock()
	d.sessions[r.Number] = s
	d.mu.Unlock()
	return nil
}

// catchUp finishes what a toolguardd before was killed in: to give the session the policy that its file has, or to put it within that of
// the session around it.
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
	if s.d.holds(s.from, p.inForce) != nil {
		return s.again()
	}
	return nil
}

// over cleans up after a session that has ended while there was no toolguardd, or is another version's.
func (d *Daemon) over(id string) {
	r, err := d.load(id)
	if err != nil {
		return
	}
	if r.Info.Cgroup != "" {
		if g, err := managed.Open(r.Info.Cgroup); err == nil {
			if busy, err := g.Populated(); err == nil && busy {
				d.log("session %s was being ended, or is of another version of toolguard: what runs in it still stays guarded, and nobody hears of it", id)
				return
			}
			_ = g.Remove()
		}
	}
	d.remove(id)
}
