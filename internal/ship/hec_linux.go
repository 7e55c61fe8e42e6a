package ship

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

// ackWait is how long Splunk may take to index records before they are sent again.
var ackWait = 2 * time.Minute

// hec sends to Splunk's HTTP Event Collector.
type hec struct {
	*poster
	channel string // acknowledgements are numbered within a channel
	wait    time.Duration
}

func openHEC(s Sink) (sender, error) {
	p, err := newPoster(s, "Authorization", "Splunk ")
	h := &hec{poster: p, wait: ackWait}
	h.newChannel()
	return h, err
}

// newChannel starts another channel, and with it drops pending acknowledgements.
func (h *hec) newChannel() {
	var id [16]byte
	rand.Read(id[:])
	t := hex.EncodeToString(id[:])
	h.channel = strings.Join([]string{t[:8], t[8:12], t[12:16], t[16:20], t[20:]}, "-")
}

func (h *hec) send(ctx context.Context, records []record) (int, error) {
	var body []byte
	for _, r := range records {
		text, err := h.envelope(r)
		if err != nil {
			return 0, err
		}
		body = append(append(body, text...), '\n')
	}
	reply, err := h.request(ctx, "/services/collector/event", body)
	if err != nil {
		return 0, err
	}
	if h.sink.NoAck {
		err = checkReceived(reply)
	} else if err = h.waitIndexed(ctx, reply); err != nil {
		h.newChannel()
	}
	if err != nil {
		return 0, err
	}
	return len(records), nil
}

// checkReceived checks that Splunk itself reports the receipt: any server may return 200.
func checkReceived(reply []byte) error {
	var answer struct {
		Code *int
		Text string
	}
	if err := json.Unmarshal(reply, &answer); err != nil || answer.Code == nil {
		return errors.New("the response is 200 without Splunk's code: is this a Splunk HTTP Event Collector?")
	}
	if *answer.Code != 0 {
		return fmt.Errorf("the response is 200 with code %d: %s", *answer.Code, answer.Text)
	}
	return nil
}

// envelope wraps a record for Splunk.
func (h *hec) envelope(r record) ([]byte, error) {
	kind, _, _ := strings.Cut(h.sink.format.String(), "-") // all versions of OCSF have the same source type
	e := map[string]any{
		"time": json.Number(fmt.Sprintf("%d.%03d", r.Time/1000, r.Time%1000)), "source": "toolguard",
		"sourcetype": orElse(h.sink.SourceType, "toolguard:"+kind), "fields": map[string]string{"uid": r.uid},
	}
	if r.Device.Hostname != "" {
		e["host"] = r.Device.Hostname
	}
	if h.sink.Index != "" {
		e["index"] = h.sink.Index
	}
	e["event"] = json.RawMessage(r.body)
	if h.sink.format == event.Text {
		e["event"] = string(r.body)
	}
	return json.Marshal(e)
}

// asTemporary hides that an error is a rejection.
func asTemporary(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

func (h *hec) request(ctx context.Context, path string, body []byte) ([]byte, error) {
	more := http.Header{"X-Splunk-Request-Channel": {h.channel}}
	return h.post(ctx, strings.TrimSuffix(h.sink.URL, "/")+path, "application/json", body, more)
}

// waitIndexed waits until Splunk reports that the records are indexed.
func (h *hec) waitIndexed(ctx context.Context, reply []byte) error {
	var got struct{ AckID *uint64 }
	if err := json.Unmarshal(reply, &got); err != nil || got.AckID == nil {
		return errors.New("the response has no acknowledgement id: enable indexer acknowledgement for the token, or set no_ack = true, " +
			"which relies on the receipt alone")
	}
	query, _ := json.Marshal(map[string][]uint64{"acks": {*got.AckID}})
	var last error // a failed query is repeated: sending everything again costs more
	deadline := time.Now().Add(h.wait)
	for pause := 100 * time.Millisecond; time.Now().Before(deadline); pause = min(2*pause, 5*time.Second) {
		if sleep(ctx, pause); ctx.Err() != nil {
			return ctx.Err()
		}
		var answer struct{ Acks map[string]bool }
		reply, err := h.request(ctx, "/services/collector/ack", query)
		if err == nil {
			err = json.Unmarshal(reply, &answer)
		}
		if err == nil && answer.Acks[strconv.FormatUint(*got.AckID, 10)] {
			return nil
		}
		last = err
	}
	return errors.Join(fmt.Errorf("the records weren't indexed within %s", h.wait), asTemporary(last))
}
