package ship

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/childtest"
)

// misbehavior is how a receiver treats one request.
type misbehavior struct {
	keeps    int // halves of the received records, whatever it answers
	answer   func(*receiver, http.ResponseWriter, *http.Request)
	reported string // by the shipper
}

// accept is a response that every sink type accepts. Every acknowledgement has the number 7.
func accept(_ *receiver, w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, `{"text":"Success","code":0,"ackId":7,"acks":{"7":true}}`)
}

// status responds with a status, and with alternating header names and values.
func status(code int, headers ...string) func(*receiver, http.ResponseWriter, *http.Request) {
	return func(_ *receiver, w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
	}
}

// reply responds with 200.
func reply(body string) func(*receiver, http.ResponseWriter, *http.Request) {
	return func(_ *receiver, w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }
}

// replyRaw writes bytes to the connection, not necessarily HTTP, and closes it.
func replyRaw(texts ...string) func(*receiver, http.ResponseWriter, *http.Request) {
	return func(_ *receiver, w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		for _, text := range texts {
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
		if tcp, ok := conn.(*net.TCPConn); ok && len(texts) == 0 {
			_ = tcp.SetLinger(0) // a reset
		}
	}
}

// replySlowly sends a byte at a time, without end.
func replySlowly(r *receiver, w http.ResponseWriter, req *http.Request) {
	for {
		_, _ = io.WriteString(w, " ")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-req.Context().Done():
			return
		case <-r.done:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// hang sends nothing until the client is gone.
func hang(r *receiver, _ http.ResponseWriter, req *http.Request) {
	select {
	case <-req.Context().Done():
	case <-r.done:
	}
}

const late = "deadline exceeded"

const half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"

var tricks = map[string]misbehavior{
	"hangs":                          {0, hang, late},
	"keeps all and hangs":            {2, hang, late},
	"answers slowly, without an end": {2, replySlowly, late},
	"resets":                         {0, replyRaw(), "connection reset"},
	"keeps all and resets":           {2, replyRaw(), "connection reset"},
	"keeps half and resets":          {1, replyRaw(), "connection reset"},
	"429":                            {0, status(429), "429"},
	"429 for a second":               {0, status(429, "Retry-After", "1"), "429"},
	"429 until a time":               {0, status(429, "Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT"), "429"},
	"429 for an unknown time":        {0, status(429, "Retry-After", "-99999999999999999999"), "429"},
	"500":                            {0, status(500), "500"},
	"500, and keeps half":            {1, status(500), "500"},
	"500, and keeps all":             {2, status(500), "500"},
	"502":                            {0, status(502), "502"},
	"503":                            {0, status(503, "Retry-After", "0"), "503"},
	"504":                            {2, status(504), "504"},
	"507":                            {0, status(507), "507"},
	"half an answer":                 {2, replyRaw(half), "unexpected EOF"},
	"half a head":                    {2, replyRaw("HTTP/1.1 200 OK\r\nContent-"), "connection broken"},
	"no HTTP":                        {2, replyRaw("SSH-2.0-OpenSSH_9.2\r\n"), "malformed"},
	"a head without an end":          {2, replyRaw("HTTP/1.1 200 OK\r\n", strings.Repeat("X: y\r\n", 100_000)), "headers exceeded"},
	"only answers that aren't final": {2, replyRaw(strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 10_000)), "headers exceeded"},
	"a token for a version":          {0, replyRaw("canary-token 200 OK\r\n\r\n"), "***"},
	"a token for a status":           {0, replyRaw("HTTP/1.1 canary-token x\r\n\r\n"), "***"},
	"a token for a header":           {0, replyRaw("HTTP/1.1 200 OK\r\ncanary-token\r\n\r\n"), "***"},
	"a token for a length":           {0, replyRaw("HTTP/1.1 200 OK\r\nContent-Length: canary-token\r\n\r\n"), "***"},
	"a token, and half":              {2, replyRaw("HTTP/1.1 200 canary-token\r\nContent-Length: 9\r\n\r\n{"), "200 *** is incomplete"},
	"redirects":                      {0, status(307, "Location", "/elsewhere"), "307"},
	"redirects for good":             {0, status(308, "Location", "https://elsewhere.example/"), "308"},
	"403":                            {0, status(403), "403"},
	"408":                            {0, status(408), "408"},
	"a false Content-Encoding": {2, func(_ *receiver, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, "{}")
	}, "is incomplete"},
}

// Receivers whose answers are about the received records.
var ownTricks = map[string]map[string]misbehavior{
	"hec": {
		"200, and busy":               {0, reply(`{"text":"Server is busy","code":9}`), "enable indexer acknowledgement"},
		"200, and no JSON":            {0, reply("<html>Log in</html>"), "enable indexer acknowledgement"},
		"no number to ask for":        {2, reply(`{"text":"Success","code":0}`), "enable indexer acknowledgement"},
		"a number that is too long":   {2, reply(`{"ackId":` + strings.Repeat("9", 100_000) + `}`), "enable indexer acknowledgement"},
		"a number below all":          {2, reply(`{"ackId":-1}`), "enable indexer acknowledgement"},
		"a number that it denies":     {2, reply(`{"ackId":8,"acks":{"8":false}}`), "weren't indexed"},
		"the number of something":     {2, reply(`{"ackId":8,"acks":{"7":true}}`), "weren't indexed"},
		"it busies itself with words": {2, reply(`{"ackId":8,"acks":{"8":"true"}}`), "weren't indexed"},
	},
	"hec, without acknowledgements": {
		"200, and busy":    {0, reply(`{"text":"Server is busy, canary-token","code":9}`), "Server is busy, ***"},
		"200, and no JSON": {0, reply("<html>Log in</html>"), "without Splunk"},
		"200, and nothing": {0, reply(""), "without Splunk"},
	},
	"otlp": {
		"200, and no JSON":        {0, reply("<html>Log in</html>"), "isn't OTLP"},
		"200, and an error":       {0, reply(`{"code":14,"message":"canary-token has no space"}`), "*** has no space"},
		"200, and half of an end": {2, reply(`{"partialSuccess":{`), "isn't OTLP"},
	},
	"webhook": {
		"404, with its path": {0, func(_ *receiver, w http.ResponseWriter, r *http.Request) {
			http.Error(w, "The requested URL "+r.URL.Path+" was not found", http.StatusNotFound)
		}, "The requested URL *** was not found"},
	},
}

// events returns the events in a request's body.
func events(path string, body []byte) (all []string) {
	switch path {
	case "/v1/logs":
		var in struct {
			ResourceLogs []struct {
				ScopeLogs []struct {
					LogRecords []struct{ Body struct{ StringValue string } }
				}
			}
		}
		if json.Unmarshal(body, &in) == nil {
			for _, r := range in.ResourceLogs[0].ScopeLogs[0].LogRecords {
				all = append(all, r.Body.StringValue)
			}
		}
	case "/services/collector/event":
		list := json.NewDecoder(bytes.NewReader(body))
		for e := (struct{ Event json.RawMessage }{}); list.Decode(&e) == nil; {
			all = append(all, string(e.Event))
		}
	case "/services/collector/ack":
	default:
		all = strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	}
	return all
}

// TestMisbehavior checks that everything is delivered, in order and with identical repetitions, whatever a receiver does once or
// three times.
func TestMisbehavior(t *testing.T) {
	ackWait = 4 * time.Second
	t.Cleanup(func() { ackWait = 2 * time.Minute })
	for kind, own := range ownTricks {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			sink := Sink{Type: kind, Batch: 7, Token: secret(t, "canary-token")}
			path := ""
			switch kind {
			case "webhook":
				path = "/hook/canary-path"
			case "otlp":
				path = "/v1/logs"
			case "hec, without acknowledgements":
				sink.Type, sink.NoAck = "hec", true
			}
			all := maps.Clone(tricks)
			maps.Copy(all, own)
			receivers := map[string]*receiver{}
			var sinks []Sink
			for name, c := range all {
				r := newReceiver(t, c, misbehavior{}, c, c, c)
				r.Start()
				sink.Name, sink.URL, sink.Timeout = "s"+strconv.Itoa(len(sinks)), r.URL+path, 0
				if c.reported == late { // on a slow machine other cases may be late, too
					sink.Timeout = duration(500 * time.Millisecond)
				}
				sinks, receivers[name] = append(sinks, sink), r
				r.sink = sink.Name
			}
			s := newScene(t, audit.Limits{}, sinks...)
			s.record(30)
			stop := s.start()
			s.waitDelivered()
			s.record(10)
			s.waitDelivered()
			stop()
			for name, c := range all {
				t.Run(name, func(t *testing.T) { receivers[name].checkMisbehavior(t, c, s) })
			}
			if strings.Contains(s.log.String(), "canary") {
				t.Error("an echoed secret is shown")
			}
		})
	}
}

