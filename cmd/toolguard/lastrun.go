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
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/session"
	"github.com/toolguard/toolguard/internal/userfiles"
)

// saveRun stores the denials, for why and allow. With --report never it stores nothing, and the previous record stays.
func (a *app) saveRun(f *execFlags, c *policy.Compiled, argv []string, r session.Result) (kept bool) {
	switch own := policyload.OwnFolders(); {
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
	kept := userfiles.Run{
		Time: time.Now(), Argv: event.RedactArgv(event.TruncateArgv(argv)), Workspace: c.Workspace, Policy: c.Name, Code: r.Code,
		Total: r.Total, Removed: r.RemovedEnv, Flags: f.Recorded(),
	}
	kept.Flags.Backend, kept.Flags.Daemon, kept.Flags.Degraded = f.backend, f.daemon, f.degraded
	if !r.Visible {
		kept.Unseen = cmp.Or(r.WhyUnseen, "this user may not")
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
func flagsOf(r *userfiles.Run) (policyload.Options, backendFlags) {
	return policyload.OfRun(&r.Flags), backendFlags{backend: r.Flags.Backend, daemon: r.Flags.Daemon, degraded: r.Flags.Degraded}
}
