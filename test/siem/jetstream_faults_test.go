//go:build linux

package siem

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/childtest"
)

// natsConfig is set where the test's program is a nats-server, with this file.
const natsConfig = "TOOLGUARD_TEST_NATS"

func serveNATS(config string) int {
	o, err := server.ProcessConfigFile(config)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	o.NoSigs = true
	s, err := server.NewServer(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s.Start()
	s.WaitForShutdown()
	return 0
}

const natsHello = `INFO {"server_id":"x","headers":true,"max_payload":1048576,"jetstream":true}` + "\r\n"

// hostileServer sends each client at an address the same text, and more repeatedly, until it is stopped. It records the clients'
// input.
func hostileServer(t *testing.T, address, text, more string) (input *childtest.Output, clients *atomic.Int64, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	input, clients = &childtest.Output{}, &atomic.Int64{}
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			clients.Add(1)
			go func() {
				defer conn.Close()
				go func() {
					_, err := io.WriteString(conn, text)
					for err == nil && more != "" {
						_, err = io.WriteString(conn, more)
					}
				}()
				_, _ = io.Copy(input, conn)
			}()
		}
	}()
	stop = func() { _ = l.Close() }
	t.Cleanup(stop)
	return input, clients, stop
}

// supervise runs the shipper as its unit does, started again whenever it ends, until it's stopped; then it returns the most memory that one had.
func (s *scene) supervise() (ended *atomic.Int64, stop func() (peak int64)) {
	s.t.Helper()
	bin, err := shipper()
	must(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended = &atomic.Int64{}
	peaks := make(chan int64, 1)
	go func() {
		most := int64(0)
		for ctx.Err() == nil {
			cmd := exec.CommandContext(ctx, bin, "--config", s.config)
			cmd.Stdout, cmd.Stderr = &s.log, &s.log
			if cmd.Run(); cmd.ProcessState != nil {
				most = max(most, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10)
			}
			ended.Add(1)
			time.Sleep(100 * time.Millisecond) // RestartSec=
		}
		peaks <- most
	}()
	stop = sync.OnceValue(func() int64 { cancel(); return <-peaks })
	s.t.Cleanup(func() { stop() })
	return ended, stop
}

// TestJetStreamFaults kills a nats-server during delivery, and replaces it by one that crashes the shipper, whose unit restarts it
// within its memory limit. The stream gets each event once, in order, and another sink gets all events meanwhile.
func TestJetStreamFaults(t *testing.T) {
	t.Parallel()
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	s := newScene(t, `
[[sink]]
name = 'nats'
type = 'nats'
url = 'nats://`+address+`'
token_file = 'DIR/token'
timeout = '3s'
[[sink]]
name = 'file'
type = 'file'
path = 'DIR/out'
`)
	writeFile(t, s.dir+"/token", "canary-nats\n")
	writeFile(t, s.dir+"/nats.conf", fmt.Sprintf("listen: %q\njetstream { store_dir: %q }\nauthorization { token: canary-nats }\n", address, t.TempDir()))
	serve := func() (kill func()) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), natsConfig+"="+s.dir+"/nats.conf")
		cmd.Stderr = os.Stderr
		end := launch(t, cmd)
		return func() { end(os.Kill) }
	}
	kill := serve()
	_, done := openStream(s, "nats://"+address, jetstream.StreamConfig{})
	done()
	ended, stop := s.supervise()
	reached := func(sink string, n int) func() bool {
		return func() bool {
			all, _ := audit.ReadCursors(filepath.Join(s.dir, "state", "state.json"))
			return all[sink].Sequence >= uint64(n)
		}
	}
	for range 5 {
		s.record(1000)
		s.wait("some of it is delivered", reached("nats", s.n-900))
		kill()
		s.record(50)
		kill = serve()
		s.delivered()
	}
	kill()
	long := strings.Repeat("x", 64<<10)
	hello := natsHello + "PONG\r\nPONG\r\n"
	for name, c := range map[string]struct {
		reply, more string
		ends        bool
	}{
		"an INFO without an end":             {"INFO {", long, false},
		"an INFO that names many":            {`INFO {"headers":true,"connect_urls":["x"` + strings.Repeat(`,"x"`, 10_000) + "]}\r\nPONG\r\n", "", false},
		"a message of all memory":            {hello + "MSG x 1 4294967295\r\n", long, true},
		"a message of more than all memory":  {hello + "MSG x 1 70368744177664\r\n", "", true},
		"a message of more than any counter": {hello + "MSG x 1 999999999999999999\r\n", "", true},
	} {
		before := ended.Load()
		_, clients, stop := hostileServer(t, address, c.reply, c.more)
		s.record(10)
		s.wait(name+": it's asked again and again", func() bool { return clients.Load() > 1 && (!c.ends || ended.Load() > before+1) })
		s.record(10)
		s.wait(name+": another sink has all", reached("file", s.n))
		stop()
		if n := ended.Load() - before; n > 0 != c.ends {
			t.Errorf("%s: the shipper ended %d times", name, n)
		}
	}
	serve()
	s.delivered()
	stream, done := openStream(s, "nats://"+address, jetstream.StreamConfig{})
	defer done()
	onceIn(s, stream)
	s.arrived(fileLines(s.dir + "/out"))
	if peak := stop(); peak > 512<<20 {
		t.Errorf("it had %d bytes of memory", peak)
	}
	if strings.Contains(s.log.String(), "canary-nats") {
		t.Error("the token is in the log")
	}
}
