package ship

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/childtest"
)

// receiver is an HTTP server with a sequence of misbehaviors.
type receiver struct {
	*httptest.Server
	done chan struct{}

	mu     sync.Mutex
	kept   []string
	tricks []misbehavior // of each request, in turn; then it behaves, unless it's to begin again
	again  bool
	asked  int
	sink   string                 // whose receiver it is
	reject func(line string) bool // for good
	input  bytes.Buffer           // every request's head
}

func newReceiver(t *testing.T, tricks ...misbehavior) *receiver {
	t.Helper()
	r := &receiver{tricks: tricks, done: make(chan struct{})}
	r.Server = httptest.NewUnstartedServer(r)
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(r.Close)
	t.Cleanup(func() { close(r.done) })
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	if now := r.accept(w, req, events(req.URL.Path, body)); now != nil {
		now(r, w, req)
	}
}

// accept stores the lines unless it rejects them, and returns the response, or nil if it has responded.
func (r *receiver) accept(w http.ResponseWriter, req *http.Request, lines []string) func(*receiver, http.ResponseWriter, *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = req.Header.Write(&r.input)
	var now misbehavior
	if r.asked < len(r.tricks) || r.again {
		now = r.tricks[r.asked%len(r.tricks)]
	}
	r.asked++
	if now.answer != nil {
		r.kept = append(r.kept, lines[:len(lines)*now.keeps/2]...)
		return now.answer
	}
	if r.reject != nil && slices.ContainsFunc(lines, r.reject) {
		http.Error(w, "I won't take this, and you said "+req.Header.Get("Authorization"), http.StatusBadRequest)
		return nil
	}
	r.kept = append(r.kept, lines...)
	return accept
}

func (r *receiver) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.kept...)
}

// TestWebhookIsDown checks that events during an outage are delivered afterwards.
func TestWebhookIsDown(t *testing.T) {
	r := newReceiver(t)
	nowhere, err := net.Listen("tcp", "127.83.72.73:0") // an address that no other process uses
	childtest.Must(t, err)
	address := nowhere.Addr().String()
	childtest.Must(t, errors.Join(nowhere.Close(), r.Listener.Close()))
	s := newScene(t, audit.Limits{FileSize: 16 << 10}, Sink{Name: "hook", Type: "webhook", URL: "http://" + address})
	s.record(100)
	stop := s.start()
	wait(t, "it fails", func() bool { st, _ := ReadState(s.cfg.State); return st.Sinks["hook"].Retries > 3 })
	s.record(100)
	stop() // and the shipper is started again meanwhile
	s.start()
	if r.Listener, err = net.Listen("tcp", address); err != nil {
		t.Fatal(err)
	}
	r.Start()
	s.waitDelivered()
	checkArrived(t, r.got(), s.lines())
}

// TestLongReplies checks that quotations of a receiver are short in the log, in gaps and in the state.
func TestLongReplies(t *testing.T) {
	long := strings.Repeat("\\\x1b[2J\xff<\"E", 10_000)
	for name, sink := range map[string]struct{ kind, status, body, log string }{
		"a status":  {"webhook", "400 " + strings.Repeat("\\<\"E", 10_000), "", "rejected permanently"},
		"a body":    {"webhook", "400 No", long, "rejected permanently"},
		"a failure": {"webhook", "403 No", long, "records wait"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var gaps []string
			url := serve(t, func(w http.ResponseWriter, req *http.Request) {
				body, _ := io.ReadAll(req.Body)
				if bytes.Contains(body, []byte("-gap")) {
					mu.Lock()
					defer mu.Unlock()
					gaps = append(gaps, string(body))
					return
				}
				if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
					_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", sink.status, len(sink.body), sink.body)
					_ = conn.Close()
				}
			})
			s := newScene(t, audit.Limits{}, Sink{Name: strings.Repeat("n", 64), Type: sink.kind, URL: url})
			s.record(50)
			began := time.Now()
			stop := s.start()
			if sink.log == "records wait" {
				wait(t, "it has failed a few times", func() bool {
					st, _ := ReadState(s.cfg.State)
					return st.Sinks[s.cfg.Sinks[0].Name].Retries > 5
				})
			} else {
				s.waitDelivered()
			}
			stop()
			lines := strings.Split(strings.TrimSpace(s.log.String()), "\n")
			if n := len(lines); float64(n) > 2+2*time.Since(began).Seconds() || !strings.Contains(lines[0], sink.log) {
				t.Errorf("%d lines: %.2000s", n, s.log)
			}
			for _, line := range lines {
				if len(line) > 1500 {
					t.Errorf("a line of %d bytes: %.2000s", len(line), line)
				}
			}
			text, err := os.ReadFile(filepath.Join(s.cfg.State, stateName))
			if err != nil || len(text) > 4096 || bytes.ContainsAny(text, "\x1b\xff") {
				t.Errorf("the state: %.2000s, %v", text, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if (len(gaps) == 0) != (sink.log == "records wait") {
				t.Errorf("%d gaps", len(gaps))
			}
			for _, g := range gaps {
				if len(g) > 2048 {
					t.Errorf("a gap of %d bytes: %s", len(g), g)
				}
			}
		})
	}
}

