package ship

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/childtest"
)

// TestMetrics checks the metrics, and that oversized requests are rejected.
func TestMetrics(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "metrics")
	s := newScene(t, audit.Limits{}, Sink{Name: "file", Type: "file", Path: filepath.Join(dir, "out")})
	s.cfg.Metrics = at
	s.record(5)
	s.start()
	s.waitDelivered()
	ask := func(headers int) (status int, body string) {
		client := http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", at) },
		}}
		req, err := http.NewRequest(http.MethodGet, "http://x/metrics", nil)
		childtest.Must(t, err)
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

// TestAlerts checks that Prometheus accepts the alerts, and that their metrics exist.
func TestAlerts(t *testing.T) {
	const name = "../../packaging/prometheus/toolguard-ship.rules.yml"
	text, err := os.ReadFile(name)
	childtest.Must(t, err)
	var page strings.Builder
	writeMetrics(&page, State{Sinks: map[string]Status{"x": {}}})
	about := regexp.MustCompile(`\btoolguard_ship_\w+`).FindAllString(string(text), -1)
	for _, metric := range about {
		if !strings.Contains(page.String(), "\n"+metric+`{sink="x",type=""} 0`) {
			t.Errorf("there's no %s", metric)
		}
	}
	if len(about) < 4 {
		t.Errorf("it's about %q only", about)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool")
	}
	if out, err := exec.Command(promtool, "check", "rules", name).CombinedOutput(); err != nil {
		t.Errorf("%v %s", err, out)
	}
	check := exec.Command(promtool, "check", "metrics")
	if check.Stdin = strings.NewReader(page.String()); check.Run() != nil {
		t.Errorf("%s", page.String())
	}
}
