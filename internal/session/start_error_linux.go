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
	c, path := r.cfg.Policy, r.cfg.canonical(r.cmd.Path)
	if v := c.CheckFS(path, policy.Execute); !v.Allow {
		return "the policy denies execute on " + path + ": " + r.decidingRule(v)
	}
	if v := c.CheckCommand(path, r.cfg.Argv); !v.Allow {
		why := "the policy doesn't list this command: " + r.decidingRule(v)
		if called := c.NameMismatch(v, r.cfg.Argv[0]); called != "" {
			why += ": " + called
		}
		return why
	}
	if v := c.CheckCommand(path, []string{r.cmd.Path}); v.Reason == policy.ArgsNotListed {
		if called := c.NameMismatch(v, r.cmd.Path); called != "" {
			return "the policy doesn't list this command: " + r.decidingRule(v) + ": " + called
		}
	}
	return err.Error()
}

func (r *run) decidingRule(v policy.Verdict) string {
	if v.Rule < 0 {
		return string(v.Reason)
	}
	rule := r.cfg.Policy.Rules[v.Rule]
	return fmt.Sprintf("%s, rule %s (%s)", v.Reason, rule.ID, rule.Position)
}
