package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/policy"
)

// hear takes in what egress says, until it says no more. What that is isn't believed more than what a session says, but for the
// first word of the first one: the authority that is in there is the session's to its end. One that is silent for long is ended.
func (p *Supervisor) hear(socket *os.File) error {
	silent := time.AfterFunc(message.Silence, p.kill)
	defer silent.Stop()
	lines := bufio.NewScanner(socket)
	lines.Buffer(nil, maxWord)
	for lines.Scan() {
		silent.Reset(message.Silence)
		var w message.Message
		if err := json.Unmarshal(lines.Bytes(), &w); err != nil {
			return fmt.Errorf("it says something else than it should: %w", err)
		}
		p.heard(&w)
		if w.Failed != "" {
			return errors.New(w.Failed)
		}
		if w.Lost > 0 {
			p.reports.Lost(w.Lost, "more were denied at a time than are reported")
		}
		if w.Denial != nil {
			p.reports.Denied(w.Denial)
		}
	}
	switch err := lines.Err(); {
	case err != nil:
		return err
	case !silent.Stop():
		return errSilent
	}
	return errEnded
}

// heard takes in by which policy it decides, and whether it's ready.
func (p *Supervisor) heard(w *message.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.Decides != 0 {
		p.decides = w.Decides
		close(p.heeds)
		p.heeds = make(chan struct{})
	}
	if !w.Ready || p.begins {
		return
	}
	p.begins = true
	if p.instructions.Authority == nil {
		p.instructions.Authority = w.Authority
	}
	p.say(Started{Bundle: w.Bundle, Authority: p.instructions.Authority})
}

// instructed is for a process that has its instructions, by the policy of a generation.
func (p *Supervisor) instructed(socket *os.File, generation uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listens = socket
	if p.instructions.Generation != generation {
		p.instruct()
	}
}

// instruct sends the process another policy. It's called with the lock held.
func (p *Supervisor) instruct() {
	if socket := p.listens; socket != nil {
		p.readHosts()
		o := message.Instructions{Format: message.Format, Generation: p.instructions.Generation, Policy: p.instructions.Policy, Hosts: p.instructions.Hosts}
		go func() { _ = json.NewEncoder(socket).Encode(&o) }() // it may read slowly, or not at all; then it's ended
	}
}

// Reload has it decide by another policy. One that doesn't, in time, is ended; whatever is started then does. Where that doesn't
// either, in time, it's ended as well, and nobody waits for the next one, which decides by the former policy.
func (p *Supervisor) Reload(generation uint32, c *policy.Compiled) error {
	p.mu.Lock()
	former, by := p.instructions.Generation, p.instructions.Policy
	p.instructions.Generation, p.instructions.Policy = generation, c
	p.instruct()
	p.mu.Unlock()
	if p.decidesBy(generation, heedTime) {
		return nil
	}
	p.kill()
	if p.decidesBy(generation, readyTime) {
		return nil
	}
	p.mu.Lock()
	p.instructions.Generation, p.instructions.Policy = former, by
	p.mu.Unlock()
	p.kill()
	return errors.New("egress takes no other policy")
}

// decidesBy waits until it does.
func (p *Supervisor) decidesBy(generation uint32, most time.Duration) bool {
	for late := time.After(most); ; {
		p.mu.Lock()
		decides, heeds := p.decides, p.heeds
		p.mu.Unlock()
		if decides == generation {
			return true
		}
		select {
		case <-heeds:
		case <-late:
			return false
		}
	}
}
