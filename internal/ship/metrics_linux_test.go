package ship

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/audit"
)

// TestMetrics: Prometheus is told, and who says more than a question takes isn't listened to.
func TestMetrics(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "metrics")
	s := newScene(t, audit.Limits{}, Sink{Name: "file", Type: "file", Path: filepath.Join(dir, "out")})
	s.cfg.Metrics = at
	s.happen(5)
	s.start()
	s.all()
	ask := func(headers int) (status int, body string) {
		client := http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", at) },
		}}
		req, err := http.NewRequest(http.MethodGet, "http://x/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Long", strings.Repeat("x", headers))
		resp, err := client.Do(req)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}
	want := fmt.Sprintf("\ntoolguard_ship_delivered_total{sink=\"file\",type=\"file\"} %d\n", len(s.lines()))
	if status, body := ask(1); status != http.StatusOK || !strings.Contains(body, want) {
		t.Errorf("%d %s", status, body)
	}
	if status, _ := ask(40 << 10); status == http.StatusOK {
		t.Error("a long question is answered")
	}
}
