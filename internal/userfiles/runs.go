package userfiles

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The maximum number of stored denials and bytes of a run, and of workspaces.
const (
	maxDenials    = 200
	maxRunBytes   = 256 << 10
	maxWorkspaces = 64
)

// runVersion is the version of the format. Files of other versions are invalid.
const runVersion = 1

// Run is a stored run with denials.
type Run struct {
	Version   int       `json:"version"`
	Time      time.Time `json:"time"`
	Argv      []string  `json:"argv"` // without secrets
	Workspace string    `json:"workspace"`
	Policy    string    `json:"policy"` // its name
	Code      int       `json:"code"`   // the command's exit status
	Total     uint64    `json:"total"`  // denials, with repetitions and those that aren't stored
	Removed   []string  `json:"removed_env,omitempty"`
	Unseen    string    `json:"unseen,omitempty"` // why further denials are unknown; "" if all are known
	Flags     Flags     `json:"flags"`
	Denials   []Denial  `json:"denials"`
}

// Flags are the flags of the run that select the policy. Files are absolute.
type Flags struct {
	Dir                string   `json:"dir"`               // the current folder
	Presets            []string `json:"presets,omitempty"` // of the coding agent that ran: they precede the files
	Policies           []string `json:"policies,omitempty"`
	Tool               string   `json:"tool,omitempty"`
	Agent              string   `json:"agent,omitempty"`
	Workspace          string   `json:"workspace,omitempty"`
	Limits             string   `json:"limits,omitempty"`
	NoDetect           bool     `json:"no_detect,omitempty"`
	Environment        string   `json:"environment,omitempty"`
	DefaultEnvironment string   `json:"default_environment,omitempty"`
	Command            string   `json:"command,omitempty"`
	Backend            string   `json:"backend,omitempty"`
	Daemon             string   `json:"daemon,omitempty"`
	Degraded           []string `json:"allow_degraded,omitempty"`
}

// Denial is a stored denial: fields of event.Event.
type Denial struct {
	Resource   string            `json:"resource"`
	Capability string            `json:"capability"`
	Target     string            `json:"target"`
	Asked      string            `json:"asked,omitempty"`
	Reason     string            `json:"reason"`
	Rule       string            `json:"rule,omitempty"`
	Place      string            `json:"place,omitempty"`
	Suggest    string            `json:"suggest,omitempty"`
	Mechanism  string            `json:"mechanism,omitempty"`
	Errno      string            `json:"errno,omitempty"`
	Extra      map[string]string `json:"extra,omitempty"`
	Count      uint64            `json:"count"`
}

// runs returns the folder with one file for each workspace.
func (f Folders) runs() string { return filepath.Join(f.State, "runs") }

func (f Folders) runFile(workspace string) string {
	return filepath.Join(f.runs(), key(workspace)+".json")
}

// SaveRun stores a run as the last one of its workspace.
func (f Folders) SaveRun(r Run) error {
	if f.State == "" {
		return errNoHome
	}
	r.Version = runVersion
	text, err := r.encode()
	if err != nil {
		return err
	}
	if err := makeFolder(f.runs()); err != nil {
		return err
	}
	if err := checkOwners(f.runs(), f.State); err != nil {
		return err
	}
	if err := replace(f.runFile(r.Workspace), text); err != nil {
		return err
	}
	return f.prune()
}

// encode returns the run as JSON, with as many denials as fit.
func (r Run) encode() (text []byte, err error) {
	r.Denials = r.Denials[:min(len(r.Denials), maxDenials)]
	for {
		text, err = json.Marshal(r)
		if err != nil || len(text) <= maxRunBytes || len(r.Denials) == 0 {
			return text, err
		}
		r.Denials = r.Denials[:len(r.Denials)/2]
	}
}

// RemoveRun removes the stored run of a workspace, after a run without known denials.
func (f Folders) RemoveRun(workspace string) error {
	if _, err := os.Lstat(f.runs()); f.State == "" || err != nil || checkOwners(f.runs(), f.State) != nil {
		return nil // there is no file of this user
	}
	if err := os.Remove(f.runFile(workspace)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// LastRun returns the stored run of a folder or its nearest ancestor that has one, or nil.
func (f Folders) LastRun(dir string) (*Run, error) {
	if f.State == "" {
		return nil, nil
	}
	file, _, err := nearest(f.runs(), dir, ".json")
	if err != nil || file == "" {
		return nil, err
	}
	if err := checkFile(file); err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > 2*maxRunBytes {
		return nil, fmt.Errorf("%s isn't a file of toolguard: remove it", file)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(Run)
	if err := json.Unmarshal(text, r); err != nil || r.Version != runVersion {
		return nil, fmt.Errorf("%s is of another version of toolguard, or damaged: run the command again", file)
	}
	return r, nil
}

// prune removes the oldest runs beyond maxWorkspaces.
func (f Folders) prune() error {
	entries, err := os.ReadDir(f.runs())
	if err != nil || len(entries) <= maxWorkspaces {
		return err
	}
	age := func(e fs.DirEntry) time.Time {
		if info, err := e.Info(); err == nil {
			return info.ModTime()
		}
		return time.Time{}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Or(age(b).Compare(age(a)), cmp.Compare(a.Name(), b.Name())) })
	for _, e := range entries[maxWorkspaces:] {
		if err := os.Remove(filepath.Join(f.runs(), e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
