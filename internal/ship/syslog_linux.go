package ship

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Syslog has no acknowledgements. A record counts as delivered when the receiver's kernel has acknowledged it and the connection
// has remained open for a moment. When a connection breaks, the records of its last seconds, up to a size, are sent again, because
// the receiver may not have read them.
const (
	firstSettleTime = time.Second // on a new connection: TLS 1.3 reports a rejected certificate late
	settleTime      = 100 * time.Millisecond
	resendTime      = 10 * time.Second
	resendSize      = 1 << 20
)

// syslogFacility is "log audit".
const syslogFacility = 13

// syslogger sends RFC 5424 messages over a datagram unix socket, TCP (RFC 6587, octet counting) or TLS (RFC 5425).
type syslogger struct {
	network, address string
	tls              *tls.Config // nil: none
	timeout          time.Duration

	conn        net.Conn
	broken      chan struct{} // closed when the receiver has closed the connection
	endReason   *error        // the error of the connection; readable once broken is closed
	unsettled   bool          // nothing has settled on the connection yet
	unconfirmed []frame
}

// frame is a record as it was sent.
type frame struct {
	text []byte
	at   time.Time
}

func openSyslog(s Sink) (sender, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	l := &syslogger{network: u.Scheme, address: u.Host, timeout: time.Duration(s.Timeout)}
	switch u.Scheme {
	case "unix":
		l.network, l.address = "unixgram", u.Path
	case "tls":
		l.network = "tcp"
		if l.tls, err = s.tlsConfig(); err != nil {
			return nil, err
		}
		if l.tls.ServerName == "" {
			l.tls.ServerName = u.Hostname()
		}
	}
	if u.Scheme != "unix" && u.Port() == "" {
		l.address = net.JoinHostPort(u.Hostname(), map[string]string{"tcp": "514", "tls": "6514"}[u.Scheme])
	}
	return l, nil
}

func (l *syslogger) send(ctx context.Context, records []record) (n int, err error) {
	if err := l.connect(ctx); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			l.disconnect()
		}
	}()
	deadline := time.Now().Add(l.timeout)
	_ = l.conn.SetWriteDeadline(deadline)
	if l.network == "unixgram" {
		return l.datagrams(records)
	}
	var all []byte
	var frames []frame
	for _, r := range records {
		text := syslogMessage(r)
		text = append(fmt.Appendf(nil, "%d ", len(text)), text...)
		frames = append(frames, frame{text, time.Now()})
		all = append(all, text...)
	}
	if _, err := l.conn.Write(all); err != nil {
		return 0, l.endError(err)
	}
	if err := l.settle(ctx, deadline); err != nil {
		return 0, err
	}
	l.storeUnconfirmed(frames)
	return len(records), nil
}

func (l *syslogger) datagrams(records []record) (int, error) {
	for i, r := range records {
		_, err := l.conn.Write(syslogMessage(r))
		switch {
		case errors.Is(err, unix.EMSGSIZE):
			return i, &rejection{"the record is too long for a datagram: increase net.core.wmem_max, or use TCP"}
		case err != nil:
			return i, err
		}
	}
	return len(records), nil
}

// maintain checks the connection while there is nothing to send. After a broken connection, it reconnects and resends what may be
// lost.
func (l *syslogger) maintain(ctx context.Context) error {
	if l.conn != nil {
		select {
		case <-l.broken:
			l.disconnect()
		default:
			l.storeUnconfirmed(nil)
			return nil
		}
	}
	if len(l.unconfirmed) == 0 {
		return nil
	}
	_, err := l.send(ctx, nil)
	return err
}

