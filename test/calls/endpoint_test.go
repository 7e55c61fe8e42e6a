//go:build linux

package calls

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// Hooks at addresses, of a real HTTP server.
func TestEndpoints(t *testing.T) {
	rows := []struct {
		name   string
		serve  http.HandlerFunc
		reason string // "": it runs
		text   string
	}{
		{"passes", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) }, "", ""},
		{"rewrites", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"arguments":{"y":2}}`) }, "", ""},
		{"blocks", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"block":true,"reason":"no"}`) }, "hook_blocked", "/blocks: no"},
		{"fails", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); fmt.Fprint(w, `{}`) }, "hook_blocked", "HTTP status is 500"},
		{"created", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); fmt.Fprint(w, `{}`) }, "hook_blocked", "HTTP status is 201"},
		{"redirects", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/passes", http.StatusFound) }, "hook_blocked", "redirects aren't followed"},
		{"malformed", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{`) }, "hook_blocked", "its answer isn't valid"},
		{"empty", func(http.ResponseWriter, *http.Request) {}, "hook_blocked", "its answer is empty"},
		{"huge", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`, strings.Repeat(" ", 2<<20)) }, "hook_blocked", "larger than"},
		{"closes", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "hook_blocked", "/closes"},
		{"slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "hook_blocked", "it took longer than 1s"},
	}
	mux := http.NewServeMux()
	var mu sync.Mutex
	bodies := map[string]string{}
	for _, row := range rows {
		mux.HandleFunc("/"+row.name, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			bodies[row.name] = r.Method + " " + r.Header.Get("Content-Type") + " " + string(body)
			mu.Unlock()
			row.serve(w, r)
		})
	}
	got := make(chan string, 10)
	mux.HandleFunc("/after", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		w.WriteHeader(http.StatusNoContent)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	eachUser(t, func(t *testing.T, p *fixture) {
		policy := fmt.Sprintf("[[hooks.after_tool_call]]\nurl = %q\ntools = [\"passes\"]\n", server.URL+"/after")
		for _, row := range rows {
			timeout := "30s"
			if row.name == "slow" {
				timeout = "1s"
			}
			policy += fmt.Sprintf("[[hooks.before_tool_call]]\nurl = %q\ntools = [%q]\ntimeout = %q\n", server.URL+"/"+row.name, row.name, timeout)
		}
		s := p.start(t, policy+"[[hooks.before_tool_call]]\nurl = \"http://127.0.0.1:1/nobody\"\ntools = [\"nobody\"]\n")
		for _, row := range rows {
			st := submit(t, s.inside, call{"id": row.name, "tool": row.name, "arguments": call{"x": 1}})
			if mu.Lock(); !strings.HasPrefix(bodies[row.name], `POST application/json {"event":"before_tool_call","id":"`+row.name+`"`) {
				t.Errorf("%s: the server got %q", row.name, bodies[row.name])
			}
			mu.Unlock()
			if row.reason == "" {
				runs(t, st)
				continue
			}
			s.denied(t, st, row.reason)
			if !strings.Contains(st.Answer.Message, row.text) {
				t.Errorf("%s: %s", row.name, st.Answer.Message)
			}
		}
		if st := after(t, s.inside, "rewrites", 0); string(st.Arguments) != `{"x":1,"y":2}` {
			t.Errorf("%s", st.Arguments)
		}
		s.denied(t, submit(t, s.inside, call{"id": "nobody", "tool": "nobody", "arguments": call{}}), "hook_blocked")
		s.event(t, "hook_failed", "call=nobody", "stage=before")
		end(t, s.inside, "passes", `{"error":"e","duration_ms":3}`)
		if body := <-got; !strings.Contains(body, `"event":"after_tool_call"`) || !strings.Contains(body, `"error":"e","duration_ms":3`) {
			t.Errorf("%s", body)
		}
		get[struct{}](t, s.inside, "POST", message.Calls+"/rewrites"+message.Cancel, nil)
	})
}
