package ship

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// js publishes to NATS JetStream, one record after the other: of two that are on their way at once the first may be lost while a
// cluster chooses a leader, and would come after the second.
type js struct {
	sink    Sink
	subject string
	servers []string
	at      int // which of them is asked next
	conn    *natsConn
}

func openNATS(s Sink) (sender, error) {
	subject := orElse(s.Subject, "toolguard.events")
	if strings.ContainsAny(subject, " \t\r\n*>") {
		return nil, fmt.Errorf("%q is no subject to publish to", subject)
	}
	return &js{sink: s, subject: subject, servers: strings.Split(s.URL, ",")}, nil
}

// connect connects to one of the servers that the settings name. Those that servers name aren't asked: they'd get the token, too.
func (j *js) connect(ctx context.Context) error {
	if j.conn != nil {
		return nil
	}
	var all []string
	for range j.servers {
		server := j.servers[j.at%len(j.servers)]
		conn, err := dialNATS(ctx, j.sink, server)
		if err == nil {
			j.conn = conn
			return nil
		}
		j.at++
		all = append(all, server+": "+err.Error())
	}
	return errors.New(strings.Join(all, "; "))
}

// hangUp has another server asked next.
func (j *js) hangUp() {
	_ = j.conn.Close()
	j.conn = nil
	j.at++
}

func (j *js) send(ctx context.Context, records []record) (int, error) {
	if err := j.connect(ctx); err != nil {
		return 0, err
	}
	conn := j.conn
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	for i, r := range records {
		if err := j.publish(r); err != nil {
			if no := (*refusal)(nil); j.conn.over || !errors.As(err, &no) {
				j.hangUp()
			}
			return i, err
		}
	}
	return len(records), nil
}

// keep answers a server that asks whether anybody is there.
func (j *js) keep(context.Context) error {
	if j.conn != nil && j.conn.idle() != nil {
		j.hangUp()
	}
	return nil
}

// tooLarge is JetStream's error for a message that is longer than its stream allows (JSStreamMessageExceedsMaximumErr).
const tooLarge = 10054

// publish waits until the stream has the record, on most of its servers. The uid lets it drop what comes again.
func (j *js) publish(r record) error {
	header := "NATS/1.0\r\nNats-Msg-Id: " + r.uid + "\r\n\r\n"
	if size := len(header) + len(r.body); j.conn.most > 0 && size > j.conn.most {
		return &refusal{fmt.Sprintf("with %d bytes it's longer than what the server takes, %d", size, j.conn.most)}
	}
	_ = j.conn.SetDeadline(time.Now().Add(time.Duration(j.sink.Timeout)))
	answer, err := j.conn.request(j.subject, header, r.body)
	if err != nil {
		return err
	}
	if status, _, ok := strings.Cut(answer.header, "\r\n"); ok {
		if strings.HasPrefix(status, "NATS/1.0 503") {
			return fmt.Errorf("no stream takes the subject %s: make one", j.subject)
		}
		return errors.New("it answers " + j.conn.mask(status))
	}
	var told struct {
		Stream string
		Error  struct {
			Number      int `json:"err_code"`
			Description string
		}
	}
	err = json.Unmarshal(answer.body, &told)
	why := j.conn.mask(told.Error.Description)
	switch {
	case err != nil:
		return fmt.Errorf("its answer is no acknowledgement: %w", err)
	case told.Error.Number == tooLarge:
		return &refusal{why}
	case told.Error.Number != 0 || told.Stream == "":
		return fmt.Errorf("the stream doesn't take it: error %d: %s", told.Error.Number, why)
	}
	return nil
}
