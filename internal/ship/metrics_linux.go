package ship

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/metrics"
)

// sinkMetrics are the metrics of each sink.
var sinkMetrics = []struct {
	name, kind, help string
	value            func(State, string, Status) float64
}{
	{"delivered_total", "counter", "records that the receiver has acknowledged, gaps among them", func(_ State, _ string, s Status) float64 { return float64(s.Delivered) }},
	{"gaps_total", "counter", "of them, those that replace records that couldn't be sent", func(_ State, _ string, s Status) float64 { return float64(s.Gaps) }},
	{"refused_total", "counter", "records that the receiver rejects", func(_ State, _ string, s Status) float64 { return float64(s.Rejected) }},
	{"retries_total", "counter", "failures, after each of which the same records are sent again", func(_ State, _ string, s Status) float64 { return float64(s.Retries) }},
	{"sequence", "gauge", "number of the last record that was delivered", func(_ State, _ string, s Status) float64 { return float64(s.Cursor.Sequence) }},
	{"behind_records", "gauge", "records in the audit that aren't delivered", func(st State, name string, _ Status) float64 { return float64(st.Behind(name)) }},
	{"behind_seconds", "gauge", "age of the oldest record that isn't delivered", func(_ State, _ string, s Status) float64 {
		if s.Oldest.IsZero() {
			return 0
		}
		return max(0, time.Since(s.Oldest).Seconds())
	}},
	{"failing", "gauge", "1 while records wait because the last attempt failed", func(_ State, _ string, s Status) float64 {
		if s.Failing != "" {
			return 1
		}
		return 0
	}},
}

// writeMetrics writes Prometheus's text format.
func writeMetrics(w io.Writer, st State) {
	for _, m := range sinkMetrics {
		fmt.Fprintf(w, "# HELP toolguard_ship_%s %s\n# TYPE toolguard_ship_%s %s\n", m.name, m.help, m.name, m.kind)
		for _, name := range slices.Sorted(st.Names()) {
			s := st.Sinks[name]
			fmt.Fprintf(w, "toolguard_ship_%s{sink=%q,type=%q} %g\n", m.name, name, s.Type, m.value(st, name, s))
		}
	}
}

// serveMetrics serves metrics until ctx ends, at host:port or a unix socket's path.
func serveMetrics(ctx context.Context, at string, s *state) error {
	network := "tcp"
	if strings.HasPrefix(at, "/") {
		network = "unix"
		_ = os.Remove(at) // of a former shipper
	}
	l, err := net.Listen(network, at)
	if err != nil {
		return fmt.Errorf("listen for metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		writeMetrics(w, s.current())
	})
	server := &http.Server{
		Handler: metrics.Serialize(mux, maxMetricsClients), MaxHeaderBytes: 16 << 10, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second,
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(metrics.LimitConns(l, maxMetricsClients)) }()
	return nil
}

// maxMetricsClients is the maximum number of connections for metrics. Any process can connect to a TCP port.
const maxMetricsClients = 32
