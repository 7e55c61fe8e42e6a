package session

import (
	"errors"
	"fmt"

	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// held is a session in the kernel.
type held interface {
	Adopt() error                    // puts the calling thread into it
	hear(d *denials.Collector) error // begins to tell what is refused in it
	End() (loader.Counts, error)     // gives it up
}

// local is a session that this process owns.
type local struct {
	*loader.Session
	kernel *loader.Kernel // nil: it stays open
}

func (l *local) hear(d *denials.Collector) error {
	d.Listen(l.Session)
	return nil
}

func (l *local) End() (loader.Counts, error) {
	if l.kernel != nil {
		defer l.kernel.Close()
	}
	return l.Session.End()
}

// open has the session made in the kernel, where the backend has one.
func (r *run) open() error {
	switch r.backend.Maker {
	case backend.ThisProcess:
		return r.hold(r.backend.Image)
	case backend.Daemon:
		return r.borrow(r.backend.Client)
	}
	return nil
}

// hold makes the session in the kernel. Nobody is in it yet.
func (r *run) hold(img *image.Image) error {
	if img == nil {
		return errors.New("the bpf backend can't be given this policy")
	}
	kernel, err := loader.Open(r.cfg.Notice)
	if err != nil {
		return fmt.Errorf("the bpf backend can't be used: %w", err)
	}
	flags := loader.FlagsOf(r.cfg.Policy)
	if r.net.Enforces() {
		flags |= loader.Sockets
	}
	s, err := kernel.Begin(r.number, img, flags)
	if err != nil {
		kernel.Close()
		return err
	}
	r.held = &local{s, kernel}
	return nil
}

// enter puts the calling thread into the session, and begins to hear what is refused there.
func (r *run) enter() error {
	if r.held == nil {
		return nil
	}
	if err := r.held.Adopt(); err != nil {
		return err
	}
	return r.held.hear(r.denials)
}

// release gives the session up, when all that can end has ended, and returns what was counted in it.
func (r *run) release() loader.Counts {
	if r.held == nil {
		return loader.Counts{}
	}
	counts, err := r.held.End()
	if err != nil {
		r.cfg.notice("the session could not be taken out of the kernel: %v", err)
	}
	r.held = nil
	return counts
}
