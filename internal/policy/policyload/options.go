package policyload

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
	"github.com/toolguard/toolguard/internal/userfiles"
)

// HostPolicies is the folder of the host's policies: they restrict every session of the machine.
const HostPolicies = "/etc/toolguard/policy.d"

// Options select the policy, and the tool, agent and workspace that it applies to.
type Options struct {
	Files      []string // files, or "preset:NAME"
	Tool       string
	Agent      string
	Workspace  string
	Caller     Caller
	Limits     string
	NoDetect   bool
	Command    string                              // the command to run, as it's named; "" where there is none
	Presets    []string                            // of the coding agent to run: they come before the files, and detected presets before them
	Ensure     bool                                // folders that rules with ensure = true name are made
	Reads      bool                                // the policy is looked at, and no command is to run under it, nor a question to be answered
	Own        []string                            // files of toolguard's own, which no policy lets a command write
	OwnOf      func(*policyfile.Document) []string // more of them, under a policy that is about calls; nil: none
	UserPolicy string                              // the user's own policy, where no other one is named
	Dir        string                              // the current folder; "" is this process's
	Edited     *Edited                             // a file of the policy with another text than it has; nil: none
	Snapshot   *hostfs.Snapshot                    // what each file had when it was read first; nil: it's read each time
	Document   *policyfile.Document                // what Load has read
	Running    *Running                            // whose policy it's to be; nil: of a session that this process starts
}

// Caller is for whom a policy is asked. Only the command line names it.
type Caller struct {
	Profile, Provider, Model, Group, Environment string

	DefaultEnvironment string // of TOOLGUARD_ENVIRONMENT, which a project's files can set: agent ignores it

	Owner bool
	Depth uint16
}

// Running is a session that runs already, maybe another user's.
type Running struct {
	Home     string // its user's
	Terminal string // its own terminal device; "" if it has none
	Hidden   bool   // /dev/tty isn't the session's
}

// NamesCallers reports whether the policy that Load has read has tables for single profiles, providers, agents or groups.
func (o *Options) NamesCallers() bool {
	return slices.ContainsFunc(o.Document.Files, func(f *policyfile.File) bool {
		a := &f.Policy.Authorities
		return slices.ContainsFunc([]*policyfile.Named{a.Profile, a.Provider, a.Agent, a.Group}, func(n *policyfile.Named) bool {
			return n != nil && len(n.Names) > 0
		})
	})
}

// With returns the options with another policy.
func (o *Options) With(file string) *Options {
	p := *o
	p.Files = []string{file}
	return &p
}

// Folder returns the current folder.
func (o *Options) Folder() (string, error) {
	if o.Dir != "" {
		return o.Dir, nil
	}
	dir, err := os.Getwd()
	if errors.Is(err, fs.ErrNotExist) {
		return "", errors.New("the current folder was deleted: go to another one (cd)")
	} else if err != nil {
		return "", fmt.Errorf("find the current folder: %w", err)
	}
	return dir, nil
}

// UseUserPolicy selects the user's own policy for the workspace where the options name none. of is the folder that it's for; "" if
// none was selected.
func (o *Options) UseUserPolicy() (of string, err error) {
	if len(o.Files) > 0 {
		return "", nil
	}
	dir := o.Workspace
	if dir == "" {
		if dir, err = o.Folder(); err != nil {
			return "", err
		}
	}
	file, of, err := OwnFolders().FindPolicy(dir)
	if err != nil || file == "" {
		return "", err
	}
	o.Files, o.UserPolicy = []string{file}, file
	return of, nil
}

// Load reads and compiles the policy that the options name, and sets Document. tmp is the session's private TMPDIR, or "" without a
// session.
func (o *Options) Load(tmp string) (*policy.Compiled, error) {
	if slices.Contains(o.Files, "-") {
		return nil, errors.New("a policy can't come from standard input: name a file")
	}
	dir, err := o.Folder()
	if err != nil {
		return nil, err
	}
	src, doc, err := policyfile.Load(o.request(dir, tmp), o.system())
	if err != nil {
		return nil, err
	}
	o.Document = doc
	src.Own = o.ownFolders()
	if o.UserPolicy != "" {
		grantRuntime(src, o.UserPolicy, policy.Read)
	}
	if exe, err := os.Executable(); err == nil && len(src.ToolKeys) > 0 { // 'toolguard request' in the session
		grantRuntime(src, exe, policy.Read|policy.Execute)
	}
	if o.Ensure {
		if err := policyfile.Ensure(src); err != nil {
			return nil, err
		}
	}
	own := o.Own
	if o.OwnOf != nil && slices.ContainsFunc(src.ToolKeys, func(k policy.Key) bool { return k.OnCalls() }) {
		own = slices.Concat(own, o.OwnOf(doc))
	}
	for _, file := range own {
		if !filepath.IsAbs(file) {
			file = dir + "/" + file // not cleaned: what ".." means depends on symlinks
		}
		if !slices.Contains(src.Files, file) {
			src.Files = append(src.Files, file)
		}
	}
	c, err := policy.Compile(src, hostfs.Machine{})
	if err != nil {
		return nil, err
	}
	return c, checkSyscalls(c)
}

