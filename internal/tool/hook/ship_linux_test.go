package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// urlOrder has a child ask the hook at an address, as toolguard: with toolguard-ship next to its program.
type urlOrder struct {
	URL     string
	Timeout time.Duration
	Env     []string
	Size    int // of the arguments
}

func TestMain(m *testing.M) {
	childtest.Main(m, func(o urlOrder) (string, error) {
		h := &toolset.Hook{URL: o.URL, Timeout: o.Timeout, Layer: &toolset.Layer{}}
		c := call
		c.Arguments = json.RawMessage(`{"x":"` + strings.Repeat("x", o.Size) + `"}`)
		v := (&Runner{URL: Ship(o.Env)}).Before(context.Background(), []*toolset.Hook{h}, c, "", accept)
		if v.Block != nil {
			return v.Block.Text, nil
		}
		return "arguments " + string(v.Arguments), nil
	})
}

// TestShip asks hooks at real servers by the real toolguard-ship, as the user that the test runs as and as an ordinary one.
func TestShip(t *testing.T) {
	dir := t.TempDir()
	childtest.Must(t, childtest.Build(dir, "toolguard-ship"))
	program := childtest.ReadFile(t, "/proc/self/exe")
	own := filepath.Join(dir, "toolguard")
	childtest.Must(t, os.WriteFile(own, program, 0o755))
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		childtest.Must(t, os.Chmod(d, 0o755))
	}

	mux := http.NewServeMux()
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); _, _ = io.WriteString(w, body) }
	}
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		var b Before
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || json.NewDecoder(r.Body).Decode(&b) != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = io.WriteString(w, `{"arguments":{"x":"`+b.Tool+b.Event+`"}}`)
	})
	mux.HandleFunc("/block", answer(200, `{"block":true,"reason":"no"}`))
	mux.HandleFunc("/empty", answer(200, ""))
	mux.HandleFunc("/none", answer(204, ""))
	mux.HandleFunc("/error", answer(500, "{}"))
	mux.HandleFunc("/large", answer(200, `{"arguments":{"x":"`+strings.Repeat("x", maxAnswer)+`"}}`))
	mux.HandleFunc("/binary", answer(200, "{\"block\":true,\"reason\":\"\xff\"}"))
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/drops", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/echo", http.StatusTemporaryRedirect)
	})
	reading := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a server that answers earlier may close the connection before the answer is read
		r.Body = io.NopCloser(bytes.NewReader(body))
		mux.ServeHTTP(w, r)
	})
	plain, secure := httptest.NewServer(reading), httptest.NewUnstartedServer(reading)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(plain.Close)
	t.Cleanup(secure.Close)
	ca := filepath.Join(dir, "ca.pem")
	childtest.Must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o644))
	trusting := []string{"SSL_CERT_FILE=" + ca, "SSL_CERT_DIR=/none"}
	proxy := httptest.NewServer(answer(200, "{}"))
	t.Cleanup(proxy.Close)
	_, port, err := net.SplitHostPort(plain.Listener.Addr().String())
	childtest.Must(t, err)

	for _, x := range []struct {
		name, url string
		env       []string
		want      string
	}{
		{"on this machine", plain.URL + "/echo", nil, `arguments {"x":"Bashbefore_tool_call"}`},
		{"by name", "http://localhost:" + port + "/echo", nil, `arguments {"x":"Bashbefore_tool_call"}`},
		{"with TLS", secure.URL + "/echo", trusting, `arguments {"x":"Bashbefore_tool_call"}`},
		{"block", plain.URL + "/block?key=secret", nil, "/block: no"},
		{"unknown certificate", secure.URL + "/echo", []string{"SSL_CERT_FILE=/none"}, "certificate"},
		{"without TLS elsewhere", "http://192.0.2.1/echo", nil, "http without TLS is only for this machine: use https"},
		{"no proxy to this machine", plain.URL + "/block", []string{"HTTP_PROXY=" + proxy.URL}, "/block: no"},
		{"no proxy without TLS", "http://192.0.2.1/echo", []string{"HTTP_PROXY=" + proxy.URL}, "http without TLS"},
		{"redirect", plain.URL + "/redirect", nil, "status is 307, and redirects aren't followed"},
		{"status", plain.URL + "/error", nil, "status is 500"},
		{"not found", plain.URL + "/lost", nil, "status is 404"},
		{"no content", plain.URL + "/none", nil, "status is 204"},
		{"empty", plain.URL + "/empty", nil, "answer is empty"},
		{"too large", plain.URL + "/large", nil, "larger than 1 MiB"},
		{"not UTF-8", plain.URL + "/binary", nil, "isn't valid"},
		{"slow", plain.URL + "/slow", nil, "longer than 2s"},
		{"dropped", plain.URL + "/drops", nil, "EOF"},
		{"nobody", "http://127.0.0.1:1/x?key=secret", nil, "connection refused"},
	} {
		for _, uid := range childtest.Users() {
			t.Run(x.name, func(t *testing.T) {
				t.Parallel()
				o := urlOrder{URL: x.url, Timeout: 30 * time.Second, Env: x.env, Size: 1 << 20}
				if x.name == "slow" {
					o.Timeout = 2 * time.Second
				}
				cmd := childtest.Command(t, uid, o)
				cmd.Path = own
				out, err := cmd.Output()
				childtest.Must(t, err)
				var got string
				childtest.Must(t, json.Unmarshal(out, &got))
				if !strings.Contains(got, x.want) || strings.Contains(got, "secret") {
					t.Errorf("as %d: %.300s", uid, got)
				}
			})
		}
	}
}
