package session

import (
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// Run runs cfg.Argv under cfg.Policy, and returns when the session has ended. Only its TMPDIR remains. Call it once. An error means that the command was
// never started: *NotEnforceable, *NotFound, *NotExecutable, or a failure of toolguard or macOS.
func (s *Session) Run(cfg Config) (Result, error) {
	b, err := backend.Choose(cfg.Backend, cfg.Daemon, s.askDaemon)
	if err != nil {
		return Result{}, err
	}
	return s.runSeatbelt(cfg, &b, macSystem{cat: "/bin/cat", yes: "/usr/bin/true", log: "/usr/bin/log", processes: launch.ProcessTable})
}
