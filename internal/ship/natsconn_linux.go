package ship

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
)

// What is read of a server is bounded. The lists of servers in what a large cluster says of itself take some KiB, acknowledgements some
// hundred bytes.
const (
	natsLine    = 64 << 10
	natsMessage = 64 << 10
)

// natsConn speaks as much of NATS's protocol (https://docs.nats.io/reference/reference-protocols/nats-protocol) as it takes to publish and to
// be answered, on one connection that nobody else uses at the same time.
type natsConn struct {
	net.Conn
	in    *bufio.Reader
	told  []string // secrets that the server has been told, and may say again
	most  int      // how long the server takes a message, as it said last; 0: it doesn't say
	over  bool     // it has said what's wrong, and ends the connection
	inbox string   // where answers come to, each with a number at its end
	asked int
}

// natsInfo is what a server says of itself, first and whenever it changes.
type natsInfo struct {
	Nonce string `json:"nonce"`
	TLS   bool   `json:"tls_required"`
	Most  int    `json:"max_payload"`
}

// dialNATS connects to a server, and is known to it.
func dialNATS(ctx context.Context, s Sink, server string) (c *natsConn, err error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(time.Duration(s.Timeout))
	conn, err := (&net.Dialer{Deadline: until}).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), orElse(u.Port(), "4222")))
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(until)
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	c = &natsConn{Conn: conn, in: bufio.NewReaderSize(conn, natsLine), inbox: "_INBOX." + rand.Text()}
	if err := c.greet(ctx, s, u); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return c, nil
}

// greet takes up TLS, says who asks, and where answers are to go.
func (c *natsConn) greet(ctx context.Context, s Sink, u *url.URL) error {
	line, err := c.line()
	if err != nil {
		return err
	}
	info, ok := c.hear(line)
	if !ok {
		return fmt.Errorf("it's no server of NATS: %.100q", line)
	}
	if info.TLS || u.Scheme == "tls" || s.CA != "" || s.Cert != "" {
		if err := c.encrypt(ctx, s, u.Hostname()); err != nil {
			return err
		}
	}
	who, secrets, err := s.natsUser(info.Nonce)
	if err != nil {
		return err
	}
	c.told = secrets
	if _, err := fmt.Fprintf(c, "CONNECT %s\r\nSUB %s.* 1\r\nPING\r\n", who, c.inbox); err != nil {
		return err
	}
	for {
		if said, err := c.next(); err != nil || said.op == "PONG" {
			return err
		}
	}
}

// hear takes in what a server says of itself.
func (c *natsConn) hear(line string) (info natsInfo, ok bool) {
	text, ok := strings.CutPrefix(line, "INFO ")
	if !ok || json.Unmarshal([]byte(text), &info) != nil {
		return info, false
	}
	c.most = orElse(info.Most, c.most)
	return info, true
}

