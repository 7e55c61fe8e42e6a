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

// readMessages reads messages until egress ends. They aren't trusted, except the authority in the first message of the first process, which
// is the session's to its end. Egress is killed after HeartbeatTimeout without a message.
func (p *Supervisor) readMessages(socket *os.File) error {
	watchdog := time.AfterFunc(message.HeartbeatTimeout, p.kill)
	defer watchdog.Stop()
	lines := bufio.NewScanner(socket)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		watchdog.Reset(message.HeartbeatTimeout)
		var m message.Message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("it sent an invalid message: %w", err)
		}
		p.handleMessage(&m)
		if m.Error != "" {
			return errors.New(m.Error)
		}
		if m.Lost > 0 {
			p.reports.Lost(m.Lost, "more were denied at a time than are reported")
		}
		if m.Denial != nil {
			p.reports.Denied(m.Denial)
		}
	}
	switch err := lines.Err(); {
	case err != nil:
		return err
	case !watchdog.Stop():
		return errHung
	}
	return errEnded
}

// handleMessage notes the generation of the policy in force, and that egress is ready.
func (p *Supervisor) handleMessage(m *message.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Generation != 0 {
		p.generation = m.Generation
		close(p.generationChanged)
		p.generationChanged = make(chan struct{})
	}
	if !m.Ready || p.wasReady {
		return
	}
	p.wasReady = true
	if p.instructions.Authority == nil {
		p.instructions.Authority = m.Authority
	}
	p.reportStart(Started{Bundle: m.Bundle, Authority: p.instructions.Authority})
}

// finishStart makes a process that has its instructions available for policies. If the policy has changed since, it gets the new one.
func (p *Supervisor) finishStart(socket *os.File, generation uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.instructedSocket = socket
	if p.instructions.Generation != generation {
		p.sendPolicy()
	}
}

// sendPolicy sends the policy to the process. The caller has locked mu.
func (p *Supervisor) sendPolicy() {
	if socket := p.instructedSocket; socket != nil {
		p.readHosts()
		o := message.Instructions{Format: message.Format, Generation: p.instructions.Generation, Policy: p.instructions.Policy, Hosts: p.instructions.Hosts}
		go func() { _ = json.NewEncoder(socket).Encode(&o) }() // a process that doesn't read is killed by Reload
	}
}

// Reload puts another policy into force. An egress that doesn't confirm it in time is killed, and the next one starts with it. If that one
// doesn't confirm it either, it's killed too, and the next one starts with the former policy.
func (p *Supervisor) Reload(generation uint32, c *policy.Compiled) error {
	p.mu.Lock()
	former, by := p.instructions.Generation, p.instructions.Policy
	p.instructions.Generation, p.instructions.Policy = generation, c
	p.sendPolicy()
	p.mu.Unlock()
	if p.waitGeneration(generation, reloadTimeout) {
		return nil
	}
	p.kill()
	if p.waitGeneration(generation, startTimeout) {
		return nil
	}
	p.mu.Lock()
	p.instructions.Generation, p.instructions.Policy = former, by
	p.mu.Unlock()
	p.kill()
	return errors.New("egress doesn't accept the new policy")
}

// waitGeneration waits until egress decides by the policy of a generation.
func (p *Supervisor) waitGeneration(generation uint32, timeout time.Duration) bool {
	for late := time.After(timeout); ; {
		p.mu.Lock()
		decides, heeds := p.generation, p.generationChanged
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
