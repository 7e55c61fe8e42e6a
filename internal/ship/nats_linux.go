package ship

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
)

// jetStreamSink publishes to NATS JetStream, one record at a time: with two in flight, a cluster that elects a leader may lose the
// first and store it after the second.
type jetStreamSink struct {
	sink    Sink
	subject string
	servers []string
	next    int // the index of the next server
	conn    *natsConn
}

func openNATS(s Sink) (sender, error) {
	subject := orElse(s.Subject, "toolguard.events")
	if strings.ContainsAny(subject, " \t\r\n*>") {
		return nil, fmt.Errorf("%q isn't a subject to publish to", subject)
	}
	return &jetStreamSink{sink: s, subject: subject, servers: strings.Split(s.URL, ",")}, nil
}

// connect connects to one of the configured servers. It ignores servers that a server announces, which would receive the token.
func (j *jetStreamSink) connect(ctx context.Context) error {
	if j.conn != nil && !j.conn.nats.IsClosed() {
		return nil
	}
	j.disconnect()
	var all []string
	for range j.servers {
		server := j.servers[j.next%len(j.servers)]
		conn, err := dialNATS(ctx, j.sink, server)
		if err == nil {
			j.conn = conn
			return nil
		}
		j.next++
		all = append(all, server+": "+err.Error())
	}
	return errors.New(strings.Join(all, "; "))
}

// disconnect closes the connection and selects the next server.
func (j *jetStreamSink) disconnect() {
	if j.conn != nil {
		j.conn.close(nil)
		j.conn = nil
		j.next++
	}
}

func (j *jetStreamSink) send(ctx context.Context, records []record) (int, error) {
	if err := j.connect(ctx); err != nil {
		return 0, err
	}
	for i, r := range records {
		if err := j.conn.publish(j.subject, r, time.Duration(j.sink.Timeout)); err != nil {
			if rejected := (*rejection)(nil); !errors.As(err, &rejected) || j.conn.nats.IsClosed() {
				j.disconnect()
			}
			return i, err
		}
	}
	return len(records), nil
}

// natsConn is one connection to one server. nats.go dials none itself: it receives this one, and no other after its end, whatever
// servers a server announces.
type natsConn struct {
	net.Conn
	nats    *nats.Conn
	stream  jetstream.JetStream
	ctx     context.Context // ends with the connection; its cause is the error
	cancel  context.CancelCauseFunc
	secrets []string     // that the server has received and may echo
	budget  atomic.Int64 // bytes that the server may send until the next record
}

// readBudget is how many bytes a server may send between two records. The INFO of a large cluster takes some KiB.
const readBudget = 256 << 10

func dialNATS(ctx context.Context, s Sink, server string) (*natsConn, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: time.Duration(s.Timeout)}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), orElse(u.Port(), "4222")))
	if err != nil {
		return nil, err
	}
	c := &natsConn{Conn: conn}
	c.budget.Store(readBudget)
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	context.AfterFunc(c.ctx, func() { _ = conn.Close() })
	if err := c.handshake(s, u); err != nil {
		err = c.cause(err)
		c.close(err)
		return nil, err
	}
	return c, nil
}

// handshake has nats.go use the connection, without reconnecting and without buffering messages.
func (c *natsConn) handshake(s Sink, u *url.URL) (err error) {
	o := nats.Options{
		Url: u.String(), CustomDialer: c, SkipHostLookup: true, IgnoreDiscoveredServers: true, AllowReconnect: false,
		Name: "toolguard-ship", Secure: u.Scheme == "tls" || s.CA+s.Cert+s.ServerName != "",
		Timeout: time.Duration(s.Timeout), FlusherTimeout: time.Duration(s.Timeout), PingInterval: nats.DefaultPingInterval,
		AsyncErrorCB: func(_ *nats.Conn, _ *nats.Subscription, err error) { c.cancel(err) },
	}
	if o.TLSConfig, err = s.tlsConfig(); err != nil {
		return err
	}
	if s.Token != "" {
		if o.Token, err = readToken(s.Token); err != nil {
			return err
		}
		c.secrets = append(c.secrets, o.Token)
	}
	if s.Creds != "" {
		if o.UserJWT, o.SignatureCB, err = c.credentials(s.Creds); err != nil {
			return err
		}
	}
	if c.nats, err = o.Connect(); err != nil {
		return err
	}
	if c.stream, err = jetstream.New(c.nats); err != nil {
		return err
	}
	return c.nats.FlushTimeout(o.Timeout) // only this confirms the INFO over TLS: an attacker may have sent the one before it
}

