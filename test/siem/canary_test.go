//go:build linux

package siem

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/nettest"
)

// TestCanaries checks that no secret of the confined process or of the sinks is in the shipper's output: the requests, except for
// the sink's own header, the log, the state, the metrics, the command line.
func TestCanaries(t *testing.T) {
	t.Parallel()
	var input childtest.Output // what receivers got
	var said strings.Builder   // and what goes everywhere but to them
	collect := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := nettest.Collect(&input, r)
		if strings.Contains(body, `/refused`) && !strings.Contains(body, `"mechanism":"ship"`) { // and echoes the token
			http.Error(w, "refused: "+r.Header.Get("Authorization"), http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, nettest.Collected)
	}))
	t.Cleanup(collect.Close)
	angry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "who is "+r.Header.Get("Authorization"), http.StatusForbidden)
	}))
	t.Cleanup(angry.Close)
	var sinks strings.Builder
	sinks.WriteString("metrics = 'DIR/metrics'\n")
	sockets := t.TempDir()
	stream, stop := natsServer(t, "canary-0", &input)
	for _, format := range []string{"ocsf", "ecs", "text"} {
		fmt.Fprintf(&sinks, "[[sink]]\nname = 'file-%s'\ntype = 'file'\npath = 'DIR/out-%[1]s'\nformat = '%[1]s'\n", format)
		for _, kind := range []string{"webhook", "hec", "otlp"} {
			fmt.Fprintf(&sinks, "[[sink]]\nname = '%s-%s'\ntype = '%[1]s'\nformat = '%[2]s'\nurl = '%s'\ntoken_file = 'token'\n", kind, format, collect.URL)
		}
		datagrams(t, &input, sockets+"/log-"+format)
		fmt.Fprintf(&sinks, "[[sink]]\nname = 'syslog-%s'\ntype = 'syslog'\nformat = '%[1]s'\nurl = 'unix://%s/log-%[1]s'\n", format, sockets)
		fmt.Fprintf(&sinks, "[[sink]]\nname = 'nats-%s'\ntype = 'nats'\nformat = '%[1]s'\nurl = '%s'\nsubject = 'toolguard.%[1]s'\ntoken_file = 'token'\n", format, stream)
	}
	fmt.Fprintf(&sinks, "[[sink]]\nname = 'stdout'\ntype = 'stdout'\n")
	datagrams(t, &input, sockets+"/journal")
	fmt.Fprintf(&sinks, "[[sink]]\nname = 'journal'\ntype = 'journald'\npath = '%s/journal'\n", sockets)
	fmt.Fprintf(&sinks, "[[sink]]\nname = 'tcp'\ntype = 'syslog'\nurl = 'tcp://%s'\n", everything(t, &input))
	fmt.Fprintf(&sinks, "[[sink]]\nname = 'angry'\ntype = 'webhook'\nurl = '%s/hook'\ntoken_file = 'token'\n", angry.URL)
	s := newScene(t, sinks.String())
	writeFile(t, s.dir+"/token", "canary-0\n")
	s.env = []string{"CREDENTIALS_DIRECTORY=" + s.dir}

	s.record(1, func(e *event.Event) {
		e.Process[0].Argv = []string{
			"curl", "-u", "me:canary-1", "--token", "canary-2", "API_KEY=canary-3", "-H", "Authorization: Bearer canary-4", "-H",
			"Cookie: id=canary-5", "https://me:canary-6@example.com/x?key=canary-7#canary-8", "-d", `{"password": "canary-9"}`,
		}
	})
	s.record(1, func(e *event.Event) {
		e.Resource, e.Capability = "net", "connect"
		e.Target, e.Asked = "https://example.com:443/x?token=canary-10", "https://me:canary-11@example.com/?canary-12"
		e.Suggest, e.Extra = `host = "https://example.com/?canary-13"`, map[string]string{"why": "https://example.com/?canary-14"}
	})
	s.record(1, func(e *event.Event) { e.Resource, e.Target, e.Kind = "env", "AWS_SECRET_ACCESS_KEY", event.Denial })
	s.record(1, func(e *event.Event) { e.Target = "/refused" })
	cmd, end := s.start()
	s.wait("all but one have all", func() bool {
		text, _ := os.ReadFile(s.dir + "/state/state.json")
		return strings.Count(string(text), `"sequence": 5`) == 22 // the sinks', and the audit's end
	})
	for _, name := range []string{"cmdline", "environ"} {
		said.WriteString(readFile(t, fmt.Sprintf("/proc/%d/%s", cmd.Process.Pid, name)))
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", s.dir+"/metrics")
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial}}
	var metrics []byte
	s.wait("the metrics and the log say so", func() bool {
		resp, err := client.Get("http://shipper/metrics")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		metrics, err = io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(metrics), `toolguard_ship_sequence{sink="stdout",type="stdout"} 5`) &&
			strings.Contains(string(metrics), `toolguard_ship_refused_total{sink="hec-ocsf",type="hec"} 1`) &&
			strings.Contains(string(metrics), `toolguard_ship_failing{sink="angry",type="webhook"} 1`) && strings.Contains(s.log.String(), "who is")
	})
	end(syscall.SIGTERM)
	stop()
	said.Write(metrics)
	said.WriteString(s.log.String() + input.String())
	err := filepath.WalkDir(s.dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() != "token" {
			said.WriteString(readFile(t, name))
		}
		return err
	})
	must(t, err)
	all := said.String()
	if at := strings.Index(all, "canary"); at >= 0 {
		t.Errorf("a secret is shown: …%s…", all[max(0, at-300):min(len(all), at+100)])
	}
	for _, sink := range []string{"log-ocsf: ", "log-ecs: ", "log-text: ", "journal: ", "toolguard.ocsf ", "toolguard.ecs ", "toolguard.text "} {
		if strings.Count(all, sink) < 5 {
			t.Errorf("%shas only got %d", sink, strings.Count(all, sink))
		}
	}
	for _, want := range []string{"curl", "AWS_SECRET_ACCESS_KEY", "who is", "refused: Bearer ***", "refused: Splunk ***"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s isn't shown either", want)
		}
	}
}

// datagrams records what a socket receives.
func datagrams(t *testing.T, into io.Writer, name string) {
	t.Helper()
	c, err := nettest.Datagrams(into, name)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
}

// everything records what it receives over TCP, and returns its address.
func everything(t *testing.T, into io.Writer) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(into, c) }()
		}
	}()
	return l.Addr().String()
}

// natsServer starts a server with a stream of all events, and returns a function that records the messages.
func natsServer(t *testing.T, token string, into io.Writer) (address string, stop func()) {
	t.Helper()
	port := freePort(t)
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true, Authorization: token})
	must(t, err)
	srv.Start()
	t.Cleanup(srv.Shutdown)
	address = fmt.Sprintf("nats://127.0.0.1:%d", port)
	if !srv.ReadyForConnections(timeout) {
		t.Fatal("the server of NATS doesn't listen")
	}
	nc, err := nats.Connect(address, nats.Token(token))
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "audit", Subjects: []string{"toolguard.>"}})
	}
	if err == nil {
		_, err = nc.Subscribe("toolguard.>", func(m *nats.Msg) { fmt.Fprintln(into, m.Subject, m.Header, string(m.Data)) })
	}
	must(t, err)
	return address, func() { _ = nc.FlushTimeout(timeout) }
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return string(text)
}
