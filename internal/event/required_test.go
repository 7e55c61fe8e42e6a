package event

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// schema is the published schema of the OCSF classes and objects that events use, with their profiles: in
// testdata/ocsf-1.8.0.json security_control and host, in testdata/ocsf-1.9.0.json also ai_operation and record_integrity.
type schema struct{ Classes, Objects map[string]schemaObject }

type schemaObject struct {
	Required   []string
	AtLeastOne []string `json:"at_least_one"`
	Attributes map[string]struct {
		Object string
		Array  bool // of them
		Enum   []float64
	}
}

func loadSchema(t *testing.T, version string) (s schema) {
	t.Helper()
	text, err := os.ReadFile("testdata/ocsf-" + version + ".json")
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	must(t, err)
	return s
}

// check returns how an object deviates from the schema, at any depth. The members of unmapped are toolguard's own.
func (s schema) check(prefix string, is schemaObject, got map[string]any) (wrong []string) {
	has := func(k string) bool { v, ok := got[k]; return ok && v != "" }
	for _, k := range is.Required {
		if !has(k) {
			wrong = append(wrong, prefix+k+" is required")
		}
	}
	if len(is.AtLeastOne) > 0 && !slices.ContainsFunc(is.AtLeastOne, has) {
		wrong = append(wrong, fmt.Sprintf("%sone of %v is required", prefix, is.AtLeastOne))
	}
	for k, v := range got {
		attribute, known := is.Attributes[k]
		number, isNumber := v.(float64)
		list, isArray := v.([]any)
		if !isArray {
			list = []any{v}
		}
		switch {
		case !known:
			wrong = append(wrong, prefix+k+" isn't in the schema")
		case attribute.Enum != nil && (!isNumber || !slices.Contains(attribute.Enum, number)):
			wrong = append(wrong, fmt.Sprintf("%s%s is %v", prefix, k, v))
		case attribute.Enum != nil && number == 99 && !has(strings.TrimSuffix(k, "_id")) && !has(strings.TrimSuffix(k, "_id")+"_name"):
			wrong = append(wrong, prefix+k+" is other, without a name")
		case attribute.Object != "" && isArray != attribute.Array:
			wrong = append(wrong, fmt.Sprintf("%s%s is an array: %v", prefix, k, isArray))
		case attribute.Object != "":
			for _, v := range list {
				in, isObject := v.(map[string]any)
				if !isObject {
					wrong = append(wrong, prefix+k+" is no object")
				}
				wrong = append(wrong, s.check(prefix+k+".", s.Objects[attribute.Object], in)...)
			}
		}
	}
	return wrong
}

// TestPublishedSchema checks that every event has the attributes that OCSF requires and no unknown ones.
func TestPublishedSchema(t *testing.T) {
	all := samples()
	all["everything"] = fullEvent()
	all["first"] = with(fullEvent(), func(e *Event) { e.Previous = Genesis })
	for version, c := range map[string]struct {
		format   Format
		profiles string
	}{
		"1.8.0": {OCSF18, "[security_control host]"},
		"1.9.0": {OCSF, "[security_control host ai_operation record_integrity]"},
	} {
		s, seen := loadSchema(t, version), map[string]bool{}
		for name, e := range all {
			e.Host = first(e.Host, "box") // which a Stream always knows
			var got map[string]any
			must(t, json.Unmarshal(c.format.Append(nil, &e), &got))
			class, activity := got["class_uid"].(float64), got["activity_id"].(float64)
			is, ok := s.Classes[fmt.Sprint(class)]
			if !ok || got["category_uid"] != math.Floor(class/1000) || got["type_uid"] != class*100+activity {
				t.Errorf("%s: class %v, category %v, type %v", name, class, got["category_uid"], got["type_uid"])
			}
			seen[fmt.Sprint(class)] = true
			for _, k := range []string{"action_id", "disposition_id"} { // what the profile is for
				if _, ok := got[k]; !ok {
					t.Errorf("%s: no %s", name, k)
				}
			}
			metadata := got["metadata"].(map[string]any)
			profiles := fmt.Sprint(metadata["profiles"])
			if metadata["version"] != version || e.Agent != "" && e.Previous != "" && profiles != c.profiles {
				t.Errorf("%s: version %v, profiles %s", name, metadata["version"], profiles)
			}
			for profile, attribute := range map[string]string{"ai_operation": "ai_agent", "record_integrity": "attestation_list"} {
				if _, has := got[attribute]; has && !strings.Contains(profiles, profile) {
					t.Errorf("%s: %s, and the profiles %s", name, attribute, profiles)
				}
			}
			for _, wrong := range s.check("", is, got) {
				t.Errorf("%s: %s", name, wrong)
			}
		}
		if len(seen) != len(s.Classes) {
			t.Errorf("the samples have classes %v only", seen)
		}
	}
}

