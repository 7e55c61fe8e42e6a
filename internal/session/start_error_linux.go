package session

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/launch"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// startFailure returns why the command didn't start.
func (r *run) startFailure(err error) error {
	var fe *forkexec.Error
	if errors.As(err, &fe) {
		return fmt.Errorf("%w; nothing was started", err)
	}
	if errors.Is(err, syscall.ENOENT) {
		// Lookup has found the file, so its interpreter is missing.
		return &launch.NotFound{Name: r.cmd.Path + " (or its interpreter)"}
	}
	return &launch.NotExecutable{Path: r.cmd.Path, Why: r.startErrorReason(err)}
}

// startErrorReason explains a failed execve by the policy's rule, if the policy denies it.
func (r *run) startErrorReason(err error) string {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Sprintf("it isn't a program for this machine, and has no #! line: run a script by its interpreter, such as sh %s", r.cmd.Path)
	case !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EPERM):
		return err.Error()
	}
	if why := r.cfg.executionDenied(r.cmd.Path); why != "" {
		return why
	}
	c := r.cfg.Policy
	if v := c.CheckCommand(r.cfg.canonical(r.cmd.Path), []string{r.cmd.Path}); v.Reason == policy.ArgsNotListed {
		if called := c.NameMismatch(v, r.cmd.Path); called != "" {
			return "the policy doesn't list this command: " + decidingRule(c, v) + ": " + called
		}
	}
	return err.Error()
}
