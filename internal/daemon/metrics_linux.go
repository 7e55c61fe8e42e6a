package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/metrics"
)

// counts are the metrics that toolguardd counts since its start.
type counts struct {
	events   *metrics.Counter
	denials  *metrics.Counter
	lost     *metrics.Counter
	began    *metrics.Counter
	failed   *metrics.Counter
	starting *metrics.Histogram
	recorded *metrics.Histogram

	cpu           atomic.Uint64 // milliseconds
	read, written atomic.Uint64
	memory        *metrics.Histogram
	unmeasured    atomic.Uint64

	uncounted atomic.Uint64 // gaps without the number of lost events
}

func newCounts() *counts {
	return &counts{
		events: metrics.NewCounter("kind"), denials: metrics.NewCounter("resource", "reason"), lost: metrics.NewCounter("where"),
		began: metrics.NewCounter(), failed: metrics.NewCounter("status"),
		starting: metrics.NewHistogram(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
		memory:   metrics.NewHistogram(16<<20, 64<<20, 256<<20, 1<<30, 4<<30, 16<<30),
		recorded: metrics.NewHistogram(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30),
	}
}

// event counts an event.
func (c *counts) event(e *event.Event) {
	c.events.Add(1, string(e.Kind))
	switch e.Kind {
	case event.Denial:
		c.denials.Add(max(1, e.Count), e.Resource, e.Reason)
	case event.Gap:
		c.lost.Add(e.Count, e.Mechanism)
		if e.Extra["exact"] != "true" {
			c.uncounted.Add(1)
		}
	}
}

// onDisk measures the delay until events were recorded. Aggregated ones are delayed on purpose, and left out.
func (c *counts) onDisk(events []event.Event) {
	now := time.Now()
	for i := range events {
		if e := &events[i]; e.Kind == event.Denial && e.Count <= 1 && !e.Time.IsZero() {
			c.recorded.Observe(now.Sub(e.Time).Seconds())
		}
	}
}

// start counts the result of creating a session, and how long it took.
func (c *counts) start(since time.Time, err error) {
	var f *statusError
	switch {
	case err == nil:
		c.began.Add(1)
		c.starting.Observe(time.Since(since).Seconds())
	case errors.As(err, &f):
		c.failed.Add(1, strconv.Itoa(f.status))
	default:
		c.failed.Add(1, "500")
	}
}

// usage counts the usage of an ended session. A nested session in the outer one's cgroup counts there.
func (c *counts) usage(u *event.Usage, outermost bool) {
	if u.Missing != "" {
		c.unmeasured.Add(1)
	}
	for _, f := range []struct {
		sum *atomic.Uint64
		n   *uint64
	}{{&c.cpu, u.CPU}, {&c.read, u.Read}, {&c.written, u.Written}} {
		if f.n != nil && outermost {
			f.sum.Add(*f.n)
		}
	}
	if u.Memory != nil {
		c.memory.Observe(float64(*u.Memory))
	}
}

// checkHealth returns why no session can begin.
func (d *Daemon) checkHealth() error {
	if d.unavailable != "" {
		return errors.New(d.unavailable)
	}
	if d.cfg.Audit != nil {
		return d.cfg.Audit.Ready()
	}
	return nil
}

// page is the page of all metrics. docs/daemon.md describes it; a test compares the two.
func (d *Daemon) page() string {
	var p metrics.Page
	states := map[string]float64{"starting": 0, "running": 0, "left": 0, "ending": 0}
	for _, s := range d.all(0) {
		s.mu.Lock()
		states[string(s.state)]++
		s.mu.Unlock()
	}
	well := 0.0
	if d.checkHealth() == nil {
		well = 1
	}
	c := d.counts
	p.Gauges("toolguard_build_info", "The version of toolguardd; always 1.", "version", map[string]float64{d.cfg.Version: 1})
	p.Gauge("toolguard_ready", "1 if sessions can begin, otherwise 0.", well)
	p.Gauges("toolguard_sessions", "Sessions by state.", "state", states)
	p.Counter("toolguard_sessions_started_total", "Created sessions.", c.began)
	p.Counter("toolguard_sessions_refused_total", "Sessions that weren't created, by the status of the answer.", c.failed)
	p.Histogram("toolguard_session_start_seconds", "The time to create a session.", c.starting)
	p.Total("toolguard_sessions_cpu_seconds_total", "Processor time of ended sessions.", float64(c.cpu.Load())/1000)
	p.Total("toolguard_sessions_read_bytes_total", "Bytes that ended sessions read from disks.", float64(c.read.Load()))
	p.Total("toolguard_sessions_written_bytes_total", "Bytes that ended sessions wrote to disks.", float64(c.written.Load()))
	p.Histogram("toolguard_session_memory_peak_bytes", "The peak memory of each ended session.", c.memory)
	p.Total("toolguard_sessions_unmeasured_total", "Ended sessions whose usage is partly unknown.", float64(c.unmeasured.Load()))
	p.Counter("toolguard_events_total", "Events that were emitted.", c.events)
	p.Counter("toolguard_denials_total", "Denials that were emitted, by resource and reason.", c.denials)
	p.Counter("toolguard_events_lost_total", "Lost events in the gaps of sessions, by mechanism: bpf is the kernel's ring buffer.", c.lost)
	uncounted := c.uncounted.Load()
	if d.cfg.Audit != nil {
		uncounted += d.auditPage(&p)
	}
	p.Total("toolguard_gaps_uncounted_total", "Gaps without the number of lost events.", float64(uncounted))
	processPage(&p, d.started)
	return p.String()
}

func (d *Daemon) auditPage(p *metrics.Page) (uncounted uint64) {
	u := d.cfg.Audit.Usage()
	p.Gauge("toolguard_audit_bytes", "The size of the audit on the disk.", float64(u.Bytes))
	p.Gauge("toolguard_audit_limit_bytes", "The limit of the audit's size.", float64(u.Size))
	p.Gauge("toolguard_audit_files", "The files of the audit.", float64(u.Files))
	p.Total("toolguard_audit_records_total", "The number of its last record.", float64(u.Records))
	p.Total("toolguard_audit_lost_total", "Events that couldn't be recorded.", float64(u.Lost))
	p.Total("toolguard_audit_withheld_total", "Events beyond their user's quota, which were only counted.", float64(u.OverQuota))
	p.Total("toolguard_audit_unsent_total", "Records that were removed before every sink had received them.", float64(u.Unsent))
	p.Gauges("toolguard_sink_behind_records", "Records that a sink hasn't received, reported by the shipper.", "sink", u.Behind)
	p.Histogram("toolguard_audit_delay_seconds", "The time from a denial in the kernel until it's recorded on the disk.", d.counts.recorded)
	return u.Inexact
}

// processPage adds the metrics of toolguardd's process, by their common names.
func processPage(p *metrics.Page, began time.Time) {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		seconds := float64(used.Utime.Sec+used.Stime.Sec) + float64(used.Utime.Usec+used.Stime.Usec)/1e6
		p.Total("process_cpu_seconds_total", "Processor time.", seconds)
	}
	if n, err := resident(); err == nil {
		p.Gauge("process_resident_memory_bytes", "Memory.", float64(n))
	}
	if open, err := os.ReadDir("/proc/self/fd"); err == nil {
		p.Gauge("process_open_fds", "Open descriptors.", float64(len(open)))
	}
	p.Gauge("process_start_time_seconds", "When it was started, in seconds since 1970.", float64(began.UnixMilli())/1000)
}