// TestSchemaCheck checks that check finds deviations.
func TestSchemaCheck(t *testing.T) {
	s := loadSchema(t, "1.9.0")
	for change, want := range map[string]string{
		`"file":{"name":"x","type_id":0}`:            "",
		`"file":{"name":"x"}`:                        "file.type_id is required",
		`"file":{"name":"","type_id":0}`:             "file.name is required",
		`"file":{"name":"x","type_id":9}`:            "file.type_id is 9",
		`"file":{"name":"x","type_id":99}`:           "file.type_id is other",
		`"file":{"name":"x","type_id":0,"colour":1}`: "file.colour isn't in the schema",
		`"file":"x"`: "file is no object",
		`"file":{"name":"x","type_id":0},"policy":{}`:             "policy.one of [name type uid]",
		`"file":{"name":"x","type_id":0},"action_id":5`:           "action_id is 5",
		`"file":{"name":"x","type_id":0},"severity_id":"3"`:       "severity_id is 3",
		`"file":{"name":"x","type_id":0},"attestation_list":[{}]`: "attestation_list.one of [fingerprint signatures]",
		`"file":{"name":"x","type_id":0},"attestation_list":{}`:   "attestation_list is an array: false",
		`"file":[{"name":"x","type_id":0}]`:                       "file is an array: true",
	} {
		var got map[string]any
		text := `{"activity_id":1,"category_uid":1,"class_uid":1001,"type_uid":100101,"severity_id":1,"time":1,"actor":{"app_name":"x"},` +
			`"device":{"type_id":0,"hostname":"x"},"metadata":{"version":"1.9.0","product":{"name":"x"}},` + change + "}"
		must(t, json.Unmarshal([]byte(text), &got))
		if wrong := strings.Join(s.check("", s.Classes["1001"], got), "; "); !strings.Contains(wrong, want) || want == "" && wrong != "" {
			t.Errorf("%s: %q, want %q", change, wrong, want)
		}
	}
}

// fullEvent is an event that has every field.
func fullEvent() Event {
	return with(denial("fs", "read", "TARGET"), func(e *Event) {
		e.UID, e.Boot, e.Host, e.Version, e.Session, e.Owner, e.Tool, e.Agent, e.Mode = "UID", "BOOT", "HOST", "VERSION", "SESSION", "OWNER", "TOOL", "AGENT", "MODE"
		e.Policy, e.Digest, e.Authority, e.Rule, e.Place, e.Reason, e.Suggest = "POLICY", "DIGEST", "AUTHORITY", "RULE", "PLACE", "REASON", "SUGGEST"
		e.Asked, e.Cgroup, e.Mechanism, e.Errno = "ASKED", "CGROUP", "MECHANISM", "ERRNO"
		e.Removed = []string{"REMOVED"}
		e.Degraded, e.Extra = []string{"DEGRADED"}, map[string]string{"k": "EXTRA"}
		e.Previous = "PREVIOUS"
		e.Sequence, e.Count, e.First, e.Execs = 987001, 987002, time.UnixMilli(987014), 987015
		e.Exit = &Exit{Code: 987003, Signal: 987004, Wall: 987005e6, User: 987006e6, System: 987007e6, MaxRSS: 987008, Denials: 987009, Orphans: 987010}
		e.Exit.Usage = &Usage{CPU: new(uint64(987016)), Memory: new(uint64(987017)), Read: new(uint64(987018)), Written: new(uint64(987019)), Missing: "MISSING"}
		e.Process = []Process{{PID: 987011, UID: 987012, Exe: "/x/EXE", Comm: "COMM", Argv: []string{"ARGV"}, Start: at}, {PID: 987013}}
	})
}

// TestOCSFHasEveryField checks that OCSF has every field of an event.
func TestOCSFHasEveryField(t *testing.T) {
	e := fullEvent()
	checkEveryField(t, string(OCSF.Append(nil, &e)))
}

func checkEveryField(t *testing.T, line string) {
	t.Helper()
	for _, v := range []string{
		"UID", "BOOT", "HOST", "VERSION", "SESSION", "OWNER", "TOOL", "AGENT", "MODE", "POLICY", "DIGEST", "AUTHORITY", "RULE", "PLACE", "REASON",
		"SUGGEST", "TARGET", "ASKED", "CGROUP", "MECHANISM", "ERRNO", "DEGRADED", "EXTRA", "PREVIOUS", "/x/EXE", "COMM", "REMOVED", "ARGV", "MISSING",
	} {
		if !strings.Contains(line, `"`+v+`"`) {
			t.Errorf("no %s in %s", v, line)
		}
	}
	for n := 987001; n <= 987019; n++ {
		if !strings.Contains(line, fmt.Sprint(n)) {
			t.Errorf("no %d in %s", n, line)
		}
	}
}
