package ship

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/childtest"
)

// natsServer sends each client a reply after a line with a prefix. It returns its address and its input.
func natsServer(t *testing.T, replies ...[2]string) (address string, input *childtest.Output) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	childtest.Must(t, err)
	input = &childtest.Output{}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(input, "a client\n")
			all.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(io.TeeReader(conn, input))
				for _, s := range replies {
					for line := ""; err == nil && !strings.HasPrefix(line, s[0]); {
						line, err = in.ReadString('\n')
					}
					_, _ = io.WriteString(conn, s[1])
				}
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().String(), input
}

// TestNATSHostile checks that hostile replies that nats.go survives are logged and retried, that the token is sent to no other
// server and not unencrypted where TLS is required, and that another sink receives everything. test/siem has the replies that crash
// the process.
func TestNATSHostile(t *testing.T) {
	t.Parallel()
	rogue, rogueInput := natsServer(t, [2]string{"", "INFO {}\r\n"})
	hello := fmt.Sprintf(`INFO {"headers":true,"max_payload":1048576,"jetstream":true,"ldm":true,"connect_urls":[%q]}`+"\r\n", rogue)
	after := func(until, text string) [][2]string { // two PINGs arrive before the first record
		return [][2]string{{"", hello}, {"PING", "PONG\r\n"}, {"PING", hello + "PONG\r\n"}, {until, text}}
	}
	first := func(text string) [][2]string { return [][2]string{{"", text}} }
	long := strings.Repeat("A", 64<<20) // more than the client should read
	for name, c := range map[string]struct {
		replies [][2]string
		scheme  string
		want    string
	}{
		"a line without an end":         {first(long), "nats", "more than 262144 unsolicited bytes"},
		"an INFO without an end":        {first(`INFO {"connect_urls":["` + long), "nats", "more than 262144 unsolicited bytes"},
		"no NATS":                       {first("SSH-2.0-OpenSSH_9.2\r\n"), "nats", "protocol exception, INFO not received"},
		"an INFO that isn't JSON":       {first("INFO {\r\n"), "nats", "unexpected end of JSON"},
		"no TLS":                        {after("HPUB", ""), "tls", "secure connection not available"},
		"messages without an end":       {after("SUB", strings.Repeat("MSG x 9 6\r\nfor me\r\n", 1<<20)), "nats", "more than 262144 unsolicited bytes"},
		"an answer that isn't one":      {after("HPUB", "MSG x 1 6\r\nfor me\r\n"), "nats", "invalid jetstream publish response"},
		"a negative one":                {after("", "MSG x 1 -1\r\n"+long), "nats", "Bad or Missing Size"},
		"a header longer than all":      {after("", "HMSG x 1 9 8\r\n"+long), "nats", "Bad or Missing Header Size"},
		"a message without words":       {after("", "MSG\r\n"), "nats", "Parse Error"},
		"a line without an end, later":  {after("HPUB", "INFO "+long), "nats", "more than 262144 unsolicited bytes"},
		"an error":                      {after("HPUB", "-ERR 'Authorization Violation'\r\n"), "nats", "authorization violation"},
		"no permission":                 {after("HPUB", "-ERR 'Permissions Violation for Publish to \"toolguard.events\"'\r\n"), "nats", "Permissions Violation for Publish"},
		"a record that is too long":     {after("HPUB", "-ERR 'Maximum Payload Violation'\r\n"), "nats", "accepts neither a record"},
		"the token, in an error":        {after("HPUB", "-ERR 'who says canary-nats?'\r\n"), "nats", "who says ***?"},
		"the token, instead of it":      {after("HPUB", "canary-nats\r\n"), "nats", "Parse Error [0]: '***"},
		"the token, instead of a PONG":  {[][2]string{{"", hello}, {"PING", "canary-nats\r\n"}}, "nats", "got '***'"},
		"another protocol":              {after("HPUB", "HTTP/1.1 200 OK\r\n\r\n"), "nats", "Parse Error"},
		"nothing, and then it hangs up": {after("HPUB", ""), "nats", "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, input := natsServer(t, c.replies...)
			out := t.TempDir() + "/out"
			s := newScene(t, audit.Limits{}, Sink{Name: "file", Type: "file", Path: out},
				Sink{Name: "nats", Type: "nats", URL: c.scheme + "://" + address, Token: secret(t, "canary-nats")})
			s.record(3)
			stop := s.start()
			wait(t, "it's said why nothing is delivered", func() bool { return strings.Contains(s.log.String(), c.want) })
			wait(t, "it's tried again", func() bool { return strings.Count(input.String(), "a client") > 2 })
			s.record(3)
			wait(t, "the file has all", func() bool {
				st, err := ReadState(s.cfg.State)
				end, eerr := audit.End(s.cfg.Spool)
				return err == nil && eerr == nil && st.Sinks["file"].Cursor.Sequence == end.Sequence
			})
			stop()
			checkArrived(t, fileLines(t, out), s.lines())
			if text := s.log.String(); strings.Contains(text, "canary-nats") {
				t.Errorf("the token is in the log: %s", text)
			}
			if greeted := len(c.replies) > 1 && c.scheme == "nats"; strings.Contains(input.String(), `"auth_token":"canary-nats"`) != greeted {
				t.Errorf("it got the token: %t", !greeted)
			}
			if rogueInput.String() != "" {
				t.Errorf("a server that isn't in the settings input %s", rogueInput.String())
			}
		})
	}
}
