package ship

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/audit"
)

// splunk is an HTTP Event Collector with indexer acknowledgement, as documented: it may lose received events before they are
// indexed, and then never acknowledges them.
type splunk struct {
	*httptest.Server
	mu       sync.Mutex
	indexed  []string
	acks     map[string][]bool // by channel
	asked    int
	complain []string
	noAck    bool
}

func newSplunk(t *testing.T) *splunk {
	t.Helper()
	s := &splunk{acks: map[string][]bool{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *splunk) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	channel := req.Header.Get("X-Splunk-Request-Channel")
	if req.Header.Get("Authorization") != "Splunk the-token" || len(channel) != 36 {
		s.complain = append(s.complain, req.Header.Get("Authorization")+" "+channel)
		http.Error(w, `{"text":"Invalid token","code":4}`, http.StatusForbidden)
		return
	}
	s.asked++
	in := json.NewDecoder(req.Body)
	switch req.URL.Path {
	case "/services/collector/event":
		s.event(w, in, channel)
	case "/services/collector/ack":
		var q struct{ Acks []int }
		if err := in.Decode(&q); err != nil {
			s.complain = append(s.complain, err.Error())
		}
		answer := map[string]bool{}
		for _, a := range q.Acks {
			answer[strconv.Itoa(a)] = a < len(s.acks[channel]) && s.acks[channel][a]
		}
		if s.asked%5 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"acks": answer})
	default:
		http.NotFound(w, req)
	}
}

func (s *splunk) event(w http.ResponseWriter, in *json.Decoder, channel string) {
	var list []string
	for {
		var e struct {
			Time                     json.Number
			Host, Source, SourceType string
			Index                    string
			Event                    json.RawMessage
			Fields                   struct{ UID string }
		}
		if err := in.Decode(&e); err == io.EOF {
			break
		} else if err != nil {
			http.Error(w, `{"text":"Invalid data format","code":6}`, http.StatusBadRequest)
			return
		}
		if e.Source != "toolguard" || e.SourceType != "toolguard:ocsf" || e.Index != "security" || e.Host == "" || e.Time == "" || e.Fields.UID == "" {
			s.complain = append(s.complain, string(e.Event))
		}
		list = append(list, string(e.Event))
	}
	lost := s.asked%7 == 3
	if !lost {
		s.indexed = append(s.indexed, list...)
	}
	if s.noAck {
		_, _ = io.WriteString(w, `{"text":"Success","code":0}`)
		return
	}
	s.acks[channel] = append(s.acks[channel], !lost)
	_ = json.NewEncoder(w).Encode(map[string]any{"text": "Success", "code": 0, "ackId": len(s.acks[channel]) - 1})
}

// TestHEC checks that events that Splunk has received and not indexed are sent again.
func TestHEC(t *testing.T) {
	splunk := newSplunk(t)
	sink := Sink{Name: "splunk", Type: "hec", URL: splunk.URL, Token: secret(t, "the-token"), Index: "security", Batch: 20}
	s := newScene(t, audit.Limits{}, sink)
	ackWait = 500 * time.Millisecond
	t.Cleanup(func() { ackWait = 2 * time.Minute })
	s.record(100)
	s.deliver()
	splunk.mu.Lock()
	defer splunk.mu.Unlock()
	checkArrived(t, splunk.indexed, s.lines())
	if len(splunk.complain) > 0 {
		t.Error(splunk.complain[0])
	}
	if len(splunk.acks) < 2 {
		t.Error("nothing was lost and sent again")
	}
}

// TestHECWithoutAck checks that a token without acknowledgements is an error unless no_ack is set.
func TestHECWithoutAck(t *testing.T) {
	splunk := newSplunk(t)
	splunk.noAck = true
	s := newScene(t, audit.Limits{}, Sink{Name: "splunk", Type: "hec", URL: splunk.URL, Token: secret(t, "the-token"), Index: "security"})
	s.record(3)
	stop := s.start()
	wait(t, "it is logged", func() bool {
		return strings.Contains(s.log.String(), "enable indexer acknowledgement for the token")
	})
	stop()
	if st, err := ReadState(s.cfg.State); err != nil || st.Sinks["splunk"].Delivered != 0 {
		t.Errorf("%v %v", st, err)
	}
	s.cfg.Sinks[0].NoAck = true
	s.start()
	s.waitDelivered()
}
