package session

import (
	"errors"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// Session is a session without a policy yet. Its TMPDIR exists, since the policy must know it, and what waits for the kernel is being
// prepared while the policy is read.
type Session struct {
	Tmp        string // the private TMPDIR, canonical
	remove     func() error
	lingers    bool // the command's processes go on, and the TMPDIR stays
	machine    *machine
	unrestored error // why auditing couldn't be restored after the run
}

// Begin makes a session. Close it, whether it ran or not. With withoutDenials, denials are enforced and not reported,
// which saves root a millisecond. With daemon, toolguardd's state is asked for ahead, if there is one.
func Begin(withoutDenials, daemon bool) (*Session, error) {
	if err := launch.CheckCapacity(); err != nil {
		return nil, err
	}
	m := ask(withoutDenials, daemon)
	dir, remove, err := launch.MakeTempDir(api.TmpPrefix)
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return &Session{Tmp: dir, remove: remove, machine: m}, nil
}

// Close removes the TMPDIR with its contents, unless the command lingers, and ends what was prepared.
func (s *Session) Close() error {
	var err error
	if !s.lingers {
		err = s.remove()
	}
	return errors.Join(err, s.unrestored, s.machine.close())
}
