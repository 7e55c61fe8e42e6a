package kernelaudit

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// status is the part of struct audit_status that every kernel since 3.x has.
type status struct {
	Mask, Enabled, Failure, PID, RateLimit, BacklogLimit, Lost, Backlog uint32
}

const (
	maskEnabled      = unix.AUDIT_STATUS_ENABLED
	maskBacklogLimit = unix.AUDIT_STATUS_BACKLOG_LIMIT
)

// fields returns the fields of s in the kernel's order.
func (s *status) fields() [8]*uint32 {
	return [8]*uint32{&s.Mask, &s.Enabled, &s.Failure, &s.PID, &s.RateLimit, &s.BacklogLimit, &s.Lost, &s.Backlog}
}

// getStatus returns the kernel's audit status.
func getStatus(fd int) (s status, err error) {
	b, err := request(fd, unix.AUDIT_GET, nil, unix.AUDIT_GET)
	if err != nil {
		return s, fmt.Errorf("read the audit status: %w", err)
	}
	for i, f := range s.fields() {
		if len(b) < 4*(i+1) {
			return s, fmt.Errorf("read the audit status: %w", errMalformed)
		}
		*f = binary.NativeEndian.Uint32(b[4*i:])
	}
	return s, nil
}

// setStatus changes the settings that s.Mask names.
func setStatus(fd int, s status) error {
	var b [44]byte // older kernels take a shorter structure and newer ones a longer; both accept this length
	for i, f := range s.fields() {
		binary.NativeEndian.PutUint32(b[4*i:], *f)
	}
	if _, err := request(fd, unix.AUDIT_SET, b[:], 0); err != nil {
		return fmt.Errorf("set the audit status: %w", err)
	}
	return nil
}
