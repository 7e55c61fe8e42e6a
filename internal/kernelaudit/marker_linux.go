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

// waitForMark writes a record and waits until it arrives. The kernel delivers records in order, so all earlier ones have been handled then.
// It runs meanwhile after writing. If the first mark of a reader doesn't arrive, the error wraps ErrUnavailable.
func (r *Reader) waitForMark(ctx context.Context, meanwhile func()) error {
	if r.Proven() {
		return r.exchangeMark(ctx, quietTimeout, meanwhile)
	}
	ctx, cancel := context.WithTimeout(ctx, quietTimeout)
	defer cancel()
	err := r.exchangeMark(ctx, firstRecordTimeout, meanwhile)
	if err != nil && !r.Proven() {
		return fmt.Errorf("%w: %w", ErrUnavailable, noRecordsError(err))
	}
	return err
}

// exchangeMark writes a mark, and waits until it arrives or no record has arrived for so long.
func (r *Reader) exchangeMark(ctx context.Context, quiet time.Duration, meanwhile func()) error {
	var nonce [16]byte
	if _, err := unix.Getrandom(nonce[:], 0); err != nil { // crypto/rand is expensive the first time
		return os.NewSyscallError("getrandom", err)
	}
	text := "toolguard-mark " + hex.EncodeToString(nonce[:])
	arrived := make(chan struct{})
	r.mu.Lock()
	r.marks[text] = arrived
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.marks, text)
		r.mu.Unlock()
	}()
	before, last := r.records(), time.Now()
	for {
		if err := r.send(typeTrustedApp, append([]byte(text), 0)); err != nil {
			return fmt.Errorf("write an audit record: %w", err)
		}
		if meanwhile != nil {
			meanwhile()
			meanwhile = nil
		}
		select {
		case <-arrived:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-r.done:
			return os.ErrClosed
		case <-time.After(firstRecordTimeout / 4): // the mark itself may have been dropped
		}
		if n := r.records(); n != before {
			before, last = n, time.Now()
		} else if time.Since(last) > quiet {
			return fmt.Errorf("%w for %v", errNoRecords, quiet)
		}
	}
}

func (r *Reader) records() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recordCount
}

// receiveMark handles a mark. No other process can know its text. Denials in calls that have not returned yet remain pending.
func (r *Reader) receiveMark(text string) {
	_, msg, ok := strings.Cut(text, " msg='")
	msg = strings.TrimRight(msg, "'\x00")
	if arrived := r.marks[msg]; ok && arrived != nil {
		r.proven.Store(true)
		close(arrived)
		delete(r.marks, msg)
	}
}
