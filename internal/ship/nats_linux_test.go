package ship

import (
	"bufio"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/event"
)

// natsServer is one that talks to each client as it's told to, and counts them.
func natsServer(t *testing.T, talk func(conn net.Conn, in *bufio.Reader)) (address string, clients *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	clients = &atomic.Int64{}
	var all sync.WaitGroup
	over := make(chan struct{})
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			clients.Add(1)
			all.Go(func() {
				ended := make(chan struct{})
				go func() {
					defer conn.Close()
					select {
					case <-over:
					case <-ended:
					}
				}()
				talk(conn, bufio.NewReader(conn))
				close(ended)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		close(over)
		all.Wait()
	})
	return l.Addr().String(), clients
}

// heard reads a client's lines until one that begins so, and returns all.
func heard(in *bufio.Reader, until string) (all string) {
	for {
		line, err := in.ReadString('\n')
		all += line
		if err != nil || strings.HasPrefix(line, until) {
			return all
		}
	}
}

const natsHello = `INFO {"server_id":"x","version":"2.10.0","headers":true,"max_payload":1048576,"jetstream":true}` + "\r\n"

func greet(conn net.Conn, in *bufio.Reader) string {
	_, _ = io.WriteString(conn, natsHello)
	all := heard(in, "PING")
	_, _ = io.WriteString(conn, "PONG\r\n")
	return all
}

// published reads the head of a message: where its answer is to go, and how long it is.
func published(in *bufio.Reader) (inbox string, size [2]int) {
	line, _ := in.ReadString('\n')
	_, _ = fmt.Sscanf(line, "HPUB toolguard.events %s %d %d", &inbox, &size[0], &size[1])
	return inbox, size
}

// message reads the rest of one.
func message(in *bufio.Reader, size [2]int) (string, error) {
	body := make([]byte, size[1]+2)
	_, err := io.ReadFull(in, body)
	if size[1] == 0 {
		err = io.EOF
	}
	return string(body[size[0]:size[1]]), err
}

// natsSink is a sink of such servers, with a token.
func natsSink(t *testing.T, servers ...string) Sink {
	return Sink{Name: "nats", Type: "nats", URL: "nats://" + strings.Join(servers, ",nats://"), Token: secret(t, "canary-nats")}
}

// TestNATSHostile: whatever a server says, it's told, the shipper lives, and another sink gets all.
func TestNATSHostile(t *testing.T) {
	t.Parallel()
	without := func(text string) func(net.Conn, *bufio.Reader) {
		return func(conn net.Conn, _ *bufio.Reader) {
			for range 64 { // more than anybody should read
				if _, err := io.WriteString(conn, text); err != nil {
					return
				}
			}
		}
	}
	after := func(until, text string) func(net.Conn, *bufio.Reader) {
		return func(conn net.Conn, in *bufio.Reader) {
			greet(conn, in)
			if until != "" {
				heard(in, until)
			}
			without(text)(conn, in)
		}
	}
	long := strings.Repeat("A", 1<<20)
	for name, c := range map[string]struct {
		talk func(net.Conn, *bufio.Reader)
		want string
	}{
		"a line without an end":         {without(long), "more than 65536 bytes"},
		"no NATS":                       {without("SSH-2.0-OpenSSH_9.2\r\n"), "no server of NATS"},
		"an INFO that isn't JSON":       {without("INFO {\r\n"), "no server of NATS"},
		"TLS that begins in the clear":  {without(`INFO {"tls_required":true}` + "\r\nPONG\r\n"), "in the clear"},
		"a large message":               {after("", "MSG x 1 999999999999999\r\n"+long), "too long"},
		"a message of all memory":       {after("", "MSG x 1 4294967295\r\n"+long), "too long"},
		"a negative one":                {after("", "MSG x 1 -1\r\n"+long), "wrong"},
		"a header longer than all":      {after("", "HMSG x 1 9 8\r\n"+long), "wrong"},
		"a message without words":       {after("", "MSG\r\n"), "wrong"},
		"a message without a size":      {after("", "HMSG 5 5\r\n"), "wrong"},
		"a line without an end, later":  {after("", long), "more than 65536 bytes"},
		"an error":                      {after("HPUB", "-ERR 'Authorization Violation'\r\n"), "Authorization Violation"},
		"the token, in an error":        {after("HPUB", "-ERR 'who says canary-nats?'\r\n"), "who says ***?"},
		"the token, instead of it":      {after("HPUB", "canary-nats\r\n"), "protocol: \\\"***"},
		"what isn't the protocol":       {after("HPUB", "HTTP/1.1 200 OK\r\n\r\n"), "isn't NATS's protocol"},
		"nothing, and then it hangs up": {after("HPUB", ""), "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, clients := natsServer(t, c.talk)
			out := t.TempDir() + "/out"
			s := newScene(t, audit.Limits{}, natsSink(t, address), Sink{Name: "file", Type: "file", Path: out})
			s.happen(3)
			stop := s.start()
			wait(t, "it's said why nothing is delivered", func() bool { return strings.Contains(s.log.String(), c.want) })
			wait(t, "it's tried again", func() bool { return clients.Load() > 2 })
			s.happen(3)
			wait(t, "the file has all", func() bool {
				st, err := ReadState(s.cfg.State)
				end, eerr := audit.End(s.cfg.Spool)
				return err == nil && eerr == nil && st.Sinks["file"].Cursor.Sequence == end.Sequence
			})
			stop()
			arrived(t, fileLines(t, out), s.lines())
			if text := s.log.String(); strings.Contains(text, "canary-nats") {
				t.Errorf("the token is in the log: %s", text)
			}
		})
	}
}

