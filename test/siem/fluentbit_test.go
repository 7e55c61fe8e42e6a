//go:build linux

package siem

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestFluentBit checks, with the configurations of docs/sinks.md, that events during an outage of Fluent Bit are delivered
// afterwards. Fluent Bit decodes and encodes JSON in its own form.
func TestFluentBit(t *testing.T) {
	bin, err := exec.LookPath("fluent-bit")
	if err != nil {
		t.Skip("needs fluent-bit")
	}
	t.Parallel()
	pages := regexp.MustCompile("(?s)```fluent-bit\n(.*?)```").FindAllStringSubmatch(readFile(t, "../../docs/sinks.md"), -1)
	const ca, own = "\nca_file = 'DIR/ca.pem'\n", "cert_file = 'DIR/shipper.pem'\nkey_file = 'DIR/shipper.key'\n"
	for i, c := range []struct{ name, sink string }{
		{"opentelemetry", "type = 'otlp'\nurl = 'https://127.0.0.1:PORT/v1/logs'" + ca + own},
		{"splunk", "type = 'hec'\nurl = 'https://127.0.0.1:PORT'\nno_ack = true\ntoken_file = 'DIR/token'" + ca},
		{"tail", "type = 'stdout'\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			port := fmt.Sprint(freePort(t))
			s := newScene(t, "[[sink]]\nname = 'it'\n"+strings.ReplaceAll(c.sink, "PORT", port))
			certificates(t, s.dir, "cert", "shipper")
			writeFile(t, s.dir+"/token", "the-token")
			page := strings.NewReplacer("/var/lib/toolguard", s.dir, "/var/lib/fluent-bit", s.dir, "/etc/ssl/toolguard/key.pem", s.dir+"/cert.key",
				"/etc/ssl/toolguard", s.dir, "4318", port, "8088", port).Replace(pages[i][1])
			writeFile(t, s.dir+"/fluent-bit.yaml", "service: {flush: 0.2}\n"+page+"  outputs:\n    - {name: file, match: '*', path: "+s.dir+", file: got, format: plain}\n")
			start := func() (end func(os.Signal)) {
				cmd := exec.Command(bin, "-c", s.dir+"/fluent-bit.yaml")
				cmd.Stdout, cmd.Stderr = &s.log, &s.log
				return launch(t, cmd)
			}
			s.record(20)
			if c.name != "tail" {
				s.start()
			}
			end := start()
			s.checkWritten()
			end(syscall.SIGTERM)
			s.record(200)
			start()
			s.checkWritten()
		})
	}
}

// checkWritten waits until Fluent Bit has written all events, and checks their order and content.
func (s *scene) checkWritten() {
	s.t.Helper()
	want := s.lines()
	var got []any
	s.wait("Fluent Bit has all", func() bool {
		got = nil
		text, _ := os.ReadFile(filepath.Join(s.dir, "got"))
		for line := range strings.Lines(string(text)) {
			var in struct {
				Log   string // OpenTelemetry's
				Event any    // Splunk's
			}
			var e any
			if json.Unmarshal([]byte(line), &in) != nil {
				return false // it's within a line
			}
			switch {
			case in.Event != nil:
				e = in.Event
			case in.Log != "":
				line = in.Log
				fallthrough
			default:
				must(s.t, json.Unmarshal([]byte(line), &e))
			}
			got = append(got, e)
		}
		return len(got) >= len(want)
	})
	for i, line := range want {
		var e any
		must(s.t, json.Unmarshal([]byte(line), &e))
		if !reflect.DeepEqual(got[i], e) {
			s.t.Fatalf("record %d: came\n%v\nnot\n%v", i+1, got[i], e)
		}
	}
}
