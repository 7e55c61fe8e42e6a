//go:build linux

package siem

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.uber.org/zap"

	"github.com/toolguard/toolguard/internal/event"
)

// collector is the OpenTelemetry collector's receiver with a pipeline that fails intermittently.
type collector struct {
	mu    sync.Mutex
	well  bool // it doesn't fail any more
	asked int
	kept  []string
	wrong []string
}

func (c *collector) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// ConsumeLogs stores the records, or fails: every third time temporarily, and permanently for one record.
func (c *collector) ConsumeLogs(_ context.Context, logs plog.Logs) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.asked%3 == 2 && !c.well {
		return errors.New("no space for it now")
	}
	scope := logs.ResourceLogs().At(0).ScopeLogs().At(0)
	name, _ := logs.ResourceLogs().At(0).Resource().Attributes().Get("service.name")
	for _, r := range scope.LogRecords().All() {
		if strings.Contains(r.Body().Str(), "rejected") && !strings.Contains(r.Body().Str(), `"mechanism":"ship"`) {
			return consumererror.NewPermanent(errors.New("rejected"))
		}
	}
	for _, r := range scope.LogRecords().All() {
		uid, _ := r.Attributes().Get("log.record.uid")
		session, _ := r.Attributes().Get("session.id")
		format, _ := r.Attributes().Get("toolguard.format")
		number := map[string]plog.SeverityNumber{"toolguard.denial": plog.SeverityNumberWarn, "toolguard.checkpoint": plog.SeverityNumberInfo, "toolguard.gap": plog.SeverityNumberError}
		if !strings.Contains(r.Body().Str(), `"uid":"`+uid.Str()+`"`) || r.SeverityNumber() != number[r.EventName()] || r.Timestamp() == 0 ||
			name.Str() != "toolguard" || format.Str() != "ocsf" || r.EventName() == "toolguard.denial" && session.Str() != "s1" {
			c.wrong = append(c.wrong, fmt.Sprint(r.EventName(), " ", r.SeverityNumber(), " ", uid.Str(), " ", r.Body().Str()))
		}
		c.kept = append(c.kept, r.Body().Str())
	}
	return nil
}

func (c *collector) got() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.kept...)
}

// start has the collector listen until the returned function is called.
func (c *collector) start(t *testing.T, address string) (stop func()) {
	t.Helper()
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	cfg.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]()
	http := cfg.Protocols.HTTP.GetOrInsertDefault()
	http.ServerConfig.NetAddr.Endpoint = address
	set := receiver.Settings{ID: component.NewID(factory.Type()), TelemetrySettings: componenttest.NewNopTelemetrySettings()}
	set.Logger = zap.NewNop()
	r, err := factory.CreateLogs(t.Context(), set, cfg, c)
	must(t, err)
	must(t, r.Start(t.Context(), componenttest.NewNopHost()))
	return func() { _ = r.Shutdown(context.Background()) }
}

// TestCollector checks that a collector that fails intermittently, is restarted and rejects one event has all the others, and a gap
// for that one.
func TestCollector(t *testing.T) {
	t.Parallel()
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	s := newScene(t, "[[sink]]\nname = 'otel'\ntype = 'otlp'\nurl = 'http://"+address+"/v1/logs'\nbatch = 20\n")
	c := &collector{}
	stop := c.start(t, address)
	s.record(30)
	s.start()
	s.delivered()
	s.arrived(c.got)
	stop()
	s.record(30)
	t.Cleanup(c.start(t, address))
	s.delivered()
	s.arrived(c.got)

	c.mu.Lock()
	c.well = true
	c.mu.Unlock()
	before := len(s.lines())
	s.record(5)
	s.record(1, func(e *event.Event) { e.Target = "/rejected" })
	s.record(5)
	s.delivered()
	in, wrong := once(c.got())
	want := s.lines()
	for i, line := range want {
		rejected := strings.Contains(line, "/rejected")
		if i >= len(in) || (in[i] == line) == rejected || rejected && (i < before || !strings.Contains(in[i], "was rejected by sink otel")) {
			t.Fatalf("record %d: %s", i+1, line)
		}
	}
	if wrong != nil || len(c.wrong) > 0 {
		t.Error(wrong, c.wrong)
	}
}
