package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// Each shape comes out as it came in, without the tool b, byte for byte.
func TestShapes(t *testing.T) {
	for name, row := range map[string]struct{ in, names, want string }{
		"plain":     {`[{"name":"a","source":"mcp"}, {"name":"b"},{"name":"c", "owner_only":true}]`, "a b c", `[{"name":"a","source":"mcp"},{"name":"c", "owner_only":true}]`},
		"MCP":       {`{"nextCursor":"x","tools":[{"name":"a","inputSchema":{"x":"<&>\u00e9"}},{"name":"b","inputSchema":{}}],"_meta":{"z":1,"a":2}}`, "a b", `{"nextCursor":"x","tools":[{"name":"a","inputSchema":{"x":"<&>\u00e9"}}],"_meta":{"z":1,"a":2}}`},
		"OpenAI":    {`[{"type":"function","function":{"name":"a","parameters":{}}},{"type":"function","function":{"name":"b"}},{"type":"web_search"}]`, "a b web_search", `[{"type":"function","function":{"name":"a","parameters":{}}},{"type":"web_search"}]`},
		"responses": {`{"model":"m","tools":[{"type":"function","name":"a"},{"type":"function","name":"b"}]}`, "a b", `{"model":"m","tools":[{"type":"function","name":"a"}]}`},
		"Anthropic": {`[{"name":"a","input_schema":{"type":"object"}},{"name":"b","input_schema":{}}]`, "a b", `[{"name":"a","input_schema":{"type":"object"}}]`},
		"Gemini": {
			`{"tools":[{"functionDeclarations":[{"name":"a"},{"name":"b"}]},{"functionDeclarations":[{"name":"b"}]},{"googleSearch":{}}]}`, "a b b googleSearch",
			`{"tools":[{"functionDeclarations":[{"name":"a"}]},{"googleSearch":{}}]}`,
		},
		"declarations": {`{"functionDeclarations":[{"name":"a"},{"name":"b"}]}`, "a b", `{"functionDeclarations":[{"name":"a"}]}`},
		"nothing":      {` [] `, "", `[]`},
		"nothing left": {`{"tools":[{"name":"b"}]}`, "b", `{"tools":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Parse([]byte(row.in))
			childtest.Must(t, err)
			var names []string
			keep := make([]bool, len(l.Tools))
			for i, x := range l.Tools {
				names, keep[i] = append(names, x.Name), x.Name != "b"
			}
			if got := strings.Join(names, " "); got != row.names {
				t.Errorf("names %q, want %q", got, row.names)
			}
			if got := string(l.Filter(keep)); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestMarks(t *testing.T) {
	l, err := Parse([]byte(`[{"name":"a","source":"mcp"},{"name":"b","owner_only":true},{"name":"c","inputSchema":{}},{"name":"d","source":"builtin","owner_only":false}]`))
	childtest.Must(t, err)
	for i, want := range []Tool{{Name: "a", MCP: true}, {Name: "b", OwnerOnly: true}, {Name: "c", MCP: true}, {Name: "d"}} {
		if got := l.Tools[i]; got.Name != want.Name || got.MCP != want.MCP || got.OwnerOnly != want.OwnerOnly {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

// What two readers could read differently is rejected, and what is too large.
func TestRejected(t *testing.T) {
	for name, row := range map[string]struct{ in, want string }{
		"empty":                      {"", "not valid JSON"},
		"cut off":                    {`[{"name":"a"`, "not valid JSON"},
		"a key twice":                {`[{"name":"a","name":"b"}]`, "duplicate"},
		"a key twice, deep":          {`[{"name":"a","x":{"y":1,"y":2}}]`, "duplicate"},
		"keys by case":               {`{"tools":[],"Tools":[{"name":"a"}]}`, `the keys "tools" and "Tools" differ in case alone`},
		"not UTF-8":                  {"[{\"name\":\"a\xff\"}]", "invalid UTF-8"},
		"two values":                 {`[] []`, "there is more after its end"},
		"no list":                    {`{"tools":{"name":"a"}}`, "is no list"},
		"another object":             {`{"name":"a"}`, "without tools or functionDeclarations"},
		"a text":                     {`"a"`, "is no list"},
		"no name":                    {`[{"name":"a"},{"description":"x","y":1}]`, "tool 2 of the list has no name"},
		"a function's name":          {`[{"type":"function","function":{}}]`, "tool 1 of the list has no name"},
		"a name that's a number":     {`[{"name":1}]`, "tool 1 of the list has no name"},
		"no object":                  {`["a"]`, "tool 1 of the list is no object"},
		"keys of a tool by case":     {`[{"name":"read","Name":"exec"}]`, `the keys "name" and "Name" differ in case alone`},
		"keys of a function by case": {`[{"type":"function","function":{"name":"read","NAME":"exec"}}]`, "differ in case alone"},
		"tools within a tool":        {`[{"name":"a","tools":[{"name":"exec"}]}]`, "tool 1 of the list has further tools within it"},
		"owner_only":                 {`[{"name":"a","owner_only":"no"}]`, "neither true nor false"},
		"source":                     {`[{"name":"a","source":1}]`, "the source of tool 1"},
		"declarations and more":      {`[{"functionDeclarations":[{"name":"a"}],"codeExecution":{}}]`, "more than a list of functionDeclarations"},
		"deep":                       {strings.Repeat("[", 300) + strings.Repeat("]", 300), "more than 256 levels deep"},
		"large":                      {`[{"name":"` + strings.Repeat("a", MaxSize) + `"}]`, "larger than 16 MiB"},
	} {
		if _, err := Parse([]byte(row.in)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %s", name, err, row.want)
		}
	}
}

// OpenAI's schemas have no union at their root, and lose no property.
func TestFlatten(t *testing.T) {
	for name, row := range map[string]struct{ in, want string }{
		"no union": {`{"type":"object","properties":{"a":{}},"additionalProperties":false}`, `{"type":"object","properties":{"a":{}},"additionalProperties":false}`},
		"anyOf": {
			`{"anyOf":[{"properties":{"a":{"type":"string"},"k":{"const":"x"}},"required":["a","k"]},{"properties":{"b":{},"k":{"const":"y"}},"required":["k"]}],"description":"d"}`,
			`{"description":"d","properties":{"a":{"type":"string"},"b":{},"k":{"anyOf":[{"const":"x"},{"const":"y"}]}},"required":["k"],"type":"object"}`,
		},
		"three": {
			`{"oneOf":[{"properties":{"k":{"const":1}}},{"properties":{"k":{"const":2}}},{"properties":{"k":{"const":1}}}]}`,
			`{"properties":{"k":{"anyOf":[{"const":1},{"const":2}]}},"type":"object"}`,
		},
		"allOf, and own properties": {
			`{"properties":{"o":{}},"required":["o"],"additionalProperties":false,"allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}}}]}`,
			`{"properties":{"a":{},"b":{},"o":{}},"required":["o","a"],"type":"object"}`,
		},
		"nested, by reference": {
			`{"anyOf":[{"$ref":"#/$defs/x"},{"anyOf":[{"properties":{"b":{}}},{"properties":{"c":{}}}]}],"$defs":{"x":{"properties":{"a":{}}}}}`,
			`{"$defs":{"x":{"properties":{"a":{}}}},"properties":{"a":{},"b":{},"c":{}},"type":"object"}`,
		},
		"a reference to itself": {`{"$ref":"#/$defs/x","$defs":{"x":{"anyOf":[{"$ref":"#/$defs/x"},{"properties":{"a":{}}}]}}}`, `{"$defs":{"x":{"anyOf":[{"$ref":"#/$defs/x"},{"properties":{"a":{}}}]}},"properties":{"a":{}},"type":"object"}`},
	} {
		for shape, wrap := range map[string]string{
			"OpenAI": `[{"type":"function","function":{"name":"n","parameters":SCHEMA}}]`, "MCP": `[{"inputSchema":SCHEMA,"name":"n"}]`, "Anthropic": `[{"input_schema":SCHEMA,"name":"n"}]`,
		} {
			l, err := Parse([]byte(strings.Replace(wrap, "SCHEMA", row.in, 1)))
			childtest.Must(t, err)
			childtest.Must(t, l.Flatten())
			got, want := l.Filter([]bool{true}), strings.Replace(wrap, "SCHEMA", row.want, 1)
			if normal(t, string(got)) != normal(t, want) {
				t.Errorf("%s, %s:\n got %s\nwant %s", name, shape, got, want)
			}
		}
	}
}

func normal(t *testing.T, s string) string {
	t.Helper()
	var v any
	childtest.Must(t, json.Unmarshal([]byte(s), &v))
	out, err := json.Marshal(v)
	childtest.Must(t, err)
	return string(out)
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"tools":[{"name":"a","inputSchema":{"anyOf":[{},{"$ref":"#/x"}]}}]}`, `[{"functionDeclarations":[{"name":"b"}]}]`, `[{"type":"x"}]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := Parse(text)
		if err != nil {
			return
		}
		keep := make([]bool, len(l.Tools))
		for i := range keep {
			keep[i] = true
		}
		again, err := Parse(l.Filter(keep))
		if err != nil || len(again.Tools) != len(l.Tools) {
			t.Errorf("%s -> %s: %v", text, l.Filter(keep), err)
		}
		if err := l.Flatten(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if none, err := Parse(l.Filter(make([]bool, len(l.Tools)))); err != nil || len(none.Tools) != 0 {
			t.Errorf("%s: %v, %v", text, none, err)
		}
	})
}