func (c *natsConn) encrypt(ctx context.Context, s Sink, host string) error {
	if c.in.Buffered() > 0 {
		return errors.New("it goes on in the clear, where TLS begins")
	}
	cfg, err := s.tlsConfig()
	if err != nil {
		return err
	}
	cfg.ServerName = orElse(cfg.ServerName, host)
	conn := tls.Client(c.Conn, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	c.Conn, c.in, c.most = conn, bufio.NewReaderSize(conn, natsLine), 0 // before, anybody may have said it
	return nil
}

// natsUser is what the shipper says of itself. Secrets are read anew each time.
func (s *Sink) natsUser(nonce string) (said []byte, secrets []string, err error) {
	who := struct {
		Protocol     int    `json:"protocol"` // 1: it may say INFO again, and does before its first PONG
		Verbose      bool   `json:"verbose"`
		Pedantic     bool   `json:"pedantic"`
		Name         string `json:"name"`
		Lang         string `json:"lang"`
		Version      string `json:"version"`
		Headers      bool   `json:"headers"`
		NoResponders bool   `json:"no_responders"`
		Token        string `json:"auth_token,omitempty"`
		JWT          string `json:"jwt,omitempty"`
		Signature    string `json:"sig,omitempty"`
	}{Protocol: 1, Name: "toolguard-ship", Lang: "go", Version: "1", Headers: true, NoResponders: true}
	if s.Token != "" {
		if who.Token, err = readToken(s.Token); err != nil {
			return nil, nil, err
		}
	}
	if s.Creds != "" {
		if who.JWT, who.Signature, err = natsSign(s.Creds, nonce); err != nil {
			return nil, nil, err
		}
	}
	said, err = json.Marshal(who)
	return said, []string{who.Token, who.JWT, who.Signature}, err
}

// mask takes out of a server's words what this one has been told in confidence.
func (c *natsConn) mask(words string) string { return mask(words, c.told...) }

// natsSign reads a user's credentials, and signs with his key what the server asks.
func natsSign(name, nonce string) (jwt, signature string, err error) {
	text, err := readSecret(name)
	if err != nil {
		return "", "", err
	}
	jwt, jerr := nkeys.ParseDecoratedJWT(text)
	key, kerr := nkeys.ParseDecoratedUserNKey(text)
	if jerr != nil || kerr != nil {
		return "", "", fmt.Errorf("%s has no user's credentials of NATS's", name)
	}
	defer key.Wipe()
	signed, err := key.Sign([]byte(nonce))
	return jwt, base64.RawURLEncoding.EncodeToString(signed), err
}

// natsSaid is what a server says: an answer has a subject.
type natsSaid struct {
	op, subject, header string
	body                []byte
}

// request publishes, and waits for the answer.
func (c *natsConn) request(subject, header string, body []byte) (natsSaid, error) {
	c.asked++
	inbox := c.inbox + "." + strconv.Itoa(c.asked)
	text := fmt.Appendf(nil, "HPUB %s %s %d %d\r\n%s", subject, inbox, len(header), len(header)+len(body), header)
	_, failed := c.Write(append(append(text, body...), "\r\n"...)) // the server may have said why
	for {
		said, err := c.next()
		if err != nil && failed != nil && !c.over {
			err = failed
		}
		if err != nil || said.subject == inbox {
			return said, err
		}
	}
}

// idle hears what the server has said meanwhile, if anything.
func (c *natsConn) idle() error {
	_ = c.SetDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := c.in.Peek(1); errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	} else if err != nil {
		return err
	}
	_ = c.SetDeadline(time.Now().Add(time.Second))
	_, err := c.next()
	return err
}

func (c *natsConn) line() (string, error) {
	line, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", fmt.Errorf("it says a line of more than %d bytes", natsLine)
	}
	return strings.TrimSpace(string(line)), err
}

// next is what the server says next. A question whether anybody is there is answered.
func (c *natsConn) next() (said natsSaid, err error) {
	line, err := c.line()
	if err != nil {
		return said, err
	}
	words := strings.Fields(line)
	if len(words) > 0 {
		said.op = words[0]
	}
	switch said.op {
	case "PING":
		_, err = io.WriteString(c, "PONG\r\n")
	case "INFO":
		c.hear(line)
	case "PONG", "+OK":
	case "MSG", "HMSG":
		err = c.message(words, &said)
	case "-ERR":
		c.over = true
		if err = errors.New("it says " + c.mask(line)); strings.Contains(line, "Maximum Payload Violation") {
			err = &refusal{err.Error()}
		}
	default:
		err = fmt.Errorf("it says what isn't NATS's protocol: %.100q", c.mask(line))
	}
	return said, err
}

// message reads one, of which the words are the first line.
func (c *natsConn) message(words []string, said *natsSaid) error {
	last, header := len(words)-1, uint64(0)
	size, err := strconv.ParseUint(words[last], 10, 32)
	if said.op == "HMSG" && err == nil {
		header, err = strconv.ParseUint(words[last-1], 10, 32)
	}
	if err != nil || last < 3 || size > natsMessage || header > size {
		return fmt.Errorf("its answer is too long, or wrong: %.100q", c.mask(strings.Join(words, " ")))
	}
	said.subject = words[1]
	body := make([]byte, size+2)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return err
	}
	said.header, said.body = string(body[:header]), body[header:size]
	return nil
}