// credentials reads a user's credentials, and signs the server's nonce with their key.
func (c *natsConn) credentials(name string) (nats.UserJWTHandler, nats.SignatureHandler, error) {
	text, err := readSecret(name)
	if err != nil {
		return nil, nil, err
	}
	jwt, jerr := nkeys.ParseDecoratedJWT(text)
	key, kerr := nkeys.ParseDecoratedUserNKey(text)
	if jerr != nil || kerr != nil {
		return nil, nil, fmt.Errorf("%s has no NATS user credentials", name)
	}
	c.secrets = append(c.secrets, jwt)
	sign := func(nonce []byte) ([]byte, error) {
		defer key.Wipe()
		return key.Sign(nonce)
	}
	return func() (string, error) { return jwt, nil }, sign, nil
}

// Dial returns the connection to nats.go.
func (c *natsConn) Dial(string, string) (net.Conn, error) { return c, c.ctx.Err() }

// Read limits the unterminated lines and unsolicited messages that nats.go buffers.
func (c *natsConn) Read(p []byte) (int, error) {
	if c.budget.Load() <= 0 {
		return 0, fmt.Errorf("the server sent more than %d unsolicited bytes", readBudget)
	}
	n, err := c.Conn.Read(p)
	c.budget.Add(int64(-n))
	return n, err
}

func (c *natsConn) close(why error) {
	c.cancel(why)
	_ = c.Conn.Close() // first, so that nats.go doesn't wait for a flush
	c.nats.Close()
}

// cause returns what ended the connection if known, else err, without secrets.
func (c *natsConn) cause(err error) error {
	if cause := context.Cause(c.ctx); cause != nil {
		err = cause
	} else if last := c.nats.LastError(); errors.Is(err, nats.ErrConnectionClosed) && last != nil {
		err = last
	}
	return errors.New(mask(err.Error(), c.secrets...))
}

// errMessageTooLarge is JetStream's error for a message that exceeds its stream's limit (JSStreamMessageExceedsMaximumErr).
const errMessageTooLarge = 10054

// publish waits until a quorum of the stream's servers has the record. The uid lets the stream drop duplicates.
func (c *natsConn) publish(subject string, r record, timeout time.Duration) error {
	c.budget.Store(readBudget)
	ctx, cancel := context.WithTimeout(c.ctx, timeout)
	defer cancel()
	_, err := c.stream.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: r.body}, jetstream.WithMsgID(r.uid), jetstream.WithRetryAttempts(0))
	var apiError *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return &rejection{fmt.Sprintf("the record has %d bytes and a header, more than the server's maximum, %d", len(r.body), c.nats.MaxPayload())}
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no stream has the subject %s: create one", subject)
	case errors.As(err, &apiError) && apiError.ErrorCode == errMessageTooLarge:
		return &rejection{mask(apiError.Description, c.secrets...)}
	case errors.As(err, &apiError):
		return fmt.Errorf("the stream failed to store the record: error %d: %s", apiError.ErrorCode, mask(apiError.Description, c.secrets...))
	}
	if err = c.cause(err); strings.Contains(err.Error(), "Maximum Payload Violation") {
		return &rejection{err.Error()}
	}
	return err
}
