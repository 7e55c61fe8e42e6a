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

// machine is what the kernel is asked for ahead: waiting for it beside the reading of the policy costs no time.
type machine struct {
	deaf    bool                               // nobody asked for the kernel's word
	proof   func() error                       // whether Landlock holds
	inside  *launch.Thread                     // where the command will be started
	ears    <-chan outcome[ears]               // the kernel's word on what it refuses
	signals <-chan outcome[*launch.Supervisor] // they are caught
	threads <-chan outcome[struct{}]           // toolguard has all that it needs
	asked   backend.AskState                   // toolguardd's state
}

// ears are how the kernel's word is heard.
type ears struct {
	reader *kernelaudit.Reader
	audit  uint32 // the audit session that the command will be in
	err    error  // why it's none
}

func ask(deaf, daemon bool) *machine {
	m := &machine{deaf: deaf, proof: sync.OnceValue(proven), asked: sync.OnceValues(backend.AskDaemon)}
	if daemon && backend.HasDaemon() {
		go m.asked()
	}
	m.makeInside()
	go m.proof()
	m.signals = async(launch.Watch)
	m.threads = async(func() (struct{}, error) { launch.MakeThreads(launch.FewBlocked); return struct{}{}, nil })
	return m
}

// makeInside makes the thread, and has the kernel tell of what will be started there.
func (m *machine) makeInside() {
	heard := make(chan outcome[ears], 1)
	m.ears = heard
	m.inside = launch.NewThread(func() {
		e, err := openEars(m.deaf)
		heard <- outcome[ears]{e, err}
	})
}

// renew gives up the thread, with all that has been done to it, and makes another one.
func (m *machine) renew() error {
	err := m.letGo()
	m.makeInside()
	return err
}

var errDeaf = errors.New("nobody asked for them")

// openEars gives the calling thread, which the command will inherit it from, an audit session of its own.
func openEars(deaf bool) (e ears, err error) {
	if deaf {
		return e, errDeaf
	}
	if err := kernelaudit.Permitted(); err != nil {
		return e, err
	}
	if e.reader, err = kernelaudit.Open(); err == nil {
		e.audit, e.err = kernelaudit.FreshSession()
	}
	return e, err
}

// listen returns what reads the kernel's refusals, or why there is no such thing here. It may be called once.
func (m *machine) listen() (ears, error) {
	heard := <-m.ears
	m.ears = nil
	return heard.value, heard.err
}

// letGo gives up what nobody has asked for, and waits until what was asked for has been given back.
func (m *machine) letGo() error {
	m.inside.Close()
	if m.ears == nil {
		return nil
	}
	e, err := m.listen()
	if err != nil {
		return nil // there is nothing to give back
	}
	return e.reader.Close()
}

// proven makes Landlock prove itself on a throw-away thread.
func proven() error {
	if err := landlock.Canary(); err != nil {
		return fmt.Errorf("landlock doesn't hold on this machine, so nothing was started: %w", err)
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
