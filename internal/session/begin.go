package session

import (
	"errors"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// Session is a session that hasn't been given a policy yet: its TMPDIR exists, which the policy must know, and what the
// machine has to say is being asked for, while the policy is read.
type Session struct {
	Tmp     string // the private TMPDIR, canonical
	remove  func() error
	lingers bool // the command was let go on, and with it the TMPDIR
	machine *machine
	unheard error // why auditing couldn't be put back as it was, after the run
}

// Begin makes a session. Close it, whether it ran or not. With deaf, denials are enforced and nobody hears of them, which
// saves root the millisecond that it takes to ask the kernel. With daemon toolguardd is asked ahead, if there is one.
func Begin(deaf, daemon bool) (*Session, error) {
	if err := launch.CheckCapacity(); err != nil {
		return nil, err
	}
	m := ask(deaf, daemon)
	dir, remove, err := launch.MakeTempDir(api.TmpPrefix)
	if err != nil {
		return nil, errors.Join(err, m.letGo())
	}
	return &Session{Tmp: dir, remove: remove, machine: m}, nil
}

// Close removes the TMPDIR with all that is in it, unless the command was let linger, and lets go of the machine.
func (s *Session) Close() error {
	var err error
	if !s.lingers {
		err = s.remove()
	}
	return errors.Join(err, s.unheard, s.machine.letGo())
}
