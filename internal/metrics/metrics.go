// Package metrics counts, and writes pages in the text format of Prometheus
// (https://prometheus.io/docs/instrumenting/exposition_formats).
//
// Others choose some label values, such as reasons and resources. So a counter has a limited number of series, and counts further
// ones as "other". Sessions, users, files and hosts are no labels: their number is unlimited, and they are private.
package metrics

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxSeries is the maximum number of series of a counter.
const maxSeries = 200

// Counter counts things by their labels.
type Counter struct {
	labels []string // the names of the labels

	mu     sync.Mutex
	series map[string]uint64 // by the formatted labels
}

// NewCounter returns a counter with labels.
func NewCounter(labels ...string) *Counter {
	return &Counter{labels: labels, series: map[string]uint64{}}
}

// Add adds n to the series with the values of the labels.
func (c *Counter) Add(n uint64, values ...string) {
	key := pairs(c.labels, values)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.series[key]; !known && len(c.series) >= maxSeries {
		key = pairs(c.labels, slices.Repeat([]string{"other"}, len(values)))
	}
	c.series[key] += n
}

// pairs formats labels.
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
	counts []uint64 // for each bound, and for larger values
	sum    float64
}

// NewHistogram returns a histogram with upper bounds.
func NewHistogram(bounds ...float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

// Observe counts a value. A negative one, after a change of the clock, counts as zero.
func (h *Histogram) Observe(value float64) {
	value = max(0, value)
	i, _ := slices.BinarySearch(h.bounds, value)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[i]++
	h.sum += value
}

// Page is a page of metrics.
type Page struct{ b strings.Builder }

func (p *Page) String() string { return p.b.String() }

// family writes the header of a metric.
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

// Gauge writes a current value.
func (p *Page) Gauge(name, help string, value float64) {
	p.family(name, "gauge", help)
	p.line(name, "", value)
}

// Gauges writes current values by the value of a label.
func (p *Page) Gauges(name, help, label string, values map[string]float64) {
	p.family(name, "gauge", help)
	for _, k := range slices.Sorted(maps.Keys(values)) {
		p.line(name, pairs([]string{label}, []string{k}), values[k])
	}
}

// Total writes a counter whose value the caller counts.
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
	for _, labels := range slices.Sorted(maps.Keys(c.series)) {
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