// connect connects unless there is an open connection, and resends what may be lost.
func (l *syslogger) connect(ctx context.Context) error {
	if l.conn != nil {
		select {
		case <-l.broken:
			l.disconnect()
		default:
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, l.network, l.address)
	if err != nil {
		return err
	}
	if l.tls != nil {
		t := tls.Client(conn, l.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return err
		}
		conn = t
	}
	l.conn, l.unsettled, l.broken, l.endReason = conn, true, make(chan struct{}), new(error)
	if l.network == "unixgram" {
		return nil // the receiver sends nothing
	}
	go func(broken chan struct{}, ended *error) {
		_, *ended = io.Copy(io.Discard, conn)
		close(broken)
	}(l.broken, l.endReason)
	var resend []byte
	for _, f := range l.unconfirmed {
		resend = append(resend, f.text...)
	}
	_ = conn.SetWriteDeadline(time.Now().Add(l.timeout))
	if _, err := conn.Write(resend); err != nil {
		err = l.endError(err)
		l.disconnect()
		return err
	}
	for i := range l.unconfirmed {
		l.unconfirmed[i].at = time.Now()
	}
	return nil
}

func (l *syslogger) disconnect() {
	_ = l.conn.Close()
	l.conn = nil
}

var errEnded = errors.New("the receiver has closed the connection")

// endError returns why the receiver has closed the connection. A failed write only has "broken pipe"; the reader may get the alert
// of TLS a moment later.
func (l *syslogger) endError(write error) error {
	select {
	case <-l.broken:
	case <-time.After(firstSettleTime):
		return write
	}
	if *l.endReason == nil {
		return errEnded
	}
	return fmt.Errorf("%w: %w", errEnded, *l.endReason)
}

// settle waits until the receiver's kernel has acknowledged everything, and a moment longer.
func (l *syslogger) settle(ctx context.Context, deadline time.Time) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		waiting, err := unsent(l.conn)
		if err != nil {
			return err
		}
		if waiting == 0 {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the receiver has not accepted %d bytes within %s", waiting, l.timeout)
		}
		if err := l.waitConnected(ctx, pause); err != nil {
			return err
		}
	}
	moment := settleTime
	if l.unsettled {
		moment = firstSettleTime
	}
	if err := l.waitConnected(ctx, moment); err != nil {
		return err
	}
	l.unsettled = false
	return nil
}

// waitConnected waits, and returns an error if the connection ends.
func (l *syslogger) waitConnected(ctx context.Context, d time.Duration) error {
	select {
	case <-l.broken:
		return l.endError(errEnded)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// storeUnconfirmed keeps the recent frames, which the receiver may not have read, up to a size.
func (l *syslogger) storeUnconfirmed(frames []frame) {
	l.unconfirmed = append(l.unconfirmed, frames...)
	size, from := 0, len(l.unconfirmed)
	for from > 0 && size+len(l.unconfirmed[from-1].text) <= resendSize && time.Since(l.unconfirmed[from-1].at) < resendTime {
		from--
		size += len(l.unconfirmed[from].text)
	}
	l.unconfirmed = append([]frame(nil), l.unconfirmed[from:]...)
}

// unsent returns how many bytes the receiver's kernel hasn't acknowledged.
func unsent(conn net.Conn) (n int, err error) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) })
	return n, errors.Join(cerr, err)
}

// syslogSeverity maps OCSF severities: informational, notice, warning, error.
var syslogSeverity = map[int]int{1: 6, 2: 5, 3: 4, 4: 3}

// syslogMessage formats a record by RFC 5424. PROCID and sequenceId make up the uid.
func syslogMessage(r record) []byte {
	severity, ok := syslogSeverity[r.Severity]
	if !ok {
		severity = 6
	}
	number := (r.cursor.Sequence-1)%(1<<31-1) + 1 // RFC 5424, 7.3.1
	head := fmt.Sprintf(`<%d>1 %s %s toolguard %s %s [meta sequenceId="%d"] `, syslogFacility*8+severity,
		r.at().UTC().Format("2006-01-02T15:04:05.000Z"), syslogField(r.Device.Hostname, 255), syslogField(r.cursor.Chain, 128),
		syslogField(r.Unmapped.Kind, 32), number)
	return append([]byte(head), r.body...)
}

// syslogField returns a valid header field: printable, without spaces, not empty.
func syslogField(s string, maxLength int) string {
	s = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return '_'
		}
		return r
	}, s)
	return orElse(s[:min(len(s), maxLength)], "-")
}