// resident is the process's resident memory in bytes.
func resident() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), " ")
	pages, _, _ := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(pages, 10, 64)
	return n * int64(os.Getpagesize()), err
}

// writeMetrics answers a request for metrics.
func (d *Daemon) writeMetrics(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = io.WriteString(w, d.page())
}

// health answers whether sessions can begin; verbose: with the reason.
func (d *Daemon) health(w http.ResponseWriter, verbose bool) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	err := d.checkHealth()
	switch {
	case err == nil:
		_, _ = io.WriteString(w, "ok\n")
		return
	case !verbose:
		err = errors.New("no session can begin: 'toolguard events' and toolguardd's journal show why")
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, err.Error()+"\n")
}

// metricsConnections bounds the clients of metrics at a time.
const metricsConnections = 32

// ServeMetrics answers on a socket that every user may connect to, until ctx is done: with sums and the health alone.
func (d *Daemon) ServeMetrics(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { d.writeMetrics(w) })
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { d.health(w, false) })
	srv := &http.Server{
		Handler: metrics.Serialize(mux, metricsConnections), MaxHeaderBytes: 16 << 10, ReadTimeout: answering, WriteTimeout: answering, IdleTimeout: answering,
	}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	err := srv.Serve(metrics.LimitConns(l, metricsConnections))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
