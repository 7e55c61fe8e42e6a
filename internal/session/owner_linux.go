package session

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// noticePermissions shows that file permissions apply in a session, if they prevent root from writing a workspace of another user.
func (r *run) noticePermissions() {
	var st unix.Stat_t
	c := r.cfg.Policy
	root := event.Process{PID: os.Getpid()}
	if os.Geteuid() != 0 || denials.MayOverride(c) || !c.CheckFS(c.Workspace+"/x", policy.Create).Allow || !denials.Forbidden(c.Workspace, &root) || unix.Stat(c.Workspace, &st) != nil {
		return
	}
	r.cfg.notice("root has no CAP_DAC_OVERRIDE in a session, so file permissions apply, and %s belongs to user %d: "+
		"run toolguard as that user, or let the policy keep the capability: capabilities = [\"CAP_DAC_OVERRIDE\"]", c.Workspace, st.Uid)
}
