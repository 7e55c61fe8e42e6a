package event

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// requirement is one that OCSF 1.8 publishes, as a path into the event. A path with "|" needs one of the
// alternatives. For the base they hold always, for objects where the object is there.
type requirement struct {
	object string // where: "" is the event itself
	always bool
	needs  string
}

var base = []requirement{
	{"", true, "activity_id"},
	{"", true, "category_uid"},
	{"", true, "class_uid"},
	{"", true, "type_uid"},
	{"", true, "severity_id"},
	{"", true, "time"},
	{"", true, "metadata"},
	{"metadata", true, "product"},
	{"metadata", true, "version"},
	{"metadata.product", true, "name|uid"},
	// the security_control profile
	{"", true, "action_id"},
	{"", true, "disposition_id"},
	{"policy", false, "name|uid|type"},
}

var ofClass = map[int][]requirement{
	1001: append([]requirement{{"", true, "actor"}, {"", true, "device"}, {"", true, "file"}, {"file", true, "name"}, {"file", true, "type_id"}}, local...),
	1007: append([]requirement{{"", true, "actor"}, {"", true, "device"}, {"", true, "process"}, {"process", true, "pid|uid|cpid"}}, local...),
	4001: append([]requirement{
		{"", true, "dst_endpoint|src_endpoint"},
		{"dst_endpoint", false, endpointNeeds},
		{"src_endpoint", false, endpointNeeds},
		{"connection_info", false, "direction_id"},
	}, local...),
	6003: append([]requirement{
		{"", true, "actor"},
		{"", true, "api"},
		{"api", true, "operation"},
		{"", true, "src_endpoint"},
		{"src_endpoint", true, endpointNeeds},
	}, local...),
}

const endpointNeeds = "ip|uid|name|hostname|svc_name|instance_uid|interface_uid|interface_name|domain"

// local are those of objects that several classes have.
var local = []requirement{
	{"actor", false, "process|user|session|app_name|app_uid|invoked_by"},
	{"actor.process", false, "pid|uid|cpid"},
	{"actor.process.parent_process", false, "pid|uid|cpid"},
	{"actor.process.file", false, "name"},
	{"actor.process.file", false, "type_id"},
	{"actor.user", false, "account|name|uid"},
	{"actor.process.user", false, "account|name|uid"},
	{"process.file", false, "name"},
	{"process.file", false, "type_id"},
	{"process.parent_process", false, "pid|uid|cpid"},
	{"device", false, "type_id"},
}

// activities are the ids that each class knows, besides 0 and 99.
var activities = map[int]int{1001: 14, 1007: 5, 4001: 7, 6003: 4}

func TestRequiredFields(t *testing.T) {
	seen := map[int]bool{}
	for name, e := range samples() {
		var got map[string]any
		if err := json.Unmarshal(OCSF.Append(nil, &e), &got); err != nil {
			t.Fatal(err)
		}
		class, activity := int(got["class_uid"].(float64)), int(got["activity_id"].(float64))
		seen[class] = true
		if got["category_uid"] != float64(class/1000) || got["type_uid"] != float64(class*100+activity) {
			t.Errorf("%s: class %d, category %v, type %v", name, class, got["category_uid"], got["type_uid"])
		}
		if (activity < 1 || activity > activities[class]) && (activity != 99 || got["activity_name"] == nil) {
			t.Errorf("%s: activity %d of class %d", name, activity, class)
		}
		for _, r := range append(ofClass[class], base...) {
			if err := r.check(got); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if len(seen) != len(ofClass) {
		t.Errorf("the samples have classes %v only", seen)
	}
}

func (r requirement) check(event map[string]any) error {
	at := event
	for _, k := range strings.FieldsFunc(r.object, func(c rune) bool { return c == '.' }) {
		next, ok := at[k].(map[string]any)
		if !ok && r.always {
			return fmt.Errorf("no %s", r.object)
		}
		if !ok {
			return nil
		}
		at = next
	}
	for _, k := range strings.Split(r.needs, "|") {
		if v, ok := at[k]; ok && v != "" {
			return nil
		}
	}
	return fmt.Errorf("%q has no %s", r.object, r.needs)
}

// everything is an event that has every field.
func everything() Event {
	return with(denial("fs", "read", "TARGET"), func(e *Event) {
		e.UID, e.Boot, e.Host, e.Version, e.Session, e.Tool, e.Agent, e.Mode = "UID", "BOOT", "HOST", "VERSION", "SESSION", "TOOL", "AGENT", "MODE"
		e.Policy, e.Digest, e.Authority, e.Rule, e.Place, e.Reason, e.Suggest = "POLICY", "DIGEST", "AUTHORITY", "RULE", "PLACE", "REASON", "SUGGEST"
		e.Asked, e.Cgroup, e.Mechanism, e.Errno = "ASKED", "CGROUP", "MECHANISM", "ERRNO"
		e.Degraded, e.Extra = []string{"DEGRADED"}, map[string]string{"k": "EXTRA"}
		e.Previous = "PREVIOUS"
		e.Sequence, e.Count, e.First = 987001, 987002, time.UnixMilli(987014)
		e.Exit = &Exit{Code: 987003, Signal: 987004, Wall: 987005e6, User: 987006e6, System: 987007e6, MaxRSS: 987008, Denials: 987009, Leftover: 987010}
		e.Process = []Process{{PID: 987011, UID: 987012, Exe: "/x/EXE", Comm: "COMM", Argv: []string{"ARGV"}, Start: at}, {PID: 987013}}
	})
}

// TestEverythingIsTold: no field of an event is left out of the JSON.
func TestEverythingIsTold(t *testing.T) {
	e := everything()
	line := string(OCSF.Append(nil, &e))
	for _, v := range []string{
		"UID", "BOOT", "HOST", "VERSION", "SESSION", "TOOL", "AGENT", "MODE", "POLICY", "DIGEST", "AUTHORITY", "RULE", "PLACE", "REASON",
		"SUGGEST", "TARGET", "ASKED", "CGROUP", "MECHANISM", "ERRNO", "DEGRADED", "EXTRA", "PREVIOUS", "/x/EXE", "COMM", "ARGV",
	} {
		if !strings.Contains(line, `"`+v+`"`) {
			t.Errorf("no %s in %s", v, line)
		}
	}
	for n := 987001; n <= 987014; n++ {
		if !strings.Contains(line, fmt.Sprint(n)) {
			t.Errorf("no %d in %s", n, line)
		}
	}
}
