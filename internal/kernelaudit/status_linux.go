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

// getStatus asks how auditing is set up.
func getStatus(fd int) (s status, err error) {
	b, err := order(fd, unix.AUDIT_GET, nil, unix.AUDIT_GET)
	if err != nil {
		return s, fmt.Errorf("read the audit status: %w", err)
	}
	if _, err := binary.Decode(b, binary.NativeEndian, &s); err != nil {
		return s, fmt.Errorf("read the audit status: %w", errMalformed)
	}
	return s, nil
}

// setStatus changes what mask names.
func setStatus(fd int, s status) error {
	// Older kernels take a shorter structure and newer ones a longer; both accept this length.
	b, err := binary.Append(make([]byte, 0, 44), binary.NativeEndian, s)
	if err != nil {
		return err
	}
	if _, err := order(fd, unix.AUDIT_SET, append(b, make([]byte, 12)...), 0); err != nil {
		return fmt.Errorf("set the audit status: %w", err)
	}
	return nil
}
