//go:build linux

package siem

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// cluster is three servers of NATS in this process, with a stream on all of them.
type cluster struct {
	t       *testing.T
	options []*server.Options
	servers []*server.Server
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, servers: make([]*server.Server, 3)}
	var routes []*url.URL
	for range 3 {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", freePort(t))})
	}
	for i := range 3 {
		port := 0
		_, _ = fmt.Sscan(routes[i].Port(), &port)
		c.options = append(c.options, &server.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: freePort(t), JetStream: true, StoreDir: filepath.Join(t.TempDir(), "js"), NoLog: true, NoSigs: true,
			Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: port}, Routes: routes, Authorization: "canary-nats",
		})
	}
	for i := range 3 {
		c.start(i)
	}
	t.Cleanup(func() {
		for _, s := range c.servers {
			s.Shutdown()
		}
	})
	return c
}

func (c *cluster) start(i int) {
	c.t.Helper()
	s, err := server.NewServer(c.options[i])
	must(c.t, err)
	c.servers[i] = s
	s.Start()
}

func (c *cluster) urls() string {
	var all []string
	for _, o := range c.options {
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", o.Port))
	}
	return strings.Join(all, ",")
}

// leader is the server that leads the stream; -1: none does.
func (c *cluster) leader() int {
	for i, s := range c.servers {
		if s.JetStreamIsStreamLeader("$G", "audit") {
			return i
		}
	}
	return -1
}

// TestJetStream checks that the stream gets each event once, in order, while servers stop, the leader first, and return as another
// cluster, and that no other server gets the token.
func TestJetStream(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	s := newScene(t, "[[sink]]\nname = 'nats'\ntype = 'nats'\nurl = '"+c.urls()+"'\ntoken_file = 'DIR/token'\ntimeout = '3s'\n")
	writeFile(t, s.dir+"/token", "canary-nats\n")
	s.record(20)
	s.start()
	s.wait("the shipper says that there's no stream", func() bool { return strings.Contains(s.log.String(), "records wait") })
	stream, done := openStream(s, c.urls(), jetstream.StreamConfig{Replicas: 3, MaxMsgSize: 64 << 10})
	defer done()
	s.delivered()
	again := func(i int) {
		s.record(100)
		c.servers[i].Shutdown()
		s.record(50)
		s.delivered()
		c.start(i)
		s.wait("there's a leader", func() bool { return c.leader() >= 0 })
	}
	again(c.leader())

	// Another cluster announces a server that isn't in the settings. A client that follows it would send it the token.
	rogue := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	input, clients, _ := hostileServer(t, rogue, natsHello, "")
	for _, o := range c.options {
		o.ClientAdvertise = rogue
	}
	again(0)
	follower, err := nats.Connect(c.urls(), nats.Token("canary-nats"), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	must(t, err)
	t.Cleanup(follower.Close)
	s.wait("who follows goes there", func() bool {
		_ = follower.ForceReconnect()
		return strings.Contains(input.String(), `"auth_token":"canary-nats"`)
	})
	follower.Close()
	before := clients.Load()
	for i := range c.servers {
		again(i)
	}
	onceIn(s, stream)
	if n := clients.Load() - before; n > 0 || strings.Contains(input.String(), "toolguard-ship") {
		t.Errorf("%d connections to a server that isn't in the settings: %s", n, input.String())
	}
}

// openStream creates the stream, or finds it, once a server can.
func openStream(s *scene, urls string, config jetstream.StreamConfig) (stream jetstream.Stream, done func()) {
	s.t.Helper()
	nc, err := nats.Connect(urls, nats.Token("canary-nats"), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.RetryOnFailedConnect(true),
		nats.IgnoreDiscoveredServers())
	must(s.t, err)
	js, err := jetstream.New(nc)
	must(s.t, err)
	config.Name, config.Subjects = "audit", []string{"toolguard.events"}
	s.wait("there's a stream", func() bool {
		ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
		defer cancel()
		stream, err = js.CreateOrUpdateStream(ctx, config)
		return err == nil
	})
	return stream, nc.Close
}

// onceIn waits until a stream has everything, each once, in order, with its id.
func onceIn(s *scene, stream jetstream.Stream) {
	s.t.Helper()
	var all []string
	s.arrived(func() []string { all = kept(s.t, stream); return all })
	if got, want := len(all), len(s.lines()); got != want {
		s.t.Errorf("%d messages, not %d: the stream drops what comes again", got, want)
	}
}

// kept returns a stream's messages.
func kept(t *testing.T, stream jetstream.Stream) (lines []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	cons, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil
	}
	msgs, err := cons.Fetch(10_000, jetstream.FetchMaxWait(2*time.Second))
	if err != nil {
		return nil
	}
	for m := range msgs.Messages() {
		lines = append(lines, string(m.Data()))
		if uid := m.Headers().Get("Nats-Msg-Id"); !strings.Contains(lines[len(lines)-1], `"uid":"`+uid+`"`) {
			return []string{"a message has another one's id: " + uid}
		}
	}
	return lines
}
