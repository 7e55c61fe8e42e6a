package kernelaudit

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// mark writes a record and waits until it comes back: the kernel keeps records in order, so everything that was recorded before
// has then been handled. What is done meanwhile costs no time. The first that doesn't come says that none ever does.
func (r *Reader) mark(ctx context.Context, meanwhile func()) error {
	if r.Proven() {
		return r.passing(ctx, quietTime, meanwhile)
	}
	ctx, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	err := r.passing(ctx, proofTime, meanwhile)
	if err != nil && !r.Proven() {
		return fmt.Errorf("%w: %w", ErrUnavailable, proofError(err))
	}
	return err
}

// passing is a mark that is waited for as long as anything comes at least every so often.
func (r *Reader) passing(ctx context.Context, quiet time.Duration, meanwhile func()) error {
	var nonce [16]byte
	if _, err := unix.Getrandom(nonce[:], 0); err != nil { // crypto/rand is expensive the first time
		return os.NewSyscallError("getrandom", err)
	}
	text := "toolguard-mark " + hex.EncodeToString(nonce[:])
	came := make(chan struct{})
	r.mu.Lock()
	r.marks[text] = came
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.marks, text)
		r.mu.Unlock()
	}()
	before, last := r.received(), time.Now()
	for {
		if err := r.order(typeTrustedApp, append([]byte(text), 0)); err != nil {
			return fmt.Errorf("write an audit record: %w", err)
		}
		if meanwhile != nil {
			meanwhile()
			meanwhile = nil
		}
		select {
		case <-came:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-r.done:
			return os.ErrClosed
		case <-time.After(proofTime / 4): // the mark itself may have been dropped
		}
		if n := r.received(); n != before {
			before, last = n, time.Now()
		} else if time.Since(last) > quiet {
			return fmt.Errorf("%w for %v", errQuiet, quiet)
		}
	}
}

func (r *Reader) received() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.came
}

// passMark is called when a mark came back. No other process can know its text. Calls may be under way whose own record is yet to come: what
// was refused in them waits for it.
func (r *Reader) passMark(text string) {
	_, msg, ok := strings.Cut(text, " msg='")
	msg = strings.TrimRight(msg, "'\x00")
	if came := r.marks[msg]; ok && came != nil {
		r.proven.Store(true)
		close(came)
		delete(r.marks, msg)
	}
}