// secret creates a file with a secret.
func secret(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	childtest.Must(t, os.WriteFile(name, []byte(text+"\n"), 0o600))
	return name
}

// TestEchoedSecrets checks that the token and the address's path are masked if a receiver echoes them.
func TestEchoedSecrets(t *testing.T) {
	for name, repeat := range map[string]func(path, token string) string{
		"as it is":   func(path, token string) string { return "The requested URL " + path + " was not found. " + token },
		"JSON":       func(path, token string) string { text, _ := json.Marshal([]string{path, token}); return string(text) },
		"PHP's JSON": func(path, token string) string { return strings.ReplaceAll(path+" "+token, "/", `\/`) },
		"HTML": func(path, token string) string {
			return "<b>" + html.EscapeString(path) + html.EscapeString(token) + "</b>"
		},
		"an address": func(path, token string) string {
			return (&url.URL{Path: path}).String() + "?token=" + url.QueryEscape(token)
		},
		"a longer one": func(path, _ string) string { return path + "/elsewhere" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, func(w http.ResponseWriter, req *http.Request) {
				http.Error(w, repeat(req.URL.Path, strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")), http.StatusNotFound)
			})
			s := newScene(t, audit.Limits{}, Sink{Name: "hook", Type: "webhook", URL: url + "/in/canary%20path/", Token: secret(t, `canary/<token>&"x"+`)})
			s.record(1)
			stop := s.start()
			wait(t, "it fails", func() bool { st, _ := ReadState(s.cfg.State); return st.Sinks["hook"].Failing != "" })
			stop()
			text, err := os.ReadFile(filepath.Join(s.cfg.State, stateName))
			if shown := s.log.String() + string(text); err != nil || strings.Contains(shown, "canary") || strings.Count(shown, "404 Not Found: ") != 2 {
				t.Error(shown, err)
			}
		})
	}
}

// TestHTTPS checks that the receiver is authenticated by its certificate, and that only it receives the token, which each request
// reads again.
func TestHTTPS(t *testing.T) {
	r := newReceiver(t)
	r.StartTLS()
	token := secret(t, "first")
	ca := filepath.Join(t.TempDir(), "ca.pem")
	sink := Sink{Name: "hook", Type: "webhook", URL: r.URL, Token: token}
	s := newScene(t, audit.Limits{}, sink)
	s.record(1)
	stop := s.start()
	wait(t, "the connection fails", func() bool { return strings.Contains(s.log.String(), "certificate") })
	stop()
	if n := len(r.got()); n > 0 {
		t.Fatalf("%d lines were sent to an unauthenticated receiver", n)
	}
	childtest.Must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw}), 0o600))
	s.cfg.Sinks[0].CA = ca
	s.start()
	s.waitDelivered()
	childtest.Must(t, os.WriteFile(token, []byte("second"), 0o600))
	s.record(1)
	s.waitDelivered()
	r.mu.Lock()
	input := r.input.String()
	r.mu.Unlock()
	if !strings.Contains(input, "Authorization: Bearer first\r\n") || !strings.Contains(input, "Authorization: Bearer second\r\n") {
		t.Error(input)
	}
}

// TestOTLPRejected checks that a record in a partly rejected batch is found and becomes a gap.
func TestOTLPRejected(t *testing.T) {
	var mu sync.Mutex
	got := map[string]bool{}
	url := serve(t, func(w http.ResponseWriter, req *http.Request) {
		var in struct {
			ResourceLogs []struct {
				ScopeLogs []struct {
					LogRecords []struct{ Body struct{ StringValue string } }
				}
			}
		}
		_ = json.NewDecoder(req.Body).Decode(&in)
		mu.Lock()
		defer mu.Unlock()
		rejected := 0
		for _, r := range in.ResourceLogs[0].ScopeLogs[0].LogRecords {
			if strings.Contains(r.Body.StringValue, `"path":"/x/3"`) {
				rejected++
			} else {
				got[r.Body.StringValue] = true
			}
		}
		if rejected > 0 {
			_, _ = io.WriteString(w, `{"partialSuccess":{"rejectedLogRecords":"`+strconv.Itoa(rejected)+`","errorMessage":"not that, canary-token"}}`)
		}
	})
	s := newScene(t, audit.Limits{}, Sink{Name: "otel", Type: "otlp", URL: url + "/v1/logs", Token: secret(t, "canary-token")})
	s.record(10)
	s.start()
	s.waitDelivered()
	mu.Lock()
	defer mu.Unlock()
	missing, gaps := 0, 0
	for _, line := range s.lines() {
		if !got[line] {
			missing++
		}
	}
	for line := range got {
		if strings.Contains(line, "not that, ***") && strings.Contains(line, `"mechanism":"ship"`) {
			gaps++
		}
	}
	if missing != 1 || gaps != 1 {
		t.Errorf("%d missing, %d gaps", missing, gaps)
	}
}
