package session

import (
	"errors"
	"fmt"

	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/landlock"
)

// machine is what the kernel is asked for ahead: waiting for it beside the reading of the policy costs no time.
type machine struct {
	proof   <-chan outcome[struct{}]            // whether Landlock holds
	ears    <-chan outcome[*kernelaudit.Reader] // the kernel's word on what it refuses
	signals <-chan outcome[*supervisor]         // they are caught
}

func ask(deaf bool) *machine {
	err := kernelaudit.Permitted()
	if deaf {
		err = errDeaf
	}
	ears := failed[*kernelaudit.Reader](err)
	if err == nil {
		ears = async(kernelaudit.Open)
	}
	return &machine{ears: ears, proof: async(proven), signals: async(watch)}
}

var errDeaf = errors.New("nobody asked for them")

// listen returns what reads the kernel's refusals, or why there is no such thing here. It may be called once.
func (m *machine) listen() (*kernelaudit.Reader, error) {
	heard := <-m.ears
	m.ears = nil
	return heard.value, heard.err
}

// letGo gives up what nobody has asked for, and waits until what was asked for has been given back.
func (m *machine) letGo() error {
	if m.ears == nil {
		return nil
	}
	reader, err := m.listen()
	if err != nil {
		return nil // there is nothing to give back
	}
	return reader.Close()
}

// proven makes Landlock prove itself on a throw-away thread.
func proven() (struct{}, error) {
	if err := landlock.Canary(); err != nil {
		return struct{}{}, fmt.Errorf("landlock doesn't hold on this machine, so nothing was started: %w", err)
	}
	return struct{}{}, nil
}

// outcome is what a function returned on another goroutine.
type outcome[T any] struct {
	value T
	err   error
}

func failed[T any](err error) <-chan outcome[T] {
	c := make(chan outcome[T], 1)
	c <- outcome[T]{err: err}
	return c
}

func async[T any](f func() (T, error)) <-chan outcome[T] {
	c := make(chan outcome[T], 1)
	go func() {
		v, err := f()
		c <- outcome[T]{v, err}
	}()
	return c
}
