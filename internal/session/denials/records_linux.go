package denials

import (
	"context"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/kernelaudit"
)

// Records are the kernel's audit records of one session, as this process reads them or toolguardd does.
type Records interface {
	Listen()      // begins to deliver
	Prove() error // nil as soon as records are known to arrive
	Proven() bool
	Finish(context.Context) (kernelaudit.Totals, error) // delivers what is on its way
	Close() error
}

// daemonRecords are read by toolguardd.
type daemonRecords struct {
	stream  *api.Stream
	denials *Collector
	over    chan struct{}       // closed when nothing more comes
	totals  *kernelaudit.Totals // nil: the end didn't come
}

// Subscribe has the records collected that toolguardd reads. foreign: toolguardd has other numbers for the session's processes.
func (d *Collector) Subscribe(stream *api.Stream, foreign bool) {
	d.records, d.foreign = &daemonRecords{stream: stream, denials: d, over: make(chan struct{})}, foreign
}

// Listen begins to deliver.
func (s *daemonRecords) Listen() { go s.receive() }

func (s *daemonRecords) receive() {
	defer close(s.over)
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
			s.denials.Missed("toolguardd", "toolguardd ended meanwhile, and what was denied since isn't known")
			return
		}
	}
}

// Prove is nil: toolguardd had them proven before it answered.
func (s *daemonRecords) Prove() error { return nil }

// Proven is true.
func (s *daemonRecords) Proven() bool { return true }

// Finish has toolguardd report the rest. What was missed when it ended has been reported.
func (s *daemonRecords) Finish(ctx context.Context) (kernelaudit.Totals, error) {
	_ = s.stream.Send()
	select {
	case <-s.over:
	case <-ctx.Done():
		return kernelaudit.Totals{Why: "toolguardd doesn't report the end of them"}, nil
	}
	if s.totals == nil {
		return kernelaudit.Totals{Exact: true}, nil
	}
	return *s.totals, nil
}

// Close ends the subscription.
func (s *daemonRecords) Close() error { return s.stream.Close() }
