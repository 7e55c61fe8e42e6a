package launch

import (
	"fmt"
	"sync"

	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/landlock"
)

// Preflight is the work that waits for the kernel and needs no policy. It runs while the policy is read.
type Preflight struct {
	Thread   *Thread      // the session thread, from which the command is forked
	SelfTest func() error // proves that Landlock denies on this machine

	withoutDenials bool
	audit          <-chan auditResult // nil: AuditReader was called
	supervisor     <-chan *Supervisor // sent when signals are caught
	threads        <-chan struct{}    // closed when the runtime has the threads that it needs
}

// AuditReader reads the kernel's records of denials.
type AuditReader struct {
	*kernelaudit.Reader
	AuditSession    uint32 // the audit session of the command
	AuditSessionErr error  // why it has none
}

type auditResult struct {
	reader AuditReader
	err    error
}

// StartPreflight starts the work. With withoutDenials, AuditReader returns ErrWithoutDenials.
func StartPreflight(withoutDenials bool) *Preflight {
	p := &Preflight{withoutDenials: withoutDenials, SelfTest: sync.OnceValue(selfTest)}
	p.startThread()
	go p.SelfTest()
	supervisor, threads := make(chan *Supervisor, 1), make(chan struct{})
	p.supervisor, p.threads = supervisor, threads
	go func() { supervisor <- Watch() }()
	go func() { defer close(threads); MakeThreads(FewBlocked) }()
	return p
}

// startThread makes the session thread, and has the kernel record the denials of the processes that it starts.
func (p *Preflight) startThread() {
	opened := make(chan auditResult, 1)
	p.audit = opened
	p.Thread = NewThread(func() {
		r, err := openAuditReader(p.withoutDenials)
		opened <- auditResult{r, err}
	})
}

// Supervisor waits until signals are caught and the runtime has its threads. Call it once.
func (p *Preflight) Supervisor() *Supervisor {
	s := <-p.supervisor
	<-p.threads
	return s
}

// AuditReader returns the reader of the kernel's records, or why there is none. Call it at most once for each session thread.
func (p *Preflight) AuditReader() (AuditReader, error) {
	r := <-p.audit
	p.audit = nil
	return r.reader, r.err
}

// Renew replaces the session thread, whose restrictions are permanent.
func (p *Preflight) Renew() error {
	err := p.Close()
	p.startThread()
	return err
}

// Close ends the session thread. It restores auditing if AuditReader wasn't called.
func (p *Preflight) Close() error {
	p.Thread.Close()
	if p.audit == nil {
		return nil
	}
	r, err := p.AuditReader()
	if err != nil {
		return nil // auditing wasn't changed
	}
	return r.Close()
}

// openAuditReader moves the calling thread to a new audit session, which the command inherits.
func openAuditReader(withoutDenials bool) (r AuditReader, err error) {
	if withoutDenials {
		return r, ErrWithoutDenials
	}
	if err := kernelaudit.Permitted(); err != nil {
		return r, err
	}
	if r.Reader, err = kernelaudit.Open(); err == nil {
		r.AuditSession, r.AuditSessionErr = kernelaudit.FreshSession()
	}
	return r, err
}

// selfTest has Landlock deny an operation of a temporary thread.
func selfTest() error {
	if err := landlock.Canary(); err != nil {
		return fmt.Errorf("landlock doesn't deny on this machine, so nothing was started: %w", err)
	}
	return nil
}
