package session

import (
	"errors"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// Session is a session without a policy. Its TMPDIR exists, because the policy refers to it. Work that waits for the kernel runs while the
// policy is read.
type Session struct {
	Tmp        string // the private TMPDIR, canonical
	remove     func() error
	lingers    bool // the command's processes continue, and the TMPDIR stays
	preflight  *launch.Preflight
	askDaemon  backend.AskState // requests toolguardd's state, once
	unrestored error            // why auditing couldn't be restored after the run

	withoutDenials bool // denials are not reported
}

// Begin makes a session. The caller must Close it, whether it ran or not. With withoutDenials, denials are enforced and not reported,
// which saves root a millisecond. With daemon, toolguardd's state is requested in advance, if toolguardd is set up.
func Begin(withoutDenials, daemon bool) (*Session, error) {
	if err := launch.CheckCapacity(); err != nil {
		return nil, err
	}
	ask, preflight := prefetchState(daemon), launch.StartPreflight(withoutDenials)
	dir, remove, err := launch.MakeTempDir(api.TmpPrefix)
	if err != nil {
		return nil, errors.Join(err, preflight.Close())
	}
	return &Session{Tmp: dir, remove: remove, preflight: preflight, askDaemon: ask, withoutDenials: withoutDenials}, nil
}

// Close removes the TMPDIR with its contents, unless the command lingers, and ends the preflight work.
func (s *Session) Close() error {
	var err error
	if !s.lingers {
		err = s.remove()
	}
	return errors.Join(err, s.unrestored, s.preflight.Close())
}
