package ship

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
)

// frames reads messages with octet counting (RFC 6587) until the connection ends.
func frames(conn net.Conn, each func(string)) {
	in := bufio.NewReader(conn)
	for {
		var n int
		if _, err := fmt.Fscanf(in, "%d ", &n); err != nil {
			return
		}
		text := make([]byte, n)
		if _, err := io.ReadFull(in, text); err != nil {
			return
		}
		each(string(text))
	}
}

// TestSyslogUnread checks that records that a receiver's kernel has acknowledged and the receiver hasn't read are sent again, even
// without new ones, and that nothing counts as delivered to a receiver that closes every connection.
func TestSyslogUnread(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	childtest.Must(t, err)
	defer l.Close()
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(timeout))
	s := newScene(t, audit.Limits{}, Sink{Name: "log", Type: "syslog", URL: "tcp://" + l.Addr().String()})
	s.record(10)
	last, slowest := time.Now(), time.Duration(0) // how long a connection may have stood
	s.start()
	reset := func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0); _ = conn.Close() }
	for range 3 {
		conn, err := l.Accept()
		childtest.Must(t, err)
		reset(conn)
		last, slowest = time.Now(), max(slowest, time.Since(last))
	}
	st, err := ReadState(s.cfg.State)
	if slowest = max(slowest, time.Since(last)); slowest >= firstSettleTime {
		t.Logf("on this machine it took %v to end a connection", slowest)
	} else if err != nil || st.Sinks["log"].Cursor.Sequence != 0 {
		t.Errorf("%+v %v", st, err)
	}
	conn, err := l.Accept()
	childtest.Must(t, err)
	s.waitDelivered() // by its kernel's word
	reset(conn)
	if conn, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var mu sync.Mutex
	var got []string
	go frames(conn, func(text string) {
		mu.Lock()
		defer mu.Unlock()
		_, body, _ := strings.Cut(text, "] ")
		got = append(got, body)
	})
	want := s.lines()
	wait(t, "it comes again", func() bool { mu.Lock(); defer mu.Unlock(); return len(got) >= len(want) })
	mu.Lock()
	defer mu.Unlock()
	checkArrived(t, got, want)
}

// TestSyslogReconnect checks the same for a receiver that is away for a while.
func TestSyslogReconnect(t *testing.T) {
	l, err := net.Listen("tcp", "127.83.72.74:0") // an address that no other process uses
	childtest.Must(t, err)
	address := l.Addr().String()
	s := newScene(t, audit.Limits{}, Sink{Name: "log", Type: "syslog", URL: "tcp://" + address})
	s.record(10)
	s.start()
	conn, err := l.Accept()
	childtest.Must(t, err)
	s.waitDelivered() // by its kernel's word
	_ = conn.(*net.TCPConn).SetLinger(0)
	childtest.Must(t, errors.Join(l.Close(), conn.Close()))
	wait(t, "it's tried again and again", func() bool { st, _ := ReadState(s.cfg.State); return st.Sinks["log"].Retries > 3 })
	if st, err := ReadState(s.cfg.State); err != nil || st.Sinks["log"].Failing == "" {
		t.Errorf("nothing is said to be wrong: %+v %v", st, err)
	}
	if l, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if conn, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(timeout))
	want, got := s.lines(), []string{}
	frames(conn, func(text string) {
		_, body, _ := strings.Cut(text, "] ")
		if got = append(got, body); len(got) == len(want) {
			_ = conn.Close()
		}
	})
	checkArrived(t, got, want)
	wait(t, "all is well", func() bool { st, _ := ReadState(s.cfg.State); return st.Sinks["log"].Failing == "" })
}

// TestUnconfirmedBounds checks that the frames for resending are limited in size and time.
func TestUnconfirmedBounds(t *testing.T) {
	var l syslogger
	big := func(n int, at time.Time) frame { return frame{make([]byte, n), at} }
	now := time.Now()
	l.storeUnconfirmed([]frame{big(resendSize/2, now), big(resendSize/2, now), big(resendSize/2, now)})
	if len(l.unconfirmed) != 2 {
		t.Errorf("%d are kept", len(l.unconfirmed))
	}
	l.unconfirmed[0].at = now.Add(-resendTime)
	if l.storeUnconfirmed(nil); len(l.unconfirmed) != 1 {
		t.Errorf("%d are kept", len(l.unconfirmed))
	}
	l = syslogger{network: "tcp", address: "127.0.0.1:1", timeout: time.Second, unconfirmed: []frame{big(1, now.Add(-time.Hour))}}
	for range 2 { // and while the receiver is away, as long as it takes
		if err := l.maintain(t.Context()); err == nil || len(l.unconfirmed) != 1 {
			t.Errorf("%d are kept, %v", len(l.unconfirmed), err)
		}
	}
}

// TestSyslogHeader checks that strings of the confined process don't escape their fields.
func TestSyslogHeader(t *testing.T) {
	r := record{cursor: audit.Cursor{Chain: "c0ffee", Sequence: 1<<31 + 6}, body: []byte("text")}
	r.Time, r.Severity, r.Device.Hostname, r.Unmapped.Kind = 1795275015486, 4, "a b\nc\u202e", string(event.Denial)
	want := `<107>1 2026-11-21T15:30:15.486Z a_b_c_ toolguard c0ffee denial [meta sequenceId="7"] text`
	if got := string(syslogMessage(r)); got != want {
		t.Errorf("%q", got)
	}
	r.Device.Hostname, r.Severity = "", 0
	if got := string(syslogMessage(r)); !strings.HasPrefix(got, "<110>1 ") || !strings.Contains(got, "Z - toolguard") {
		t.Errorf("%q", got)
	}
}
