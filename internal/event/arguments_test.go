package event

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// secretArguments are arguments of calls in which hunter2 is a secret and shown isn't.
const secretArguments = `{"command":"shown; curl -u me:hunter2 https://h"}
{"command":"export API_TOKEN=hunter2; shown"}
{"command":"mysql","args":["-phunter2","shown"]}
{"command":"docker login","args":["-u","shown","-p","hunter2"]}
{"shown":["--password","hunter2"]}
{"argv":["mysql","shown","-phunter2"]}
{"url":"https://shown/x?key=hunter2"}
{"url":"https://me:hunter2@shown/x"}
{"headers":{"Authorization":"hunter2","Accept":"shown"}}
{"headers":["Authorization: Bearer hunter2","Accept: shown"]}
{"headers":[{"name":"X-Api-Key","value":"hunter2"},{"name":"Accept","value":"shown"}]}
{"env":{"AWS_SECRET_ACCESS_KEY":"hunter2","LANG":"shown"}}
{"env":[{"key":"DB_PASSWORD","value":"hunter2"},{"key":"LANG","value":"shown"}]}
{"accessToken":"hunter2","shown":1}
{"apiKey":["hunter2"],"shown":1}
{"password":{"old":"hunter2"},"shown":1}
{"dbPwd":"hunter2","pwd":"shown"}
{"text":"shown\npassword: hunter2"}
{"shown":[[[{"secret":"hunter2"}]]]}
{"content":"shown {\"client_secret\": \"hunter2\"}"}
{"token=hunter2":"shown"}
{"name":"shown","password":"hunter2"}`

func TestRedactArguments(t *testing.T) {
	for line := range strings.Lines(secretArguments) {
		e := ToolDenied(&Call{ID: "1", Tool: "x", Arguments: []byte(line)}, "rule_denies", "x")
		if !strings.Contains(e.Extra["arguments"], "hunter2") {
			t.Errorf("%s is lost before it's masked: %s", line, e.Extra["arguments"])
		}
		out := e.Clean()
		got := out.Extra["arguments"]
		if strings.Contains(got, "hunter2") || !strings.Contains(got, "shown") || !json.Valid([]byte(got)) {
			t.Errorf("%s became %s", line, got)
		}
	}
	for _, plain := range []string{
		`{"path":"src/list","pattern":"^x","count":3,"deep":{"a":[1,true,null,{}],"b":[]}}`,
		`{"command":"git commit -m 'add a list'","description":"token parser","password":null}`,
		`{"args":["a","-p","b"],"keyboard":"de","tokenizer":"x"}`,
		`[]`, `"x"`, `1e400`,
	} {
		if got := redactArguments(plain); got != plain {
			t.Errorf("%s became %s", plain, got)
		}
	}
	for _, broken := range []string{`{"password":"hunter2"`, `{"password":"hunter2"}}`, `password=hunter2`} {
		if got := redactArguments(broken); strings.Contains(got, "hunter2") {
			t.Errorf("%s became %s", broken, got)
		}
	}
}

// Everything else of an event about a call is masked, too.
func TestRedactCall(t *testing.T) {
	e := ToolDenied(&Call{ID: "sk-hunter2hunter2hunter2", Tool: "x"}, "rule_denies", "access denied: connect on https://me:hunter2@h/")
	e.Suggest = "[[access.net]]\nhost = \"https://me:hunter2@h\"\n"
	g := GrantRequested(&GrantRequest{
		ID: "1", Resource: "net", Capability: "connect", Target: "h/?x=hunter2", Argv: []string{"x", "--token=hunter2"}, Why: "password=hunter2",
	})
	for _, e := range []Event{e, g} {
		clean := e.Clean()
		line := string(OCSF.Append(nil, &clean))
		if strings.Contains(line, "hunter2") || !strings.Contains(line, mask) {
			t.Error(line)
		}
	}
}

// Arguments are bounded, and are JSON afterwards, too.
func TestBoundArguments(t *testing.T) {
	long := strings.Repeat("word ", 1<<20)
	for name, text := range map[string]string{
		"one string":    `{"content":` + fmt.Sprintf("%q", long) + `,"shown":1}`,
		"controls":      `{"content":"` + strings.Repeat(`\u0001`, 2000) + `"}`,
		"one name":      `{` + fmt.Sprintf("%q", long) + `:1}`,
		"members":       `{` + strings.Repeat(`"a":1,`, 1<<16) + `"b":1}`,
		"items":         `{"x":[` + strings.Repeat(`1,`, 1<<16) + `1]}`,
		"strings":       `{"x":[` + strings.Repeat(`"xxxxxxxxxxxxxxxxxxxx",`, 1<<12) + `1]}`,
		"levels":        `{"x":` + strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000) + `}`,
		"wide levels":   strings.Repeat(`{"`+strings.Repeat("k", 250)+`":`, 200) + `1` + strings.Repeat(`}`, 200),
		"a long number": `{"x":` + strings.Repeat("1", 9000) + `}`,
	} {
		e := ToolDenied(&Call{ID: "1", Tool: "x", Arguments: []byte(text)}, "rule_denies", "x")
		got := e.Extra["arguments"]
		out := e.Clean()
		for _, got := range []string{got, out.Extra["arguments"]} {
			if !json.Valid([]byte(got)) || len(got) > maxText || !strings.Contains(got, "…") {
				t.Errorf("%s: %d bytes: %.100s … %s", name, len(got), got, got[max(0, len(got)-100):])
			}
		}
	}
	if got := boundArguments([]byte(long)); len(got) > maxText {
		t.Errorf("%d bytes of no JSON", len(got))
	}
	whole := `{"a":"` + strings.Repeat("x", maxArgumentText) + `","b":[1,{"c":"ü"}]}`
	if got := boundArguments([]byte(whole)); got != whole {
		t.Errorf("%s became %s", whole, got)
	}
}

func FuzzArguments(f *testing.F) {
	for line := range strings.Lines(secretArguments) {
		f.Add([]byte(line))
	}
	f.Add([]byte(`{"a":{"b":[1,"\ud800","\u0000",{"":""}]}} x`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got := boundArguments(text)
		if json.Valid(text) && !json.Valid([]byte(got)) || len(got) > maxText {
			t.Errorf("%q became %q", text, got)
		}
		if clean := redactArguments(got); json.Valid([]byte(got)) && !json.Valid([]byte(clean)) {
			t.Errorf("%q became %q", got, clean)
		}
	})
}
