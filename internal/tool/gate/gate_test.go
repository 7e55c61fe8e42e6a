package gate

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// Each reading that a tool could have of a path.
func TestReadings(t *testing.T) {
	for _, row := range []struct{ written, want, why string }{
		{"src/a", "src/a", ""},
		{"/etc/passwd", "/etc/passwd", ""},
		{" /etc/passwd\n", " /etc/passwd\n|/etc/passwd", ""},
		{"~", "~|/home/u", ""},
		{"~/x", "~/x|/home/u/x", ""},
		{"$HOME/x", "$HOME/x|/home/u/x", ""},
		{"${HOME}/x", "${HOME}/x|/home/u/x", ""},
		{"~root/x", "", "another user's home"},
		{"a~b", "a~b", ""},
		{"~root/a b", "", "another user's home"},
		{"{../x,y}", "", "a pattern"},
		{"app/[id]/(group)/*.ts", "app/[id]/(group)/*.ts", ""},
		{"$HOMES/x", "", "a variable"},
		{"a/${X}", "", "a variable"},
		{"a$5", "a$5", ""},
		{"file:///etc/passwd", "file:///etc/passwd|/etc/passwd", ""},
		{"FILE:///etc/passwd", "FILE:///etc/passwd|/etc/passwd", ""},
		{"file://localhost/etc/passwd", "file://localhost/etc/passwd|/etc/passwd", ""},
		{"file:/etc/passwd", "file:/etc/passwd|/etc/passwd", ""},
		{"file://../x", "file://../x|../x", ""},
		{"file://host/x", "", "another machine"},
		{"%2e%2e/x", "%2e%2e/x|../x", ""},
		{"100%/%2e", "100%/%2e|100%/.", ""},
		{"%252e%252e/x", "%252e%252e/x|%2e%2e/x|../x", ""},
		{"%7e/x", "%7e/x|~/x|/home/u/x", ""},
		{`\\host\share`, "", "network folder"},
	} {
		list, why := readings(row.written, "/home/u")
		if got := strings.Join(list, "|"); got != row.want || row.why == "" != (why == "") || !strings.Contains(why, row.why) {
			t.Errorf("%q: %q, %q; want %q", row.written, got, why, row.want)
		}
	}
	if _, why := readings("~/x", ""); !strings.Contains(why, "home that isn't known") {
		t.Error(why)
	}
	if list, why := readings("%"+strings.Repeat("25", 20)+"2e", "/home/u"); len(list) > maxReadings || why == "" {
		t.Errorf("%q, %q", list, why)
	}
}

