// Package metrics counts, and writes pages in the text format of Prometheus
// (https://prometheus.io/docs/instrumenting/exposition_formats).
//
// What is counted has names that others choose, in part: reasons, resources. So a counter has a bounded number of series; what is
// beyond is counted as "other". Sessions, users, files and hosts are no labels: there is no end of them, and they're nobody's who
// reads metrics.
package metrics

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxSeries bounds the series of a counter.
const maxSeries = 200

// Counter counts things by their labels.
type Counter struct {
	labels []string // their names

	mu     sync.Mutex
	series map[string]uint64 // by the labels as they're written
}

// NewCounter makes a counter.
func NewCounter(labels ...string) *Counter {
	return &Counter{labels: labels, series: map[string]uint64{}}
}

// Add counts n more with these values of the labels.
func (c *Counter) Add(n uint64, values ...string) {
	key := pairs(c.labels, values)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.series[key]; !known && len(c.series) >= maxSeries {
		key = pairs(c.labels, slices.Repeat([]string{"other"}, len(values)))
	}
	c.series[key] += n
}

// pairs are labels as they're written.
func pairs(names, values []string) string {
	if len(names) == 0 {
		return ""
	}
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = name + `="` + escape.Replace(strings.ToValidUTF8(values[i], "\ufffd")) + `"`
	}
	return "{" + strings.Join(words, ",") + "}"
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Histogram counts durations, in seconds, or sizes, in bytes.
type Histogram struct {
	bounds []float64

	mu     sync.Mutex
	counts []uint64 // of each bound, and of what is beyond all
	sum    float64
}

// NewHistogram makes a histogram with these upper bounds.
func NewHistogram(bounds ...float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

// Observe counts one. What took less than no time, as a clock was set, took none.
func (h *Histogram) Observe(value float64) {
	value = max(0, value)
	i, _ := slices.BinarySearch(h.bounds, value)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[i]++
	h.sum += value
}

// Page is what is read at a time.
type Page struct{ b strings.Builder }

func (p *Page) String() string { return p.b.String() }

// family begins the lines of one name.
func (p *Page) family(name, kind, help string) {
	p.b.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + kind + "\n")
}

func (p *Page) line(name, labels string, value float64) {
	p.b.WriteString(name + labels + " " + number(value) + "\n")
}

func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// Gauge writes a value of now.
func (p *Page) Gauge(name, help string, value float64) {
	p.family(name, "gauge", help)
	p.line(name, "", value)
}

// Gauges writes values of now, by the value of a label.
func (p *Page) Gauges(name, help, label string, values map[string]float64) {
	p.family(name, "gauge", help)
	for _, k := range sorted(values) {
		p.line(name, pairs([]string{label}, []string{k}), values[k])
	}
}

// Total writes how much there has been since the beginning, where somebody else has counted.
func (p *Page) Total(name, help string, value float64) {
	p.family(name, "counter", help)
	p.line(name, "", value)
}

// Counter writes a counter.
func (p *Page) Counter(name, help string, c *Counter) {
	p.family(name, "counter", help)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.labels) == 0 && len(c.series) == 0 {
		p.line(name, "", 0)
	}
	for _, labels := range sorted(c.series) {
		p.line(name, labels, float64(c.series[labels]))
	}
}

// Histogram writes a histogram.
func (p *Page) Histogram(name, help string, h *Histogram) {
	p.family(name, "histogram", help)
	h.mu.Lock()
	defer h.mu.Unlock()
	all := uint64(0)
	for i, n := range h.counts {
		bound := "+Inf"
		if all += n; i < len(h.bounds) {
			bound = number(h.bounds[i])
		}
		p.line(name+"_bucket", pairs([]string{"le"}, []string{bound}), float64(all))
	}
	p.line(name+"_sum", "", h.sum)
	p.line(name+"_count", "", float64(all))
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
