package ship

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// js publishes to NATS JetStream, one record after the other: of two that are on their way at once the first may be lost while a
// cluster chooses a leader, and would come after the second.
type js struct {
	sink    Sink
	subject string
	conn    *nats.Conn
	stream  jetstream.JetStream
}

func openNATS(s Sink) (sender, error) {
	return &js{sink: s, subject: orElse(s.Subject, "toolguard.events")}, nil
}

func (j *js) connect() error {
	if j.conn != nil && !j.conn.IsClosed() {
		return nil
	}
	cfg, err := j.sink.tlsConfig()
	if err != nil {
		return err
	}
	options := []nats.Option{
		nats.Name("toolguard-ship"), nats.Timeout(time.Duration(j.sink.Timeout)), nats.MaxReconnects(-1), nats.ReconnectWait(time.Second),
		nats.ReconnectBufSize(-1), // what can't be sent at once fails, and is sent again by the worker
	}
	if j.sink.CA != "" || j.sink.Cert != "" || len(j.sink.URL) > 3 && j.sink.URL[:3] == "tls" {
		options = append(options, nats.Secure(cfg))
	}
	if j.sink.Token != "" {
		if _, err := readToken(j.sink.Token); err != nil {
			return err
		}
		options = append(options, nats.TokenHandler(func() string { token, _ := readToken(j.sink.Token); return token }))
	}
	if j.sink.Creds != "" {
		if _, err := readSecret(j.sink.Creds); err != nil {
			return err
		}
		options = append(options, nats.UserCredentials(j.sink.Creds))
	}
	if j.conn, err = nats.Connect(j.sink.URL, options...); err != nil {
		return err
	}
	j.stream, err = jetstream.New(j.conn)
	return err
}

func (j *js) send(ctx context.Context, records []record) (int, error) {
	if err := j.connect(); err != nil {
		return 0, err
	}
	for i, r := range records {
		if err := j.publish(ctx, r); err != nil {
			return i, err
		}
	}
	return len(records), nil
}

// publish waits until the stream has the record, on most of its servers. The uid lets it drop what comes again.
func (j *js) publish(ctx context.Context, r record) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(j.sink.Timeout))
	defer cancel()
	msg := &nats.Msg{Subject: j.subject, Data: r.body}
	_, err := j.stream.PublishMsg(ctx, msg, jetstream.WithMsgID(r.uid), jetstream.WithRetryAttempts(0))
	var told *jetstream.APIError
	switch {
	case errors.Is(err, nats.ErrMaxPayload), errors.As(err, &told) && told.ErrorCode == tooLarge:
		return &refusal{err.Error()}
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no stream takes the subject %s: make one", j.subject)
	}
	return err
}

// tooLarge is JetStream's error for a message that is longer than its stream allows (JSStreamMessageExceedsMaximumErr).
const tooLarge = 10054