// checkMisbehavior checks the effect of a misbehavior.
func (r *receiver) checkMisbehavior(t *testing.T, c misbehavior, s *scene) {
	want, got := s.lines(), r.got()
	checkArrived(t, got, want)
	if c.keeps > 0 && len(got) == len(want) {
		t.Error("no record arrived twice: the receiver didn't misbehave")
	}
	if !regexp.MustCompile(`sink=` + r.sink + ` why=.*` + regexp.QuoteMeta(c.reported)).MatchString(s.log.String()) {
		t.Errorf("the log doesn't say %q of %s: %s", c.reported, r.sink, s.log)
	}
	if r.asked < len(r.tricks) {
		t.Errorf("it was asked %d times only", r.asked)
	}
}

// TestMisbehaviorSequence runs all misbehaviors in sequence.
func TestMisbehaviorSequence(t *testing.T) {
	r := newReceiver(t)
	for _, name := range slices.Sorted(maps.Keys(tricks)) {
		r.tricks = append(r.tricks, tricks[name], misbehavior{})
	}
	r.again = true
	r.Start()
	s := newScene(t, audit.Limits{}, Sink{Name: "hook", Type: "webhook", URL: r.URL, Batch: 7, Timeout: duration(500 * time.Millisecond)})
	s.start()
	for range 25 {
		s.record(10)
	}
	s.waitDelivered()
	checkArrived(t, r.got(), s.lines())
	if r.mu.Lock(); r.asked < len(r.tricks) {
		t.Errorf("it was asked %d times only", r.asked)
	}
	r.mu.Unlock()
}

