//go:build linux

package gate

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkBatch is one decision of gate --batch, start of the process excluded by its share: the goal is 2,000 calls a second.
func BenchmarkBatch(b *testing.B) {
	s := newScene(b)
	c := readCorpus(b, s)
	var rows []row
	for _, sec := range c.sections {
		if sec.policy == "plain" && len(sec.flags) == 0 {
			rows = append(rows, sec.rows...)
		}
	}
	var in bytes.Buffer
	for i := range b.N {
		in.Write(append(rows[i%len(rows)].call(fmt.Sprint(i)), '\n'))
	}
	b.ResetTimer()
	out := run(b, s.gate("plain", "--batch"), in.Bytes())
	b.StopTimer()
	if out.code != 0 || bytes.Count(out.stdout, []byte("\n")) != b.N {
		b.Fatalf("exit status %d: %s", out.code, out.stderr)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkProcess is one call by a process of its own, from its start to its end: the goal is 20 ms for the 95th percentile.
func BenchmarkProcess(b *testing.B) {
	s := newScene(b)
	readCorpus(b, s)
	call := []byte(`{"id":"1","tool":"Bash","arguments":{"command":"git status && ls | head"}}`)
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		if out := run(b, s.gate("plain"), call); out.code != 0 {
			b.Fatalf("exit status %d: %s%s", out.code, out.stdout, out.stderr)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	for _, p := range []int{50, 95} {
		b.ReportMetric(float64(took[(len(took)-1)*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
	}
}
