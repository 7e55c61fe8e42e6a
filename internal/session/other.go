//go:build !linux && !darwin

package session

import (
	"errors"

	"github.com/toolguard/toolguard/internal/session/backend"
)

// Run always fails on this platform.
func (s *Session) Run(cfg Config) (Result, error) {
	_, err := backend.ReportFor(cfg.Policy, cfg.Backend, cfg.Daemon, cfg.AllowDegraded)
	if err == nil {
		err = errors.New("this build starts nothing")
	}
	return Result{}, err
}
