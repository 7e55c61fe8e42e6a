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

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
)

// TestCanaries: no secret of the guarded's, and none of the sinks', is in anything that the shipper writes: what goes to receivers, beside the header
// that is for it, its log, its state, its metrics, its command line.
func TestCanaries(t *testing.T) {
	t.Parallel()
	var heard childtest.Output // what receivers got
	var said strings.Builder   // and what goes everywhere but to them
	collect := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(&heard, "%s\n%s\n", r.URL, body)
		for name, values := range r.Header {
			if name != "Authorization" {
				fmt.Fprintln(&heard, name, values)
			}
		}
		if strings.Contains(string(body), `/refused`) && !strings.Contains(string(body), `"mechanism":"ship"`) { // and repeats what it was told
			http.Error(w, "refused: "+r.Header.Get("Authorization"), http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"ackId":0,"acks":{"0":true}}`)
	}))
	t.Cleanup(collect.Close)
	angry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "who is "+r.Header.Get("Authorization"), http.StatusForbidden)
	}))
	t.Cleanup(angry.Close)
	var sinks strings.Builder
	sinks.WriteString("metrics = 'DIR/metrics'\n")
	for _, format := range []string{"ocsf", "ecs", "text"} {
		fmt.Fprintf(&sinks, "[[sink]]\nname = 'file-%s'\ntype = 'file'\npath = 'DIR/out-%[1]s'\nformat = '%[1]s'\n", format)
		for _, kind := range []string{"webhook", "hec", "otlp"} {
			fmt.Fprintf(&sinks, "[[sink]]\nname = '%s-%s'\ntype = '%[1]s'\nformat = '%[2]s'\nurl = '%s'\ntoken_file = 'token'\n", kind, format, collect.URL)
		}
	}
	fmt.Fprintf(&sinks, "[[sink]]\nname = 'stdout'\ntype = 'stdout'\n")
	fmt.Fprintf(&sinks, "[[sink]]\nname = 'angry'\ntype = 'webhook'\nurl = '%s/hook'\ntoken_file = 'token'\n", angry.URL)
	s := newScene(t, sinks.String())
	writeFile(t, s.dir+"/token", "canary-0\n")
	s.env = []string{"CREDENTIALS_DIRECTORY=" + s.dir}

	s.happen(1, func(e *event.Event) {
		e.Process[0].Argv = []string{
			"curl", "-u", "me:canary-1", "--token", "canary-2", "API_KEY=canary-3", "-H", "Authorization: Bearer canary-4", "-H",
			"Cookie: id=canary-5", "https://me:canary-6@example.com/x?key=canary-7#canary-8", "-d", `{"password": "canary-9"}`,
		}
	})
	s.happen(1, func(e *event.Event) {
		e.Resource, e.Capability = "net", "connect"
		e.Target, e.Asked = "https://example.com:443/x?token=canary-10", "https://me:canary-11@example.com/?canary-12"
		e.Suggest, e.Extra = `host = "https://example.com/?canary-13"`, map[string]string{"why": "https://example.com/?canary-14"}
	})
	s.happen(1, func(e *event.Event) { e.Resource, e.Target, e.Kind = "env", "AWS_SECRET_ACCESS_KEY", event.Denial })
	s.happen(1, func(e *event.Event) { e.Target = "/refused" })
	cmd, end := s.start()
	s.wait("all but one have all", func() bool {
		text, _ := os.ReadFile(s.dir + "/state/state.json")
		return strings.Count(string(text), `"sequence": 5`) == 14 // the sinks', and the audit's end
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
	said.Write(metrics)
	said.WriteString(s.log.String() + heard.String())
	err := filepath.WalkDir(s.dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() != "token" {
			said.WriteString(readFile(t, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	all := said.String()
	if at := strings.Index(all, "canary"); at >= 0 {
		t.Errorf("a secret is told: …%s…", all[max(0, at-300):min(len(all), at+100)])
	}
	for _, want := range []string{"curl", "AWS_SECRET_ACCESS_KEY", "who is", "refused: Bearer ***", "refused: Splunk ***"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s isn't told either", want)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
