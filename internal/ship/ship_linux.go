package ship

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Check returns why the settings can't be used, as far as that is detectable without a connection.
func Check(cfg Config) error {
	var all []error
	for _, sink := range cfg.Sinks {
		_, err := sink.open()
		all = append(all, err)
	}
	return errors.Join(all...)
}

// open creates a sink's sender. The sender connects when it sends.
func (s *Sink) open() (to sender, err error) {
	if err = s.resolveFiles(); err == nil {
		to, err = sinkTypes()[s.Type].open(*s)
	}
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", s.Name, err)
	}
	return to, nil
}

// Run ships until ctx ends.
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	return run(ctx, cfg, log, defaultPace)
}

func run(ctx context.Context, cfg Config, log *slog.Logger, p pace) error {
	st, err := openState(cfg, log)
	if err != nil {
		return err
	}
	defer st.lock.Close()
	if cfg.Metrics != "" {
		if err := serveMetrics(ctx, cfg.Metrics, st); err != nil {
			return err
		}
	}
	var workers []*worker
	for _, sink := range cfg.Sinks {
		to, err := sink.open()
		if err != nil {
			return err
		}
		from, err := newSource(cfg.Spool, st.sinks[sink.Name].Cursor, sink.format, cfg.Version)
		if err != nil {
			return err
		}
		workers = append(workers, &worker{sink: sink, to: to, from: from, state: st, log: log, pace: p})
	}
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(func() { w.run(ctx) })
	}
	st.writeChanges(ctx)
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(5 * time.Second): // a worker may be blocked on a pipe
	}
	return st.write()
}
