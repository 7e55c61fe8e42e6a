package session

import (
	"errors"
	"fmt"

	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// openSession is a session in the kernel.
type openSession interface {
	Adopt() error                       // places the calling thread in it
	collect(d *denials.Collector) error // begins to report its denials
	End() (loader.Counts, error)        // tears it down
}

// kernelSession is a session that this process owns.
type kernelSession struct {
	*loader.Session
	kernel *loader.Kernel // nil: it stays open
}

func (l *kernelSession) collect(d *denials.Collector) error {
	d.Listen(l.Session)
	return nil
}

func (l *kernelSession) End() (loader.Counts, error) {
	if l.kernel != nil {
		defer l.kernel.Close()
	}
	return l.Session.End()
}

// open makes the session in the kernel, if the backend has one.
func (r *run) open() error {
	switch r.backend.Maker {
	case backend.ThisProcess:
		return r.openKernelSession(r.backend.Image)
	case backend.Daemon:
		return r.openDaemonSession(r.backend.Client)
	}
	return nil
}

// openKernelSession makes the session in the kernel, without a process in it.
func (r *run) openKernelSession(img *image.Image) error {
	if img == nil {
		return errors.New("the bpf backend can't enforce this policy")
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
	r.opened = &kernelSession{s, kernel}
	return nil
}

// enterSession places the calling thread in the session and begins to collect its denials.
func (r *run) enterSession() error {
	if r.opened == nil {
		return nil
	}
	if err := r.opened.Adopt(); err != nil {
		return err
	}
	return r.opened.collect(r.denials)
}

// closeSession tears the session down after its processes have ended, and returns its counts.
func (r *run) closeSession() loader.Counts {
	if r.opened == nil {
		return loader.Counts{}
	}
	counts, err := r.opened.End()
	if err != nil {
		r.cfg.notice("the session could not be removed from the kernel: %v", err)
	}
	r.opened = nil
	return counts
}
