package ship

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// journalSocket is where journald listens (https://systemd.io/JOURNAL_NATIVE_PROTOCOL).
const journalSocket = "/run/systemd/journal/socket"

// journal writes to systemd's journal: a message for people, and the event as a field.
type journal struct {
	path    string
	timeout time.Duration
}

func openJournal(s Sink) (sender, error) {
	return &journal{orElse(s.Path, journalSocket), time.Duration(s.Timeout)}, nil
}

func (j *journal) send(_ context.Context, records []record) (int, error) {
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: j.path, Net: "unixgram"})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(j.timeout))
	for i, r := range records {
		if err := journalEntry(conn, journalFields(r)); err != nil {
			return i, err
		}
	}
	return len(records), nil
}

// journalFields returns an entry's fields. They use the form with a length, because a value may contain newlines.
func journalFields(r record) []byte {
	severity, ok := syslogSeverity[r.Severity]
	if !ok {
		severity = 6
	}
	var b bytes.Buffer
	for _, f := range [][2]string{
		{"MESSAGE", r.Message},
		{"PRIORITY", strconv.Itoa(severity)},
		{"SYSLOG_IDENTIFIER", "toolguard"},
		{"SYSLOG_TIMESTAMP", r.at().UTC().Format(time.RFC3339Nano)},
		{"TOOLGUARD_UID", r.uid},
		{"TOOLGUARD_KIND", r.Unmapped.Kind},
		{"TOOLGUARD_SESSION", r.Unmapped.Session},
		{"TOOLGUARD_EVENT", string(r.body)},
	} {
		if f[1] != "" {
			b.WriteString(f[0] + "\n")
			_ = binary.Write(&b, binary.LittleEndian, uint64(len(f[1])))
			b.WriteString(f[1] + "\n")
		}
	}
	return b.Bytes()
}

// journalEntry sends an entry in a datagram, or in a sealed memory file if it is too large.
func journalEntry(conn *net.UnixConn, text []byte) error {
	_, err := conn.Write(text)
	if !errors.Is(err, unix.EMSGSIZE) && !errors.Is(err, unix.ENOBUFS) {
		return err
	}
	fd, err := unix.MemfdCreate("toolguard-event", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fmt.Errorf("create a memory file: %w", err)
	}
	defer unix.Close(fd)
	for rest := text; len(rest) > 0; {
		n, err := unix.Write(fd, rest)
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return err
	}
	_, _, err = conn.WriteMsgUnix(nil, unix.UnixRights(fd), nil)
	return err
}
