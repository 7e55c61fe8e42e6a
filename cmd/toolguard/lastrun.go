package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/api"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/grant"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/session"
	"github.com/toolguard/toolguard/internal/userfiles"
)

// saveRun stores the denials, for why and allow. With --report never it stores nothing, and the previous record stays.
func (a *app) saveRun(f *execFlags, c *policy.Compiled, argv []string, r session.Result) (kept bool) {
	switch own := ownFolders(); {
	case f.report == "never", nested():
	case len(r.Denials) == 0:
		_ = own.RemoveRun(c.Workspace) // a stale record would be of another run
	default:
		err := own.SaveRun(f.run(c, argv, r))
		if err != nil && !f.quiet {
			a.err.Message("the denials can't be stored for 'toolguard why': %v", err)
		}
		return err == nil
	}
	return false
}

// nested reports whether this toolguard was most likely started in a session, which may not write the record: an attempt would be a denial there.
func nested() bool { return strings.HasPrefix(filepath.Base(os.TempDir()), api.TmpPrefix) }

// run is the stored record of a run.
func (f *execFlags) run(c *policy.Compiled, argv []string, r session.Result) userfiles.Run {
	dir, _ := f.folder() // it was known at the start
	kept := userfiles.Run{
		Time: time.Now(), Argv: event.RedactArgv(event.TruncateArgv(argv)), Workspace: c.Workspace, Policy: c.Name, Code: r.Code,
		Total: r.Total, Removed: r.RemovedEnv,
		Flags: userfiles.Flags{
			Dir: dir, Presets: f.presets, Tool: f.tool, Agent: f.agent, Workspace: f.workspace, Limits: f.limits, NoDetect: f.noDetect,
			Environment: f.caller.environment, DefaultEnvironment: f.caller.defaultEnvironment,
			Command: f.command, Backend: f.backend, Daemon: f.daemon, Degraded: f.degraded,
		},
	}
	if !r.Visible {
		kept.Unseen = cmp.Or(r.WhyUnseen, "this user may not")
	}
	for _, p := range f.files {
		if !strings.HasPrefix(p, "preset:") && !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		kept.Flags.Policies = append(kept.Flags.Policies, p)
	}
	for _, d := range output.AnywayLast(r.Denials) {
		kept.Denials = append(kept.Denials, userfiles.Denial{
			Resource: d.Resource, Capability: d.Capability, Target: d.Target, Asked: d.Asked, Reason: d.Reason, Rule: d.Rule, Place: d.Place,
			Suggest: d.Suggest, Mechanism: d.Mechanism, Errno: d.Errno, Extra: d.Extra, Count: d.Count,
		})
	}
	return kept
}

// flagsOf returns the flags of the run.
func flagsOf(r *userfiles.Run) (policyFlags, backendFlags) {
	f := &r.Flags
	p := policyFlags{
		presets: f.Presets, files: f.Policies, tool: f.Tool, agent: f.Agent, workspace: f.Workspace, limits: f.Limits, noDetect: f.NoDetect,
		command: f.Command, dir: f.Dir, caller: caller{environment: f.Environment, defaultEnvironment: f.DefaultEnvironment},
	}
	return p, backendFlags{backend: f.Backend, daemon: f.Daemon, degraded: f.Degraded}
}

// grantOf converts a denial for package grant.
func grantOf(d *userfiles.Denial) grant.Denial {
	return grant.Denial{
		Resource: d.Resource, Capability: d.Capability, Target: d.Target, Reason: d.Reason, Asked: d.Asked, Suggest: d.Suggest,
		Mechanism: d.Mechanism, Extra: d.Extra,
	}
}

// edited is this machine with another text in one file.
type edited struct {
	hostfs.Machine
	name string // absolute
	text []byte
	read bool // it's of the policy
}

// Read implements policyfile.Files.
func (e *edited) Read(path string, limit int) ([]byte, error) {
	if path == e.name {
		e.read = true
		return e.text[:min(len(e.text), limit)], nil
	}
	return e.Machine.Read(path, limit)
}
