package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

func (d *Daemon) folder() string { return filepath.Join(d.cfg.State, "sessions") }

func (d *Daemon) file(id string) string { return filepath.Join(d.folder(), id, "session.json") }

func (d *Daemon) policyFile(id string, generation uint32) string {
	return filepath.Join(d.folder(), id, fmt.Sprintf("policy-%d.json", generation))
}

// openState creates the folder of the sessions' files, and locks it against another toolguardd.
func (d *Daemon) openState() error {
	if err := os.MkdirAll(d.folder(), 0o700); err != nil {
		return err
	}
	fd, err := unix.Open(filepath.Join(d.cfg.State, "lock"), unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("open the lock in %s: %w", d.cfg.State, err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil { // locked as long as this process lives
		return fmt.Errorf("another toolguardd uses %s", d.cfg.State)
	}
	return nil
}

// save writes a session's file atomically.
func (d *Daemon) save(r *record) error {
	text, err := json.Marshal(r)
	if err != nil {
		return reject(422, "%v", err)
	}
	if err := replace(d.file(r.Info.ID), text); err != nil {
		return fmt.Errorf("write the file of session %s: %w", r.Info.ID, err)
	}
	return nil
}

// replace writes a file atomically for as long as the machine runs. It doesn't wait for the disk, unlike audit.Replace, because no session
// outlives the machine.
func replace(name string, text []byte) error {
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// savePolicy writes the file of the policy in force, and the policy that was requested if it differs. The session's file, which is written
// next, names it.
func (d *Daemon) savePolicy(r *record, p *policies) error {
	text, err := p.inForce.MarshalJSON() // not by json.Marshal, which reads it all once more
	if err == nil && p.asked != p.inForce {
		var asked []byte
		asked, err = p.asked.MarshalJSON()
		text = append(append(text, '\n'), asked...)
	}
	if err != nil {
		return reject(422, "%v", err)
	}
	name := d.policyFile(r.Info.ID, r.Generation)
	err = os.Mkdir(filepath.Dir(name), 0o700)
	if err == nil || errors.Is(err, os.ErrExist) {
		err = replace(name, text)
	}
	if err != nil {
		return fmt.Errorf("write the policy of session %s: %w", r.Info.ID, err)
	}
	return nil
}

// loadPolicies reads a session's policies.
func (d *Daemon) loadPolicies(r *record) (*policies, error) {
	d.freeMemory.Reset(freeMemoryDelay)
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
		return nil, errors.New("its file doesn't name the policy in force")
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

// removePolicies removes the files of policies that the session no longer needs.
func (d *Daemon) removePolicies(before, now *record) {
	for generation := range before.Sizes {
		if _, kept := now.Sizes[generation]; !kept {
			_ = os.Remove(d.policyFile(now.Info.ID, generation))
		}
	}
}

// remove removes a session's files: first the one that makes it a session.
func (d *Daemon) remove(id string) {
	err := os.Remove(d.file(id))
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = os.RemoveAll(filepath.Join(d.folder(), id))
	}
	if err != nil {
		d.log("remove the files of session %s: %v", id, err)
	}
}

func (d *Daemon) load(id string) (*record, error) {
	r := &record{}
	text, err := os.ReadFile(d.file(id))
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err == nil && r.Info.ID != id {
		err = errors.New("its file names another session")
	}
	return r, err
}