// TestNATSElsewhere: a server that names others, and goes away, doesn't have the token sent to them.
func TestNATSElsewhere(t *testing.T) {
	t.Parallel()
	far, strangers := natsServer(t, func(conn net.Conn, in *bufio.Reader) { greet(conn, in) })
	near, clients := natsServer(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = fmt.Fprintf(conn, `INFO {"server_id":"x","headers":true,"connect_urls":[%q]}`+"\r\n", far)
		heard(in, "PING")
		_, _ = fmt.Fprintf(conn, `INFO {"server_id":"x","headers":true,"connect_urls":[%q]}`+"\r\nPONG\r\n", far)
		heard(in, "HPUB")
	})
	s := newScene(t, audit.Limits{}, natsSink(t, near))
	s.happen(1)
	s.start()
	wait(t, "it's tried again", func() bool { return clients.Load() > 5 })
	if n := strangers.Load(); n > 0 {
		t.Errorf("%d connections to a server that isn't in the settings", n)
	}
}

// TestNATSTalk: a server that asks whether anybody is there is answered, also while there's nothing to send; what is too long for it stands
// as a gap; and where one of two servers doesn't answer the other one is asked.
func TestNATSTalk(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	asked := make(chan string, 1)
	dead, _ := natsServer(t, func(conn net.Conn, in *bufio.Reader) { greet(conn, in); heard(in, "HPUB") })
	alive, _ := natsServer(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = io.WriteString(conn, strings.Replace(natsHello, "1048576", "4096", 1))
		hello := heard(in, "PING")
		_, _ = io.WriteString(conn, "PONG\r\n")
		for n := 1; ; n++ {
			inbox, size := published(in)
			body, err := message(in, size)
			if err != nil {
				return
			}
			mu.Lock()
			got = append(got, body)
			mu.Unlock()
			answer := fmt.Sprintf(`{"stream":"audit","seq":%d}`, n)
			_, _ = fmt.Fprintf(conn, "PING\r\nMSG %s0 1 2\r\n{}\r\nINFO {}\r\nMSG %s 1 %d\r\n%s\r\n", inbox, inbox, len(answer), answer)
			if pong := heard(in, "PONG"); pong != "PONG\r\n" {
				return
			}
			if n == 5 {
				_, _ = io.WriteString(conn, "PING\r\n")
				asked <- hello + heard(in, "PONG")
			}
		}
	})
	s := newScene(t, audit.Limits{}, natsSink(t, dead, alive))
	s.happen(2)
	s.happen(1, func(e *event.Event) { e.Target = strings.Repeat("x", 4096) })
	s.happen(1)
	s.start()
	s.all()
	if hello := <-asked; !strings.Contains(hello, `"auth_token":"canary-nats"`) || !strings.HasSuffix(hello, "PING\r\nPONG\r\n") {
		t.Errorf("%q", hello)
	}
	s.happen(1)
	s.all()
	mu.Lock()
	defer mu.Unlock()
	want := s.lines()
	if len(got) != len(want) {
		t.Fatalf("%d messages, not %d", len(got), len(want))
	}
	for i, line := range got {
		uid := parse(t, want[i]).Metadata.UID
		if strings.Contains(want[i], "xxxx") {
			uid += "-gap"
		}
		if parse(t, line).Metadata.UID != uid || strings.HasSuffix(uid, "-gap") != strings.Contains(line, "longer than what the server takes") {
			t.Errorf("message %d, not %s: %s", i, uid, line)
		}
	}
}

