package event

import (
	"encoding/json"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// ecsFields are the fields of ECS 9.4.0 in the sets that events use, with their types: testdata/ecs-9.4.0.txt.
func ecsFields(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("testdata/ecs-9.4.0.txt")
	must(t, err)
	fields := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		fields[words[0]] = words[1:]
	}
	return fields
}

// ecsTypes are the types that ECS expects in each category that events have.
var ecsTypes = map[string][]string{
	"api":           {"access", "admin", "allowed", "change", "creation", "deletion", "denied", "end", "info", "start", "user"},
	"configuration": {"access", "change", "creation", "deletion", "info"},
	"file":          {"access", "change", "creation", "deletion", "info"},
	"network":       {"access", "allowed", "connection", "denied", "end", "info", "protocol", "start"},
	"process":       {"access", "change", "end", "info", "start"},
	"session":       {"start", "end", "info"},
}

// hasType reports whether a value has a type of ECS.
func hasType(v any, is []string) bool {
	if list, ok := v.([]any); ok {
		return slices.Contains(is, "array") && !slices.ContainsFunc(list, func(v any) bool { return !hasType(v, is[:1]) })
	}
	text, isText := v.(string)
	switch is[0] {
	case "long":
		_, ok := v.(float64)
		return ok
	case "date":
		_, err := time.Parse(time.RFC3339, text)
		return err == nil
	case "ip":
		return net.ParseIP(text) != nil
	}
	return isText && text != "" && !slices.Contains(is, "array")
}

// leaves calls visit with the path of each member that is no object.
func leaves(prefix string, o map[string]any, visit func(string, any)) {
	for k, v := range o {
		if in, ok := v.(map[string]any); ok {
			leaves(prefix+k+".", in, visit)
			continue
		}
		visit(prefix+k, v)
	}
}

// TestECSFields checks that every field outside toolguard is one of ECS and has its type.
func TestECSFields(t *testing.T) {
	fields := ecsFields(t)
	all := samples()
	all["everything"] = fullEvent()
	for name, e := range all {
		var got struct {
			Event struct {
				Kind, Outcome  string
				Category, Type []string
			}
		}
		var whole map[string]any
		text := ECS.Append(nil, &e)
		must(t, json.Unmarshal(text, &got))
		must(t, json.Unmarshal(text, &whole))
		delete(whole, "toolguard")
		leaves("", whole, func(field string, v any) {
			if is := fields[field]; is == nil || !hasType(v, is) {
				t.Errorf("%s: %s is %v: %v", name, field, v, is)
			}
		})
		for _, c := range got.Event.Category {
			for _, kind := range got.Event.Type {
				if !slices.Contains(ecsTypes[c], kind) {
					t.Errorf("%s: type %s in category %s", name, kind, c)
				}
			}
		}
		if got.Event.Kind != "event" || len(got.Event.Category) == 0 || len(got.Event.Type) == 0 ||
			!slices.Contains([]string{"success", "failure", "unknown"}, got.Event.Outcome) {
			t.Errorf("%s: %+v", name, got.Event)
		}
	}
}

// TestECSHasEveryField checks that ECS has every field of an event.
func TestECSHasEveryField(t *testing.T) {
	e := fullEvent()
	checkEveryField(t, strings.Replace(string(ECS.Append(nil, &e)), timestamp(e.First), "987014", 1)) // a date
}

func TestParse(t *testing.T) {
	all := samples()
	all["everything"] = fullEvent()
	all["arguments"] = with(denial("fs", "read", "/x"), func(e *Event) {
		e.Process = []Process{{PID: 1, UID: 0, Argv: []string{"sh", "-c", `a "b" \ c`, "", "…", "x\ny"}}}
	})
	all["first"] = with(fullEvent(), func(e *Event) { e.Previous = Genesis })
	all["one is missing"] = Event{Kind: Gap, Count: 1}
	for name, e := range all {
		for _, version := range []Format{OCSF, OCSF18} {
			line := version.Append(nil, &e)
			back, err := Parse(line)
			if err != nil {
				t.Fatalf("%s, %v: %v", name, version, err)
			}
			for _, f := range Formats {
				if got, want := string(f.Append(nil, &back)), string(f.Append(nil, &e)); got != want {
					t.Errorf("%s, %v, %v:\n%s\nwant\n%s", name, version, f, got, want)
				}
				if got, want := f.PassesThrough(line), f == version || f == OCSF; got != want {
					t.Errorf("%s, %v: %v passes it through: %v", name, version, f, got)
				}
			}
			if at := LineTime(line); at != e.Time.UnixMilli() {
				t.Errorf("%s, %v: time %d", name, version, at)
			}
		}
	}
	for _, text := range []string{"", "{}", "x", `{"time":1,"unmapped":{}}`, `{"time":"1"}`} {
		if e, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, e)
		}
	}
	for _, text := range []string{"", `{"time":`, `{"time":12`, `{"time":x,`, `{"tim":1,`} {
		if at := LineTime([]byte(text)); at != -1 {
			t.Errorf("%q: time %d", text, at)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, e := range samples() {
		f.Add(OCSF.Append(nil, &e))
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		if e, err := Parse(text); err == nil {
			Text.Append(nil, &e)
		}
	})
}
