package session

import (
	"errors"
	"fmt"
	"sync"

	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// machine is what is prepared while the policy is read, since it waits for the kernel.
type machine struct {
	withoutDenials bool                               // no denials are to be reported
	proof          func() error                       // whether Landlock denies on this machine
	thread         *launch.Thread                     // the session thread, from which the command is forked
	auditReader    <-chan outcome[auditReader]        // the kernel's records of denials
	signals        <-chan outcome[*launch.Supervisor] // signals are caught
	threads        <-chan outcome[struct{}]           // the runtime has the threads that it needs
	asked          backend.AskState                   // toolguardd's state
}

// auditReader reads the kernel's records of denials.
type auditReader struct {
	reader *kernelaudit.Reader
	audit  uint32 // the audit session that the command will be in
	err    error  // why there is none
}

func ask(withoutDenials, daemon bool) *machine {
	m := &machine{withoutDenials: withoutDenials, proof: sync.OnceValue(selfTest), asked: sync.OnceValues(backend.AskDaemon)}
	if daemon && backend.HasDaemon() {
		go m.asked()
	}
	m.startThread()
	go m.proof()
	m.signals = async(launch.Watch)
	m.threads = async(func() (struct{}, error) { launch.MakeThreads(launch.FewBlocked); return struct{}{}, nil })
	return m
}

// startThread makes the session thread, and has the kernel record the denials of what it starts.
func (m *machine) startThread() {
	opened := make(chan outcome[auditReader], 1)
	m.auditReader = opened
	m.thread = launch.NewThread(func() {
		e, err := openAuditReader(m.withoutDenials)
		opened <- outcome[auditReader]{e, err}
	})
}

// renew abandons the thread, whose restrictions can't be undone, and makes another one.
func (m *machine) renew() error {
	err := m.close()
	m.startThread()
	return err
}

var errWithoutDenials = errors.New("they aren't asked for")

// openAuditReader gives the calling thread, from which the command inherits it, an audit session of its own.
func openAuditReader(withoutDenials bool) (e auditReader, err error) {
	if withoutDenials {
		return e, errWithoutDenials
	}
	if err := kernelaudit.Permitted(); err != nil {
		return e, err
	}
	if e.reader, err = kernelaudit.Open(); err == nil {
		e.audit, e.err = kernelaudit.FreshSession()
	}
	return e, err
}

// listen returns the reader of the kernel's records, or why there is none here. It may be called once.
func (m *machine) listen() (auditReader, error) {
	reader := <-m.auditReader
	m.auditReader = nil
	return reader.value, reader.err
}

// close ends what wasn't used, and waits until auditing is as it was.
func (m *machine) close() error {
	m.thread.Close()
	if m.auditReader == nil {
		return nil
	}
	e, err := m.listen()
	if err != nil {
		return nil // nothing was changed
	}
	return e.reader.Close()
}

// selfTest has Landlock deny an operation of a throw-away thread.
func selfTest() error {
	if err := landlock.Canary(); err != nil {
		return fmt.Errorf("landlock doesn't deny on this machine, so nothing was started: %w", err)
	}
	return nil
}

// outcome is what a function returned on another goroutine.
type outcome[T any] struct {
	value T
	err   error
}

func async[T any](f func() (T, error)) <-chan outcome[T] {
	c := make(chan outcome[T], 1)
	go func() {
		v, err := f()
		c <- outcome[T]{v, err}
	}()
	return c
}