// TestNATSPayload: how long a message may be is what the server said last, over TLS where there's TLS, or what it says to one that is longer.
func TestNATSPayload(t *testing.T) {
	t.Parallel()
	const long = 4096
	server := httptest.NewUnstartedServer(nil) // its certificate is for 127.0.0.1
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		tls                  bool
		first, hello, answer string // what it says before all, before its PONG, and before each answer
		takes                int    // without another word
		gap                  string // in the long one's place
	}{
		"less before TLS":       {true, `INFO {"max_payload":1200}`, "+OK", "+OK", 1 << 20, ""},
		"less over TLS":         {true, `INFO {}`, `INFO {"max_payload":4096}`, "+OK", 1 << 20, "longer than what the server takes, 4096"},
		"more later":            {false, `INFO {"max_payload":4096}`, "+OK", `INFO {"max_payload":65536}`, 1 << 20, ""},
		"only when it's longer": {true, `INFO {}`, "+OK", "+OK", long, "Maximum Payload Violation"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var got []string
			address, _ := natsServer(t, func(conn net.Conn, in *bufio.Reader) {
				_, _ = io.WriteString(conn, c.first+"\r\n")
				if c.tls {
					conn = tls.Server(conn, &tls.Config{Certificates: server.TLS.Certificates})
					in = bufio.NewReader(conn)
				}
				heard(in, "PING")
				_, _ = io.WriteString(conn, c.hello+"\r\nPONG\r\n")
				for {
					inbox, size := published(in)
					if size[1] > c.takes {
						_, _ = io.WriteString(conn, "-ERR 'Maximum Payload Violation'\r\n")
						return
					}
					body, err := message(in, size)
					if err != nil {
						return
					}
					mu.Lock()
					got = append(got, body)
					mu.Unlock()
					_, _ = fmt.Fprintf(conn, "%s\r\nMSG %s 1 18\r\n{\"stream\":\"audit\"}\r\n", c.answer, inbox)
				}
			})
			sink := natsSink(t, address)
			if c.tls {
				sink.CA = ca
			}
			s := newScene(t, audit.Limits{}, sink)
			s.happen(2)
			s.happen(1, func(e *event.Event) { e.Target = strings.Repeat("x", long) })
			s.happen(2)
			s.start()
			s.all()
			mu.Lock()
			defer mu.Unlock()
			want := s.lines()
			if len(got) != len(want) {
				t.Fatalf("%d messages, not %d", len(got), len(want))
			}
			for i := range want {
				if is := strings.Contains(want[i], "xxxx") && c.gap != ""; is && !strings.Contains(got[i], c.gap) || !is && got[i] != want[i] {
					t.Errorf("%s\nnot\n%s", got[i], want[i])
				}
			}
		})
	}
}
