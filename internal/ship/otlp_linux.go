package ship

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// otlp sends OpenTelemetry logs over HTTP as JSON (https://opentelemetry.io/docs/specs/otlp, opentelemetry-proto 1.x).
type otlp struct{ *poster }

func openOTLP(s Sink) (sender, error) {
	p, err := newPoster(s, orElse(s.Header, "Authorization"), orElse(s.Prefix, "Bearer "))
	return &otlp{p}, err
}

type (
	otlpValue struct {
		String string `json:"stringValue"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpRecord struct {
		Time       string          `json:"timeUnixNano"` // JSON numbers lack the precision
		Observed   string          `json:"observedTimeUnixNano"`
		Number     int             `json:"severityNumber"`
		Severity   string          `json:"severityText,omitempty"`
		Name       string          `json:"eventName,omitempty"`
		Body       otlpValue       `json:"body"`
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpAttributes struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpScopeLogs struct {
		Scope struct {
			Name string `json:"name"`
		} `json:"scope"`
		Records []otlpRecord `json:"logRecords"`
	}
	otlpResourceLogs struct {
		Resource otlpAttributes  `json:"resource"`
		Scopes   []otlpScopeLogs `json:"scopeLogs"`
	}
)

// otlpSeverity maps OCSF severities: INFO, INFO2, WARN, ERROR.
var otlpSeverity = map[int]struct {
	number int
	text   string
}{1: {9, "Informational"}, 2: {10, "Low"}, 3: {13, "Medium"}, 4: {17, "High"}}

func (o *otlp) send(ctx context.Context, records []record) (int, error) {
	body, err := json.Marshal(map[string][]otlpResourceLogs{"resourceLogs": {otlpLogs(records, o.sink.format.String())}})
	if err != nil {
		return 0, err
	}
	reply, err := o.post(ctx, o.sink.URL, "application/json", body, nil)
	if err != nil {
		return 0, err
	}
	var answer struct {
		Code           int // of google.rpc.Status, which isn't part of a success
		Message        string
		PartialSuccess struct {
			Rejected json.Number `json:"rejectedLogRecords"` // a string in the JSON mapping of protobuf
			Message  string      `json:"errorMessage"`
		} `json:"partialSuccess"`
	}
	if len(reply) > 0 {
		if err := json.Unmarshal(reply, &answer); err != nil {
			return 0, fmt.Errorf("the response isn't OTLP: %w", err)
		}
	}
	if answer.Code != 0 {
		return 0, fmt.Errorf("the response is 200 with error %d: %s", answer.Code, answer.Message)
	}
	if n := answer.PartialSuccess.Rejected; n != "" && n != "0" {
		return 0, &rejection{fmt.Sprintf("it rejected %s of %d: %s", n, len(records), answer.PartialSuccess.Message)} // without which
	}
	return len(records), nil
}

func otlpLogs(records []record, format string) (l otlpResourceLogs) {
	l.Resource.Attributes = otlpAttributesOf("service.name", "toolguard", "host.name", records[0].Device.Hostname)
	observed := strconv.FormatInt(time.Now().UnixNano(), 10)
	var s otlpScopeLogs
	s.Scope.Name = "toolguard"
	for _, r := range records {
		severity := otlpSeverity[r.Severity]
		s.Records = append(s.Records, otlpRecord{
			Time: strconv.FormatInt(r.Time*1e6, 10), Observed: observed, Number: severity.number, Severity: severity.text,
			Name: "toolguard." + r.Unmapped.Kind, Body: otlpValue{string(r.body)},
			Attributes: otlpAttributesOf("log.record.uid", r.uid, "session.id", r.Unmapped.Session, "toolguard.format", format),
		})
	}
	l.Scopes = []otlpScopeLogs{s}
	return l
}

// otlpAttributesOf returns attributes from alternating names and values, without empty values.
func otlpAttributesOf(pairs ...string) (list []otlpAttribute) {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			list = append(list, otlpAttribute{pairs[i], otlpValue{pairs[i+1]}})
		}
	}
	return list
}
