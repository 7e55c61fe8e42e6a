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

// jetStreamSink publishes to NATS JetStream, one record after the other: of two that are on their way at once the first may be lost while a
// cluster chooses a leader, and would come after the second.
type jetStreamSink struct {
	sink    Sink
	subject string
	servers []string
	next    int // which of them is asked next
	conn    *natsConn
}

func openNATS(s Sink) (sender, error) {
	subject := orElse(s.Subject, "toolguard.events")
	if strings.ContainsAny(subject, " \t\r\n*>") {
		return nil, fmt.Errorf("%q is no subject to publish to", subject)
	}
	return &jetStreamSink{sink: s, subject: subject, servers: strings.Split(s.URL, ",")}, nil
}

// connect connects to one of the servers that the settings name. Those that servers name aren't asked: they'd get the token, too.
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

// disconnect has another server asked next.
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

// natsConn is one connection to one server. nats.go opens none: it gets this one, and after its end nothing else, whatever servers a server names.
type natsConn struct {
	net.Conn
	nats    *nats.Conn
	stream  jetstream.JetStream
	ctx     context.Context // ends with the connection, and says why
	cancel  context.CancelCauseFunc
	secrets []string     // that the server has got, and may send back
	budget  atomic.Int64 // bytes that it may say until the next record
}

// readBudget is how many bytes a server may say between two records. What a large cluster says of itself takes some KiB.
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

// handshake has nats.go begin on the connection: it's not to connect again, and not to keep what the server hasn't got.
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
	return c.nats.FlushTimeout(o.Timeout) // by then it has said over TLS what it takes; before, anybody may have
}

// credentials reads a user's credentials, and signs with his key what the server asks.
func (c *natsConn) credentials(name string) (nats.UserJWTHandler, nats.SignatureHandler, error) {
	text, err := readSecret(name)
	if err != nil {
		return nil, nil, err
	}
	jwt, jerr := nkeys.ParseDecoratedJWT(text)
	key, kerr := nkeys.ParseDecoratedUserNKey(text)
	if jerr != nil || kerr != nil {
		return nil, nil, fmt.Errorf("%s has no user's credentials of NATS's", name)
	}
	c.secrets = append(c.secrets, jwt)
	sign := func(nonce []byte) ([]byte, error) {
		defer key.Wipe()
		return key.Sign(nonce)
	}
	return func() (string, error) { return jwt, nil }, sign, nil
}

// Dial is nats.go's way to the server.
func (c *natsConn) Dial(string, string) (net.Conn, error) { return c, c.ctx.Err() }

// Read bounds what nats.go keeps of a line without an end, and of answers to nobody.
func (c *natsConn) Read(p []byte) (int, error) {
	if c.budget.Load() <= 0 {
		return 0, fmt.Errorf("it says more than %d bytes without being asked", readBudget)
	}
	n, err := c.Conn.Read(p)
	c.budget.Add(int64(-n))
	return n, err
}

func (c *natsConn) close(why error) {
	c.cancel(why)
	_ = c.Conn.Close() // first, so that nats.go doesn't wait to send something
	c.nats.Close()
}

// endError is what ended the connection, where that's known, or else what came of it. Its secrets are taken out.
func (c *natsConn) cause(err error) error {
	if cause := context.Cause(c.ctx); cause != nil {
		err = cause
	} else if last := c.nats.LastError(); errors.Is(err, nats.ErrConnectionClosed) && last != nil {
		err = last
	}
	return errors.New(mask(err.Error(), c.secrets...))
}

// errMessageTooLarge is JetStream's error for a message that is longer than its stream allows (JSStreamMessageExceedsMaximumErr).
const errMessageTooLarge = 10054

// publish waits until the stream has the record, on most of its servers. The uid lets it drop what comes again.
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
		return &rejection{fmt.Sprintf("with %d bytes and a header it's longer than what the server takes, %d", len(r.body), c.nats.MaxPayload())}
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no stream takes the subject %s: make one", subject)
	case errors.As(err, &apiError) && apiError.ErrorCode == errMessageTooLarge:
		return &rejection{mask(apiError.Description, c.secrets...)}
	case errors.As(err, &apiError):
		return fmt.Errorf("the stream doesn't take it: error %d: %s", apiError.ErrorCode, mask(apiError.Description, c.secrets...))
	}
	if err = c.cause(err); strings.Contains(err.Error(), "Maximum Payload Violation") {
		return &rejection{err.Error()}
	}
	return err
}
