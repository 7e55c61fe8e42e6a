package denials

import (
	"context"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/kernelaudit"
)

// Records are the kernel's audit records of one session, read by this process or by toolguardd.
type Records interface {
	Listen()      // begins to deliver
	Prove() error // nil as soon as records are known to arrive
	Proven() bool
	Finish(context.Context) (kernelaudit.Totals, error) // delivers the pending records
	Close() error
}

// daemonRecords are read by toolguardd.
type daemonRecords struct {
	stream  *api.Stream
	denials *Collector
	ended   chan struct{}       // closed when no more records arrive
	totals  *kernelaudit.Totals // nil: the stream ended early
}

// Subscribe makes Begin collect the records that toolguardd reads. With foreign, their PIDs are those of another PID namespace.
func (d *Collector) Subscribe(stream *api.Stream, foreign bool) {
	d.records, d.foreign = &daemonRecords{stream: stream, denials: d, ended: make(chan struct{})}, foreign
}

// Listen begins to deliver.
func (s *daemonRecords) Listen() { go s.receive() }

func (s *daemonRecords) receive() {
	defer close(s.ended)
	for {
		var r api.Record
		err := s.stream.Next(&r)
		switch {
		case err == nil && r.Denial != nil:
			for range max(1, r.Times) {
				s.denials.Receive(*r.Denial)
			}
		case err == nil && r.Totals != nil:
			s.totals = r.Totals
			return
		case err != nil:
			s.denials.Missed("toolguardd", "toolguardd ended meanwhile, and later denials are unknown")
			return
		}
	}
}

// Prove returns nil: toolguardd checks that records arrive before it answers.
func (s *daemonRecords) Prove() error { return nil }

// Proven is true.
func (s *daemonRecords) Proven() bool { return true }

// Finish makes toolguardd send the pending records. If toolguardd has ended, that was reported.
func (s *daemonRecords) Finish(ctx context.Context) (kernelaudit.Totals, error) {
	_ = s.stream.Send()
	select {
	case <-s.ended:
	case <-ctx.Done():
		return kernelaudit.Totals{Why: "toolguardd didn't send the end of the records"}, nil
	}
	if s.totals == nil {
		return kernelaudit.Totals{Exact: true}, nil
	}
	return *s.totals, nil
}

// Close ends the subscription.
func (s *daemonRecords) Close() error { return s.stream.Close() }
