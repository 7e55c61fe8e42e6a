package session

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// noticePermissions says once, where root couldn't work in the workspace because it's another user's, that file permissions apply in a session.
func (r *run) noticePermissions() {
	var st unix.Stat_t
	c := r.cfg.Policy
	root := event.Process{PID: os.Getpid()}
	if os.Geteuid() != 0 || denials.MayOverride(c) || !c.CheckFS(c.Workspace+"/x", policy.Create).Allow || !denials.Forbidden(c.Workspace, &root) || unix.Stat(c.Workspace, &st) != nil {
		return
	}
	r.cfg.notice("root has no CAP_DAC_OVERRIDE in a session, so ordinary permissions count, and %s is user %d's: "+
		"run toolguard as that user, or have the policy keep it: capabilities = [\"CAP_DAC_OVERRIDE\"]", c.Workspace, st.Uid)
}