func (o *Options) request(dir, tmp string) policyfile.Request {
	r := o.selection(dir)
	r.Policies, r.AddDetected, r.HostDir = slices.Concat(o.Presets, o.Files), o.Presets != nil, HostPolicies
	r.Limits, r.Command, r.NoDetect = o.Limits, o.Command, o.NoDetect
	r.System, r.Path, r.TmpDir = runtime.GOOS, searchPath(), tmp
	if !o.Reads {
		r.NeverHome = homes()
	}
	if s := o.Running; s != nil { // the session's user, not the caller
		r.Home, r.Terminal, r.HideTTY = s.Home, s.Terminal, s.Hidden
	} else {
		r.Home, r.Terminal = Home(), terminal()
		r.HideTTY = r.Terminal == "" && controlled()
	}
	return r
}

// selection is a request with what selects the tables of the policy's files, and the workspace.
func (o *Options) selection(dir string) policyfile.Request {
	provider := o.Caller.Provider
	if o.Caller.Model != "" {
		provider += "/" + o.Caller.Model
	}
	return policyfile.Request{
		Tool: o.Tool, Agent: o.Agent, Profile: o.Caller.Profile, Provider: provider, Group: o.Caller.Group, Depth: int(o.Caller.Depth),
		Environment: o.Caller.Environment, DefaultEnvironment: o.Caller.DefaultEnvironment, Workspace: o.Workspace, Dir: dir,
	}
}

// system is where the policy's files are read.
func (o *Options) system() policyfile.Files {
	switch {
	case o.Edited != nil:
		return o.Edited
	case o.Snapshot != nil:
		return o.Snapshot
	}
	return hostfs.Machine{}
}

// ownFolders returns toolguard's folders of the session's user.
func (o *Options) ownFolders() []string {
	if o.Running != nil {
		return defaultFolders(o.Running.Home)
	}
	own := OwnFolders().All()
	if of := homes(); len(of) > 1 {
		own = append(own, defaultFolders(of[1])...)
	}
	return own
}

// grantRuntime lets the session use a file that a toolguard in the session needs, too.
func grantRuntime(src *policy.Source, file string, caps policy.Caps) {
	for i := range src.Layers {
		if l := &src.Layers[i]; l.Authority == policy.Session && len(l.Runtime) > 0 {
			l.Runtime = append(slices.Clip(l.Runtime), policy.FSRule{Path: file, Caps: caps, Optional: true, Position: policy.Position{File: policy.UserFolders}})
		}
	}
}

// Recorded returns the options as the record of a run has them.
func (o *Options) Recorded() userfiles.Flags {
	dir, _ := o.Folder() // it was known at the start
	f := userfiles.Flags{
		Dir: dir, Presets: o.Presets, Tool: o.Tool, Agent: o.Agent, Workspace: o.Workspace, Limits: o.Limits, NoDetect: o.NoDetect,
		Environment: o.Caller.Environment, DefaultEnvironment: o.Caller.DefaultEnvironment, Command: o.Command,
	}
	for _, p := range o.Files {
		if !strings.HasPrefix(p, "preset:") && !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		f.Policies = append(f.Policies, p)
	}
	return f
}

// OfRun returns the options that a record has.
func OfRun(f *userfiles.Flags) Options {
	return Options{
		Presets: f.Presets, Files: f.Policies, Tool: f.Tool, Agent: f.Agent, Workspace: f.Workspace, Limits: f.Limits, NoDetect: f.NoDetect,
		Command: f.Command, Dir: f.Dir, Caller: Caller{Environment: f.Environment, DefaultEnvironment: f.DefaultEnvironment},
	}
}
