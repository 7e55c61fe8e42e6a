package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/metrics"
	"github.com/toolguard/toolguard/internal/proc"
)

// Root reads the metrics from the main socket, and every user from the metrics socket. They contain no names of users or sessions.
func TestMetrics(t *testing.T) {
	d, c := served(t, DefaultLimits)
	recordEvents(t, d)
	d.cfg.Audit.Observe(d.counts.onDisk)
	secret := "5ecre7"
	d.hub.publish(1234554321, &event.Event{Kind: event.Denial, Session: secret, Tool: secret, Target: secret, Resource: "fs", Reason: "no_rule", Time: time.Now()})
	d.hub.publish(1234554321, &event.Event{Kind: event.Denial, Session: secret, Count: 4, Resource: "fs", Reason: "no_rule", Time: time.Now()})
	d.hub.publish(1234554321, &event.Event{Kind: event.Gap, Session: secret, Count: 30, Mechanism: "bpf", Extra: map[string]string{"exact": "true"}})
	d.hub.publish(1234554321, &event.Event{Kind: event.Gap, Session: secret, Mechanism: "toolguardd", Extra: map[string]string{"exact": "false"}})
	_ = d.cfg.Audit.Sync()
	d.unavailable = "no kernel here"
	d.counts.start(time.Now(), reject(429, "too many"))
	d.counts.start(time.Now(), nil)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- d.ServeMetrics(ctx, l) }()
	get := func(path string) (int, string) {
		t.Helper()
		r, err := http.Get("http://" + l.Addr().String() + path)
		must(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		must(t, err)
		return r.StatusCode, string(text)
	}
	status, page := get("/metrics")
	for _, line := range []string{
		`toolguard_ready 0`, `toolguard_sessions{state="running"} 0`, `toolguard_sessions_started_total 1`,
		`toolguard_sessions_refused_total{status="429"} 1`, `toolguard_denials_total{resource="fs",reason="no_rule"} 5`,
		`toolguard_events_total{kind="denial"} 2`, `toolguard_events_lost_total{where="bpf"} 30`, `toolguard_session_start_seconds_count 1`,
		`toolguard_audit_delay_seconds_count 1`, `toolguard_audit_records_total 5`, `toolguard_gaps_uncounted_total 1`, `toolguard_audit_lost_total 0`,
	} {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	if status != 200 || strings.Contains(page, secret) || strings.Contains(page, "1234554321") {
		t.Errorf("%d, %s", status, page)
	}
	if status, text := get("/healthz"); status != 503 || strings.Contains(text, "no kernel") {
		t.Errorf("%d, %s", status, text)
	}
	wantRejection(t, c.Do("GET", api.Health, nil, nil), 503, "")
	d.unavailable = ""
	if status, text := get("/healthz"); status != 200 || text != "ok\n" {
		t.Errorf("%d, %s", status, text)
	}
	for _, path := range []string{"/", "/v1/status", "/v1/events?format=ocsf", "/debug/pprof/"} {
		if status, _ := get(path); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
	if s, err := c.Follow(api.Metrics); err != nil {
		t.Error(err)
	} else {
		text, err := io.ReadAll(s.Body())
		if err != nil || !strings.Contains(string(text), "toolguard_ready 1\n") {
			t.Errorf("%s %v", text, err)
		}
		_ = s.Close()
	}
	for path, want := range map[string]int{api.Metrics: 403, api.Health: 200} {
		r := httptest.NewRequest("GET", path, nil)
		w := httptest.NewRecorder()
		d.Handler().ServeHTTP(w, r.WithContext(peer.NewContext(r.Context(), &peer.Peer{UID: 7, Process: proc.Ended(1)})))
		if w.Code != want {
			t.Errorf("a user's request for %s is answered with %d", path, w.Code)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// The alerts, the dashboard and the documentation name existing metrics only, and the documentation describes all.
func TestMetricsAreNamed(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	recordEvents(t, d)
	there := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\S+)$`).FindAllStringSubmatch(d.page(), -1) {
		there[m[1]] = true
		if m[2] == "histogram" {
			there[m[1]+"_bucket"] = true
		}
	}
	named := func(file string) []string {
		text, err := os.ReadFile("../../" + file)
		must(t, err)
		return regexp.MustCompile(`\b(toolguard|process)_[a-z_]+\b`).FindAllString(string(text), -1)
	}
	for file, least := range map[string]int{"packaging/prometheus/toolguard.rules.yml": 10, "packaging/grafana/toolguard.json": 20, "docs/daemon.md": 15} {
		names := named(file)
		if len(names) < least {
			t.Errorf("%s names %d metrics", file, len(names))
		}
		for _, name := range names {
			if !there[name] {
				t.Errorf("%s names %s, which doesn't exist", file, name)
			}
		}
	}
	documented := named("docs/daemon.md")
	for name := range there {
		if !slices.Contains(documented, strings.TrimSuffix(name, "_bucket")) {
			t.Errorf("docs/daemon.md doesn't describe %s", name)
		}
	}
	text, err := os.ReadFile("../../packaging/grafana/toolguard.json")
	if err != nil || !json.Valid(text) {
		t.Errorf("the dashboard isn't JSON: %v", err)
	}
}

// promtool accepts the page, the alerts and the dashboard's queries, and their labels exist in the page.
func TestPromtool(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool")
	}
	d, _ := served(t, DefaultLimits)
	recordEvents(t, d)
	for _, c := range []*metrics.Counter{d.counts.events, d.counts.lost, d.counts.failed} {
		c.Add(1, "x")
	}
	d.counts.denials.Add(1, "fs", "protected")
	page := d.page()
	check := func(in string, args ...string) {
		t.Helper()
		cmd := exec.Command(promtool, append([]string{"check"}, args...)...)
		cmd.Stdin = strings.NewReader(in)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	check(page, "metrics")
	const alerts = "../../packaging/prometheus/toolguard.rules.yml"
	check("", "rules", alerts)

	queries := regexp.MustCompile(`expr: (.*)`).FindAllStringSubmatch(read(t, alerts), -1)
	least := len(queries) + 20
	rules := strings.Builder{}
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for _, m := range regexp.MustCompile(`"expr": (".*")`).FindAllStringSubmatch(read(t, "../../packaging/grafana/toolguard.json"), -1) {
		var query string
		must(t, json.Unmarshal([]byte(m[1]), &query))
		query = strings.NewReplacer("$__rate_interval", "5m", "$instance", "x").Replace(query)
		queries = append(queries, []string{"", query})
		fmt.Fprintf(&rules, "  - {record: a%d, expr: %q}\n", len(queries), query)
	}
	made := filepath.Join(t.TempDir(), "dashboard.yml")
	must(t, os.WriteFile(made, []byte(rules.String()), 0o600))
	check("", "rules", made)

	label := regexp.MustCompile(`(\w+)=~?"`)
	for _, q := range queries {
		there := []string{"instance", "job"}
		for _, name := range regexp.MustCompile(`\b(toolguard|process)_[a-z_]+\b`).FindAllString(q[1], -1) {
			for _, series := range regexp.MustCompile(`(?m)^`+name+`\{(.*)\}`).FindAllStringSubmatch(page, -1) {
				for _, m := range label.FindAllStringSubmatch(series[1], -1) {
					there = append(there, m[1])
				}
			}
		}
		asked := label.FindAllStringSubmatch(q[1], -1)
		for _, by := range regexp.MustCompile(`by \((.*?)\)`).FindAllStringSubmatch(q[1], -1) {
			asked = append(asked, regexp.MustCompile(`(\w+)`).FindAllStringSubmatch(by[1], -1)...)
		}
		for _, m := range asked {
			if !slices.Contains(there, m[1]) {
				t.Errorf("%s: there's no label %s", q[1], m[1])
			}
		}
	}
	if len(queries) < least {
		t.Errorf("only %d queries", len(queries))
	}
}

// The alert about stuck sinks fires for a sink that makes no progress, even with few events, and not for one that lags behind.
func TestAlertOfSinks(t *testing.T) {
	alerts(t, `
  - {series: 'toolguard_audit_records_total{instance="busy"}', values: '100+7x90'}
  - {series: 'toolguard_sink_behind_records{instance="busy",sink="stuck"}', values: '0x10 7+7x79'}
  - {series: 'toolguard_sink_behind_records{instance="busy",sink="lags"}', values: '0x10 3x79'}
  - {series: 'toolguard_sink_behind_records{instance="busy",sink="slow"}', values: '0x10 3+3x79'}
  - {series: 'toolguard_audit_records_total{instance="quiet"}', values: '100x20 101x69'}
  - {series: 'toolguard_sink_behind_records{instance="quiet",sink="stuck"}', values: '0x20 1x69'}
  - {series: 'toolguard_sink_behind_records{instance="quiet",sink="well"}', values: '0x90'}`, `
  - expr: count by (instance, sink) (ALERTS{alertname="ToolguardSinkStuck",alertstate="firing"})
    eval_time: 80m
    exp_samples:
    - {labels: '{instance="busy",sink="stuck"}', value: 1}
    - {labels: '{instance="quiet",sink="stuck"}', value: 1}`)
}

// The alerts also fire for the first occurrence, and for one at the start of toolguardd, before which nothing was counted.
func TestAlertsOfFirst(t *testing.T) {
	alerts(t, `
  - {series: 'toolguard_gaps_uncounted_total{instance="again"}', values: '1x90'}
  - {series: 'process_start_time_seconds{instance="again"}', values: '0x77 4680x13'}
  - {series: 'toolguard_gaps_uncounted_total{instance="since"}', values: '0x77 1x13'}
  - {series: 'process_start_time_seconds{instance="since"}', values: '0x90'}
  - {series: 'toolguard_gaps_uncounted_total{instance="before"}', values: '0x10 1x80'}
  - {series: 'process_start_time_seconds{instance="before"}', values: '0x90'}
  - {series: 'toolguard_gaps_uncounted_total{instance="never"}', values: '0x90'}
  - {series: 'process_start_time_seconds{instance="never"}', values: '0x77 4680x13'}
  - {series: 'toolguard_denials_total{instance="first",resource="fs",reason="protected"}', values: '_x77 1x13'}
  - {series: 'toolguard_denials_total{instance="again",resource="fs",reason="protected"}', values: '1x77 2x13'}
  - {series: 'toolguard_denials_total{instance="before",resource="fs",reason="protected"}', values: '_x20 1x70'}
  - {series: 'toolguard_denials_total{instance="other",resource="fs",reason="no_rule"}', values: '_x77 1x13'}`, `
  - expr: count by (alertname, instance) (ALERTS{alertname=~"ToolguardUncounted|ToolguardProtectedTouched",alertstate="firing"})
    eval_time: 80m
    exp_samples:
    - {labels: '{alertname="ToolguardUncounted",instance="again"}', value: 1}
    - {labels: '{alertname="ToolguardUncounted",instance="since"}', value: 1}
    - {labels: '{alertname="ToolguardProtectedTouched",instance="first"}', value: 1}
    - {labels: '{alertname="ToolguardProtectedTouched",instance="again"}', value: 1}`)
}

// alerts runs promtool's tests of the alerts on time series.
func alerts(t *testing.T, series, expected string) {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool")
	}
	rules, err := filepath.Abs("../../packaging/prometheus/toolguard.rules.yml")
	must(t, err)
	made := filepath.Join(t.TempDir(), "test.yml")
	if err := os.WriteFile(made, fmt.Appendf(nil, `
rule_files: [%s]
evaluation_interval: 1m
tests:
- interval: 1m
  input_series:%s
  promql_expr_test:%s
`, rules, series, expected), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(promtool, "test", "rules", made).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return string(text)
}