func TestParse(t *testing.T) {
	good := `{"id":"1","tool":"Read","arguments":{"a":1},"source":"builtin","agent":"x","provider":"p","model":"m","group":"g","session":"s","invocation":"i","cwd":"sub","owner":true,"depth":2}`
	c, _, err := Parse([]byte(good))
	if err != nil || c.Tool != "Read" || !c.Owner || c.Depth != 2 || c.Model != "m" || string(c.Arguments) != `{"a":1}` {
		t.Errorf("%+v, %v", c, err)
	}
	for text, want := range map[string][3]string{
		`{"id":"1","tool":"mcp__fs__read","arguments":{}}`:         {"mcp__fs__read", "fs", "read"},
		`{"id":"1","tool":"read","source":"mcp","arguments":{}}`:   {"mcp__server__read", "server", "read"},
		`{"id":"1","tool":"mcp__a__b__c","arguments":{}}`:          {"mcp__a__b__c", "a", "b__c"},
		`{"id":"1","tool":"read","source":"local","arguments":{}}`: {"read", "", ""},
	} {
		if c, _, err := Parse([]byte(text)); err != nil || [3]string{c.Tool, c.Server, c.Bare} != want {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
	for text, want := range map[string]string{
		``:    "not valid JSON",
		`[]`:  "no object",
		`"x"`: "no object",
		`{"id":"1","tool":"a","arguments":{}} {}`:                              "more after its end",
		`{"id":"1","tool":"a","arguments":{},"id":"2"}`:                        "duplicate",
		`{"id":"1","tool":"a","arguments":{"x":1,"x":2}}`:                      "duplicate",
		`{"id":"1","tool":"a","Tool":"b","arguments":{}}`:                      "differ in case alone",
		`{"tool":"a","arguments":{}}`:                                          "no id",
		`{"id":"1","arguments":{}}`:                                            "names no tool",
		`{"id":"1","tool":"a"}`:                                                "arguments is no object",
		`{"id":"1","tool":"a","arguments":[]}`:                                 "arguments is no object",
		`{"id":"1","tool":"a","arguments":"{}"}`:                               "arguments is no object",
		`{"id":1,"tool":"a","arguments":{}}`:                                   "id has the wrong type",
		`{"id":"1","tool":"a","arguments":{},"depth":-1}`:                      "depth is negative",
		`{"id":"1","tool":"a","arguments":{},"depth":1.5}`:                     "depth has the wrong type",
		`{"id":"1","tool":"a","arguments":{},"model":"m"}`:                     "without its provider",
		`{"id":"1","tool":"a","arguments":{},"owner":"yes"}`:                   "owner has the wrong type",
		`{"id":"1","tool":"a","arguments":{},"source":"plugin"}`:               "source is",
		`{"id":"1","tool":"a","arguments":{},"cwd":"a\u0000"}`:                 "NUL",
		`{"id":"1","tool":"mcp__x","arguments":{}}`:                            "mcp__SERVER__TOOL",
		`{"id":"1","tool":"a","arguments":{},"toool":"b"}`:                     `no key "toool"`,
		`{"id":"` + strings.Repeat("x", 300) + `","tool":"a"}`:                 "longer than 256",
		`{"id":"1","tool":"a","arguments":{"x":"` + "\xff" + `"}}`:             "invalid UTF-8",
		strings.Repeat(`{"a":`, 300) + "1" + strings.Repeat("}", 300):          "more than 256 levels",
		`{"id":"1","tool":"a","arguments":{"x":"` + strings.Repeat("x", 8<<20): "larger than 8 MiB",
	} {
		if _, _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
}

func TestParseTelemetry(t *testing.T) {
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for traceparent, ok := range map[string]bool{
		"00-" + trace + "-" + parent + "-01":                             true,
		"cc-" + trace + "-" + parent + "-00":                             true,
		"cc-" + trace + "-" + parent + "-00-what-comes.later":            true,
		"00-" + trace + "-" + parent + "-00-more":                        false,
		"cc-" + trace + "-" + parent + "-00.more":                        false,
		"cc-" + trace + "-" + parent + "-00-\\u0007":                     false,
		"cc-" + trace + "-" + parent + "-00-ü":                           false,
		"cc-" + trace + "-" + parent + "-00-" + strings.Repeat("x", 256): false,
		"ff-" + trace + "-" + parent + "-01":                             false,
		"00-" + strings.Repeat("0", 32) + "-" + parent + "-01":           false,
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01":            false,
		"00-" + strings.ToUpper(trace) + "-" + parent + "-01":            false,
		"00-" + trace + parent + "--01":                                  false,
		"00-" + trace + "-" + parent + "-0":                              false,
		"00-" + trace + "-" + parent[1:] + "--01":                        false,
		"x": false,
	} {
		c, _, err := Parse([]byte(`{"id":"1","tool":"a","arguments":{},"tool_use_id":"toolu_1","traceparent":"` + traceparent + `"}`))
		if (err == nil) != ok || ok && (c.Traceparent != traceparent || c.ToolUseID != "toolu_1") || !ok && !strings.Contains(err.Error(), "traceparent isn't") {
			t.Errorf("%s: %+v, %v", traceparent, c, err)
		}
	}
	_, _, err := Parse([]byte(`{"id":"1","tool":"a","arguments":{},"tool_use_id":"` + strings.Repeat("x", 257) + `"}`))
	if err == nil || !strings.Contains(err.Error(), "tool_use_id is longer than 256") {
		t.Error(err)
	}
}

func TestParseEnd(t *testing.T) {
	for text, want := range map[string]End{
		`{"id":"1","invocation":"i","result":{"x":[1]}}`:          {"1", "i", true},
		`{"id":"1","invocation":"i","error":"x","duration_ms":5}`: {"1", "i", false},
	} {
		if c, e, err := Parse([]byte(text)); err != nil || c != nil || *e != want {
			t.Errorf("%s: %+v, %v, %v", text, c, e, err)
		}
	}
	for text, want := range map[string]string{
		`{"id":"1","result":1}`:                                 "needs its id and its invocation",
		`{"invocation":"i","result":1}`:                         "needs its id and its invocation",
		`{"id":"1","invocation":"i","result":1,"arguments":{}}`: `no key "arguments"`,
		`{"id":"1","invocation":"i","result":1,"error":2}`:      "no key",
		`{"id":"1","tool":"a","arguments":{},"result":1}`:       `no key "result"`,
		`{"id":1,"invocation":"i","result":1}`:                  "id has the wrong type",
	} {
		if _, _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Roles reach into what is nested, names are compared in any case, and a list of words is one command.
func TestValues(t *testing.T) {
	roles := map[string]string{"path": rolePath, "paths": rolePath, "cmd": roleCommand, "cwd": roleCwd, "note": roleText}
	w, err := values(json.RawMessage(`{"PATH":"a","paths":["b",{"x":"c","path":"d"},["e"]],"edits":[{"old":"f","Path":"g"}],
		"cmd":["ls","-l"],"in":{"cwd":"sub","cmd":"pwd"},"note":{"path":"n","deep":"m"},"n":1,"path2":null,"cmd2":"k"}`), roles)
	childtest.Must(t, err)
	var got []string
	for _, v := range w.values {
		s := v.role + "=" + v.text + strings.Join(v.list, ",")
		if dirs := v.in.dirs(); dirs != nil {
			s += "@" + strings.Join(dirs, ",")
		}
		got = append(got, s)
	}
	want := []string{"path=a", "path=b", "path=c", "path=d", "path=e", "=f", "path=g", "command=ls,-l", "cwd=sub@sub", "command=pwd@sub", "path=n", "text=m", "=k"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if w, err := values(json.RawMessage(`{"path":5,"cmd":[1,"a"],"note":3,"n":4}`), roles); err != nil || !slices.Equal(w.odd, []string{"path", "cmd"}) {
		t.Errorf("%q, %v", w.odd, err)
	}
	if _, err := values(json.RawMessage(`{"path":["`+strings.Repeat(`a","`, maxValues)+`"]}`), roles); err != errTooMany {
		t.Error(err)
	}
}
