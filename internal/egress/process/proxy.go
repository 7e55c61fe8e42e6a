package process

import (
	"context"
	"encoding/json"
	"io"
	"runtime/debug"

	"github.com/toolguard/toolguard/internal/egress"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/egress/ownaddr"
)

// ServeProxy runs egress as an HTTP proxy, where no kernel redirects a session's connections (macOS). in has the instructions, out gets the messages.
// It returns when in ends. The process has the rights of its user: only its input is restricted.
func ServeProxy(in io.Reader, out io.Writer) error {
	r := newReporter(out)
	err := serveProxy(json.NewDecoder(in), r)
	if err != nil {
		_ = r.send(&message.Message{Error: err.Error()})
	}
	return err
}

func serveProxy(toolguard *json.Decoder, r *reporter) error {
	debug.SetMemoryLimit(maxMemory / 2)
	o, err := receive(toolguard)
	if err != nil {
		return err
	}
	tcp, _, err := listeners(o)
	if err != nil {
		return err
	}
	ready := message.Message{Ready: true, Generation: o.Generation}
	ca, err := authority(o, &ready)
	if err != nil {
		return err
	}
	if err := r.send(&ready); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	changes := make(chan egress.Change)
	go func() { cancel(receivePolicies(toolguard, changes, r)) }()
	go r.sendDenials()
	go r.sendHeartbeats(ctx)
	s := &egress.Server{
		Policy: o.Policy, Generation: o.Generation, Hosts: o.Hosts, Upstream: o.Upstream, Kernel: egress.NoKernel{}, Proxy: true, Denied: r.queueDenial, CA: ca,
		Changes: changes, IsOwn: ownaddr.IsNow,
	}
	err = s.Serve(ctx, tcp, nil)
	close(r.queue)
	<-r.done
	return err
}
