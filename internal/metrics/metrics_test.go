package metrics

import (
	"fmt"
	"strings"
	"testing"
)

func TestPage(t *testing.T) {
	c := NewCounter("resource", "reason")
	c.Add(2, "net", "no_rule")
	c.Add(1, "fs", "a\"b\\c\nd\xff")
	c.Add(3, "net", "no_rule")
	plain, none := NewCounter(), NewCounter()
	plain.Add(1 << 40)
	h := NewHistogram(0.001, 1)
	for _, seconds := range []float64{-5, 0.0005, 0.001, 0.5, 3} {
		h.Observe(seconds)
	}
	var p Page
	p.Counter("c_total", "things", c)
	p.Counter("plain_total", "more", plain)
	p.Counter("none_total", "none", none)
	p.Gauge("g", "now", 0.25)
	p.Gauges("s", "states", "state", map[string]float64{"b": 1, "a": 2})
	p.Total("t_total", "all", 7)
	p.Histogram("h_seconds", "time", h)
	want := `# HELP c_total things
# TYPE c_total counter
c_total{resource="fs",reason="a\"b\\c\nd` + "\ufffd" + `"} 1
c_total{resource="net",reason="no_rule"} 5
# HELP plain_total more
# TYPE plain_total counter
plain_total 1099511627776
# HELP none_total none
# TYPE none_total counter
none_total 0
# HELP g now
# TYPE g gauge
g 0.25
# HELP s states
# TYPE s gauge
s{state="a"} 2
s{state="b"} 1
# HELP t_total all
# TYPE t_total counter
t_total 7
# HELP h_seconds time
# TYPE h_seconds histogram
h_seconds_bucket{le="0.001"} 3
h_seconds_bucket{le="1"} 4
h_seconds_bucket{le="+Inf"} 5
h_seconds_sum 3.5015
h_seconds_count 5
`
	if got := p.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestBound checks that a counter stays small with any number of label values, and counts all of them.
func TestBound(t *testing.T) {
	c := NewCounter("reason")
	const many = 10000
	for i := range many {
		c.Add(1, fmt.Sprint("reason", i))
	}
	if len(c.series) != maxSeries+1 || c.series[`{reason="other"}`] != many-maxSeries {
		t.Errorf("%d series, %d others", len(c.series), c.series[`{reason="other"}`])
	}
	c.Add(1, "reason0")
	var p Page
	p.Counter("c", "c", c)
	if !strings.Contains(p.String(), "c{reason=\"reason0\"} 2\n") {
		t.Error(p.String())
	}
}