// TestMaximumState checks that the state is readable with the maximum number of sinks, whose errors are as long as possible when
// encoded.
func TestMaximumState(t *testing.T) {
	for name, word := range map[string]string{"markup": "<", "quotes": `\`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var before atomic.Bool
			before.Store(true)
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if !before.Load() {
					w.WriteHeader(http.StatusForbidden)
					_, _ = io.WriteString(w, strings.Repeat(word, 2*maxReason))
				}
			})
			var sinks []Sink
			for i := range audit.MaxSinks {
				sinks = append(sinks, Sink{Name: strings.Repeat("n", 62) + strconv.Itoa(10+i), Type: "webhook", URL: url})
			}
			s := newScene(t, audit.Limits{}, sinks...)
			s.record(1)
			stop := s.start()
			s.waitDelivered()
			before.Store(false)
			s.record(1)
			fail := func() bool {
				st, err := ReadState(s.cfg.State)
				childtest.Must(t, err)
				for _, sink := range st.Sinks {
					if sink.Failing == "" {
						return false
					}
				}
				return true
			}
			wait(t, "all fail", fail)
			stop()
			if all, err := audit.ReadCursors(filepath.Join(s.cfg.State, stateName)); err != nil || len(all) != audit.MaxSinks {
				t.Errorf("%d, %v", len(all), err)
			}
			s.start()
			wait(t, "all fail again", fail)
		})
	}
}

// TestKilledBeforeCursor checks that records that were delivered before the first cursor was stored are delivered again,
// identically.
func TestKilledBeforeCursor(t *testing.T) {
	r := newReceiver(t)
	r.Start()
	s := newScene(t, audit.Limits{}, Sink{Name: "hook", Type: "webhook", URL: r.URL})
	st, err := openState(s.cfg, slog.New(slog.DiscardHandler))
	childtest.Must(t, err)
	_ = st.lock.Close()
	name := filepath.Join(s.cfg.State, stateName)
	first, err := os.ReadFile(name)
	childtest.Must(t, err)
	s.record(5)
	s.deliver()
	childtest.Must(t, os.WriteFile(name, first, 0o600))
	s.start()
	s.waitDelivered()
	want, got := s.lines(), r.got()
	checkArrived(t, got, want)
	if len(got) != 2*len(want) {
		t.Errorf("%d records arrived, of %d", len(got), len(want))
	}
}
