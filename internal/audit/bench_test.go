package audit

import (
	"testing"
	"time"
)

// BenchmarkLog records 100,000 events in a second on the temporary folder's disk. It checks that every loss is counted, and reports
// how many are stored.
func BenchmarkLog(b *testing.B) {
	const rate, tick = 100_000, time.Millisecond
	for b.Loop() {
		dir := b.TempDir()
		l := Start(Config{Folder: dir})
		e := denial(0)
		began, slowest := time.Now(), time.Duration(0)
		for i := range rate {
			if i%(rate/1000) == 0 {
				time.Sleep(time.Until(began.Add(time.Duration(i/(rate/1000)) * tick)))
			}
			t := time.Now()
			l.Record(&e)
			slowest = max(slowest, time.Since(t))
		}
		took := time.Since(began)
		missing, err := l.Close()
		if err != nil && missing == 0 {
			b.Fatal(err)
		}
		r, err := Verify(dir, "", noProgress)
		if err != nil || len(r.Problems) > 0 || r.Lost != missing {
			b.Fatalf("%v, %d missing: %+v", err, missing, r)
		}
		if there := r.Records - uint64(r.Checkpoints) - uint64(r.Gaps); there+missing != rate {
			b.Fatalf("%d there and %d missing of %d", there, missing, rate)
		}
		b.ReportMetric(100*float64(missing)/rate, "%counted")
		b.ReportMetric(rate/took.Seconds(), "events/s")
		b.ReportMetric(float64(slowest.Microseconds()), "slowest-µs")
		b.ReportMetric(0, "ns/op")
	}
}

// BenchmarkAppend measures how fast events are written to the disk.
func BenchmarkAppend(b *testing.B) {
	s, err := Open(Config{Folder: b.TempDir()})
	must(b, err)
	list := denials(0, 2000)
	for b.Loop() {
		if _, err := s.Append(list); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(list)*b.N)/b.Elapsed().Seconds(), "events/s")
	_ = s.Close()
}

// BenchmarkVerify measures how fast a spool is verified.
func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	s, err := Open(Config{Folder: dir})
	must(b, err)
	if _, err := s.Append(denials(0, 20000)); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(s.used())
	_ = s.Close()
	for b.Loop() {
		if _, err := Verify(dir, "", noProgress); err != nil {
			b.Fatal(err)
		}
	}
}
