// Package lastrun adds what allows the denials of a stored run to a policy of that run, or to another file.
package lastrun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/grant"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/userfiles"
)

// NotAdded is a denial whose grant isn't added.
type NotAdded struct {
	N      int
	Denial *userfiles.Denial
	Why    *grant.Rejection
}

// Grant returns a denial as package grant has it.
func Grant(d *userfiles.Denial) grant.Denial {
	return grant.Denial{
		Resource: d.Resource, Capability: d.Capability, Target: d.Target, Reason: d.Reason, Asked: d.Asked, Suggest: d.Suggest,
		Mechanism: d.Mechanism, Extra: d.Extra,
	}
}

// PolicyOf returns the one file of the run's policy, or the user's own for its workspace if there was none; "" where it is unknown.
func PolicyOf(run *userfiles.Run) string {
	switch files := run.Flags.Policies; len(files) {
	case 0:
		file, _, _ := policyload.OwnFolders().FindPolicy(run.Workspace)
		return file
	case 1:
		if filepath.IsAbs(files[0]) {
			return files[0]
		}
	}
	return ""
}

// AddGrants adds rules that allow the denials to the policy's text.
func AddGrants(p *grant.Policy, run *userfiles.Run, numbers []int, force bool) (left []NotAdded, err error) {
	for i := range run.Denials {
		d := &run.Denials[i]
		if len(numbers) > 0 && !slices.Contains(numbers, i+1) {
			continue
		}
		g := Grant(d)
		text, err := p.Add(&g, force)
		var rejection *grant.Rejection
		switch {
		case errors.As(err, &rejection):
			left = append(left, NotAdded{N: i + 1, Denial: d, Why: rejection})
		case err != nil:
			return nil, err
		default:
			p.Text = text
		}
	}
	return left, nil
}

// PolicyToEdit returns a file of the run's policy, or else one that applies alone, with a text that can be changed.
func PolicyToEdit(run *userfiles.Run, file string, text []byte) *grant.Policy {
	flags := policyload.OfRun(&run.Flags)
	e := policyload.Edited{Name: file, Text: text}
	flags.Edited = &e
	if _, _ = flags.Load(""); !e.Used { // nor is it what a file of the policy extends
		flags.Files = []string{file}
	}
	return &grant.Policy{Text: text, System: hostfs.Machine{}, Load: func(text []byte) (*policy.Compiled, error) {
		p := flags
		p.Edited = &policyload.Edited{Name: file, Text: text}
		return p.Load("")
	}}
}

// ReadEditable reads a policy that this user may change, and returns its absolute name.
func ReadEditable(name string) (file string, text []byte, err error) {
	if file, err = filepath.Abs(name); err != nil {
		return "", nil, err
	}
	info, err := os.Lstat(file)
	switch {
	case strings.HasPrefix(name, "preset:"):
		err = fmt.Errorf("%s is built in: name a file that extends it", name)
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("there is no %s: 'toolguard policy init --output FILE' writes a policy to begin with", file)
	case err != nil:
	case info.Mode()&fs.ModeSymlink != 0:
		real, _ := filepath.EvalSymlinks(file)
		err = fmt.Errorf("%s is a symlink, to %s: name the file itself", file, real)
	case strings.HasPrefix(realFolder(file)+"/", filepath.Dir(policyload.HostPolicies)+"/"):
		err = fmt.Errorf("%s is a policy of this machine, for everybody: change it by hand, as root", file)
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s isn't a regular file", file)
	case unix.Access(file, unix.W_OK) != nil:
		err = fmt.Errorf("%s may not be written by this user: have its owner add what 'toolguard why' suggests", file)
	default:
		text, err = hostfs.Machine{}.Read(file, MaxPolicy+1)
	}
	return file, text, err
}

// MaxPolicy is the most bytes that the text of a policy may have.
const MaxPolicy = 1 << 20

// realFolder returns the canonical path of a file's folder.
func realFolder(file string) string {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(file)); err == nil {
		return dir
	}
	return filepath.Dir(file)
}
