package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
)

func (d *Daemon) folder() string { return filepath.Join(d.cfg.State, "sessions") }

func (d *Daemon) file(id string) string { return filepath.Join(d.folder(), id+".json") }

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
	name := d.file(r.Info.ID)
	err = os.WriteFile(name+".new", text, 0o600)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		return fmt.Errorf("keep what session %s is: %w", r.Info.ID, err)
	}
	return nil
}

func (d *Daemon) remove(r *record) {
	if err := os.Remove(d.file(r.Info.ID)); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log("forget session %s: %v", r.Info.ID, err)
	}
}

// takeOver makes this toolguardd the owner of the sessions that one before has left.
func (d *Daemon) takeOver() {
	entries, err := os.ReadDir(d.folder())
	if err != nil {
		d.log("look for sessions to take over: %v", err)
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok { // of a toolguardd that was killed while it wrote
			_ = os.Remove(filepath.Join(d.folder(), e.Name()))
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
	}
	d.hub.publish(0, &event.Event{Kind: event.Daemon, Mechanism: "toolguardd", Extra: map[string]string{
		"what": "toolguardd started", "sessions": fmt.Sprint(len(taken)),
	}})
	if len(taken) > 0 {
		d.note(fmt.Sprintf("%d sessions taken over", len(taken)))
	}
}

func (d *Daemon) load(id string) (*record, error) {
	d.tidy.Reset(quiet)
	r := &record{}
	text, err := os.ReadFile(d.file(id))
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err == nil && (r.Info.ID != id || r.policy() == nil) {
		err = errors.New("its file doesn't say what it is")
	}
	return r, err
}

// resume takes one session over.
func (d *Daemon) resume(id string) error {
	r, err := d.load(id)
	if err != nil {
		return err
	}
	kernel, err := d.kernel.Resume(r.Number)
	if err != nil {
		return err
	}
	client, err := openProcess(r.Info.PID, r.Client)
	if err != nil {
		client = ended(r.Info.PID)
	}
	s := d.newSession(r, client)
	s.kernel = kernel
	if r.Info.Cgroup != "" {
		if s.group, err = cgroup.Open(r.Info.Cgroup); err != nil {
			d.log("session %s: its limits hold, and its cgroup can't be looked at: %v", id, err)
		}
	}
	switch {
	case r.Info.State != api.Starting:
		s.hear(true)
		s.hearing.Missed("there was no toolguardd for a while: what its predecessor had heard and not told yet is lost")
	case r.Thread != 0:
		s.expect()
	}
	if r.Net != nil {
		s.resumeNetwork(r)
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
	r, err := s.whole()
	if err != nil {
		return err
	}
	if g != r.Generation {
		image, err := loader.NewImage(r.policy(), r.Generation)
		if err == nil {
			err = s.reloadNetwork(r.Generation, r.policy())
		}
		if err == nil {
			err = s.kernel.Reload(image)
		}
		if err != nil {
			return err
		}
	}
	if s.d.holds(s.from, r.policy()) != nil {
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
		if g, err := cgroup.Open(r.Info.Cgroup); err == nil {
			if busy, err := g.Populated(); err == nil && busy {
				d.log("session %s is of another version of toolguard: it stays guarded, and nobody hears of it", id)
				return
			}
			_ = g.Remove()
		}
	}
	d.remove(r)
}
