package process

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolguard/toolguard/internal/egress"
	"github.com/toolguard/toolguard/internal/egress/message"
)

// maxQueued limits the denials that wait to be sent.
const maxQueued = 1024

// maxMemory is more than the maximum number of connections needs.
const maxMemory = 1 << 30

// serveBy runs a server, to which it adds what the first instructions say, until toolguard closes the socket.
func serveBy(toolguard *json.Decoder, r *reporter, o *message.Instructions, s *egress.Server) error {
	tcp, udp, err := listeners(o)
	if err != nil {
		return err
	}
	ready := message.Message{Ready: true, Generation: o.Generation}
	if s.CA, err = authority(o, &ready); err != nil {
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
	s.Policy, s.Generation, s.Hosts, s.Upstream, s.Denied, s.Changes = o.Policy, o.Generation, o.Hosts, o.Upstream, r.queueDenial, changes
	err = s.Serve(ctx, tcp, udp)
	close(r.queue)
	<-r.done
	return err
}

// receivePolicies passes on later policies, and replies to each, until toolguard closes the socket.
func receivePolicies(toolguard *json.Decoder, changes chan<- egress.Change, r *reporter) error {
	for {
		o, err := receive(toolguard)
		if errors.Is(err, io.EOF) {
			return context.Canceled
		} else if err != nil {
			return err
		}
		changes <- egress.Change{Policy: o.Policy, Generation: o.Generation, Hosts: o.Hosts, Done: func(err error) {
			m := message.Message{Generation: o.Generation}
			if err != nil {
				m = message.Message{Error: err.Error()}
			}
			_ = r.send(&m) // fails only if toolguard has gone
		}}
	}
}

// receive receives instructions.
func receive(toolguard *json.Decoder) (*message.Instructions, error) {
	var text json.RawMessage
	if err := toolguard.Decode(&text); err != nil {
		return nil, err
	}
	var header struct{ Format int }
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, err
	}
	if header.Format != message.Format {
		return nil, errors.New("toolguard and toolguardd are of different versions: install both of one")
	}
	var o message.Instructions
	err := json.Unmarshal(text, &o)
	if err == nil && o.Policy == nil {
		err = errors.New("the instructions have no policy")
	}
	return &o, err
}

// intercepts reports whether TLS ends here, by this policy or a later one: a session that has an authority keeps it.
func intercepts(o *message.Instructions) bool { return o.Policy.Intercepts() || len(o.Authority) > 0 }

// authority returns the session's authority, if it needs one. A new one is added to the ready message, for later processes.
func authority(o *message.Instructions, ready *message.Message) (*egress.Authority, error) {
	if !intercepts(o) {
		return nil, nil
	}
	if len(o.Authority) > 0 {
		ca := &egress.Authority{}
		return ca, json.Unmarshal(o.Authority, ca)
	}
	ca, err := egress.NewAuthority()
	if err != nil {
		return nil, err
	}
	ready.Bundle = ca.Bundle()
	ready.Authority, err = json.Marshal(ca)
	return ca, err
}

// listeners returns the inherited sockets.
func listeners(o *message.Instructions) (tcp []*net.TCPListener, udp []*net.UDPConn, err error) {
	for _, fd := range o.TCP {
		f := os.NewFile(uintptr(fd), "tcp")
		l, err := net.FileListener(f)
		_ = f.Close()
		if err != nil {
			return nil, nil, err
		}
		tcp = append(tcp, l.(*net.TCPListener))
	}
	for _, fd := range o.UDP {
		f := os.NewFile(uintptr(fd), "udp")
		c, err := net.FilePacketConn(f)
		_ = f.Close()
		if err != nil {
			return nil, nil, err
		}
		udp = append(udp, c.(*net.UDPConn))
	}
	return tcp, udp, nil
}

// reporter sends denials without blocking egress.
type reporter struct {
	mu    sync.Mutex
	to    *json.Encoder
	queue chan message.Denial
	lost  atomic.Uint64
	done  chan struct{}
}

func (r *reporter) send(m *message.Message) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to.Encode(m)
}

func (r *reporter) queueDenial(d message.Denial) {
	select {
	case r.queue <- d:
	default:
		r.lost.Add(1)
	}
}

func (r *reporter) sendDenials() {
	defer close(r.done)
	for d := range r.queue {
		_ = r.send(&message.Message{Denial: &d, Lost: r.lost.Swap(0)}) // fails only if toolguard has gone
	}
	if n := r.lost.Swap(0); n > 0 {
		_ = r.send(&message.Message{Lost: n})
	}
}

// sendHeartbeats shows that egress doesn't hang.
func (r *reporter) sendHeartbeats(ctx context.Context) {
	for beats := time.Tick(message.HeartbeatInterval); ; {
		select {
		case <-ctx.Done():
			return
		case <-beats:
			_ = r.send(&message.Message{}) // fails only if toolguard has gone
		}
	}
}

func newReporter(to io.Writer) *reporter {
	return &reporter{to: json.NewEncoder(to), queue: make(chan message.Denial, maxQueued), done: make(chan struct{})}
}
