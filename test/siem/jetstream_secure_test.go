//go:build linux

package siem

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
)

// identity is a key, and its public name.
func identity(t *testing.T, make func() (nkeys.KeyPair, error)) (key nkeys.KeyPair, name string) {
	t.Helper()
	key, err := make()
	must(t, err)
	if name, err = key.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return key, name
}

// between passes each connection on to a server, whose first line it changes, as a machine in the middle can before TLS begins.
func between(t *testing.T, address, server string, change *atomic.Pointer[strings.Replacer]) (input *childtest.Output) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	input = &childtest.Output{}
	pass := func(client net.Conn) {
		defer client.Close()
		conn, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		line, _ := in.ReadString('\n')
		_, _ = io.WriteString(client, change.Load().Replace(line))
		go func() { _, _ = io.Copy(client, in) }()
		_, _ = io.Copy(conn, io.TeeReader(client, input))
	}
	go func() {
		for client, err := l.Accept(); err == nil; client, err = l.Accept() {
			go pass(client)
		}
	}()
	return input
}

// TestJetStreamSecure delivers over TLS with user credentials. A machine in the middle first announces that there is no TLS, and
// then a tiny maximum payload.
func TestJetStreamSecure(t *testing.T) {
	t.Parallel()
	port, front := freePort(t), fmt.Sprintf("127.0.0.1:%d", freePort(t))
	address := fmt.Sprintf("tls://127.0.0.1:%d", port)
	s := newScene(t, "[[sink]]\nname = 'nats'\ntype = 'nats'\nurl = 'tls://"+front+"'\nserver_name = 'nats.example'\nca_file = 'DIR/ca.pem'\ncreds_file = 'DIR/creds'\n")
	certificates(t, s.dir, "nats.example")
	operator, operatorName := identity(t, nkeys.CreateOperator)
	account, accountName := identity(t, nkeys.CreateAccount)
	_, systemName := identity(t, nkeys.CreateAccount)
	user, userName := identity(t, nkeys.CreateUser)
	claims := jwt.NewOperatorClaims(operatorName)
	claims.SystemAccount = systemName
	resolver := &server.MemAccResolver{}
	for _, name := range []string{accountName, systemName} {
		a := jwt.NewAccountClaims(name)
		if name == accountName {
			a.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
		}
		text, err := a.Encode(operator)
		must(t, err)
		must(t, resolver.Store(name, text))
	}
	text, err := jwt.NewUserClaims(userName).Encode(account)
	must(t, err)
	seed, err := user.Seed()
	must(t, err)
	creds, err := jwt.FormatUserConfig(text, seed)
	must(t, err)
	writeFile(t, s.dir+"/creds", string(creds))
	tls, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: s.dir + "/nats.example.pem", KeyFile: s.dir + "/nats.example.key", CaFile: s.dir + "/ca.pem"})
	must(t, err)
	n, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: filepath.Join(t.TempDir(), "js"), NoLog: true, NoSigs: true,
		TrustedOperators: []*jwt.OperatorClaims{claims}, AccountResolver: resolver, SystemAccount: systemName, TLSConfig: tls, MaxPayload: 4096,
	})
	must(t, err)
	n.Start()
	t.Cleanup(n.Shutdown)
	nc, err := nats.Connect(address, nats.UserCredentials(s.dir+"/creds"), nats.RootCAs(s.dir+"/ca.pem"))
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "audit", Subjects: []string{"toolguard.events"}})
	must(t, err)
	s.record(50)
	s.record(1, func(e *event.Event) { e.Target = "/" + strings.Repeat("x", 4096) })
	s.record(1)
	var change atomic.Pointer[strings.Replacer]
	change.Store(strings.NewReplacer(`"tls_required":true`, `"tls_required":false`))
	input := between(t, front, fmt.Sprintf("127.0.0.1:%d", port), &change)
	s.start()
	s.wait("it isn't content without TLS", func() bool { return strings.Contains(s.log.String(), "secure connection not available") })
	if input.String() != "" {
		t.Errorf("in the clear it said %q", input.String())
	}
	change.Store(strings.NewReplacer(`"max_payload":4096`, `"max_payload":1200`, "\r\n", "\r\n+OK\r\nPONG\r\n"))
	s.delivered()
	info, err := stream.Info(ctx)
	must(t, err)
	if want := len(s.lines()); info.State.Msgs != uint64(want) {
		t.Errorf("%d messages, not %d: %s", info.State.Msgs, want, s.log.String())
	}
	s.wait("the long one is logged", func() bool { return strings.Contains(s.log.String(), "records=1") })
	if log := s.log.String(); strings.Count(log, "records wait") != 1 || strings.Contains(log, "1200") || strings.Count(log, "than the server's maximum, 4096") != 1 {
		t.Error(log)
	}
}
