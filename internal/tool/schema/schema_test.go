package schema

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

func parse(t *testing.T, text string) *Schema {
	t.Helper()
	s, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return s
}

func TestSchemaMistakes(t *testing.T) {
	for text, want := range map[string]string{
		`{"type":"object","$ref":"#"}`:                                         `schema.$ref is no keyword that toolguard enforces`,
		`{"properties":{"x":{"oneOf":[]}}}`:                                    `schema.properties.x.oneOf is no keyword that toolguard enforces`,
		`{"properties":{"x":{"items":{"format":"uri"}}}}`:                      `schema.properties.x.items.format is no keyword that toolguard enforces`,
		`{"type":"array"}`:                                                     `schema.type must be "object": arguments are an object`,
		`{"type":"objekt"}`:                                                    `schema.type must be one of string, number, integer, boolean, array, object, null, not "objekt"`,
		`{"type":["object","object"]}`:                                         `schema.type must be a list of names, each once`,
		`{"type":3}`:                                                           `schema.type must be a list of names, not 3`,
		`[]`:                                                                   `the schema must be an object, not a list`,
		`{"properties":[]}`:                                                    `schema.properties must be an object, not a list`,
		`{"properties":{"x":true}}`:                                            `schema.properties.x must be an object, not true`,
		`{"required":["x"]}`:                                                   `schema.required names "x", which isn't in properties`,
		`{"properties":{"x":{"enum":[]}}}`:                                     `schema.properties.x.enum must be a list of values`,
		`{"properties":{"x":{"enum":"a"}}}`:                                    `schema.properties.x.enum must be a list of values`,
		`{"properties":{"x":{"minLength":-1}}}`:                                `schema.properties.x.minLength must be a whole number from 0, not -1`,
		`{"properties":{"x":{"minLength":"1"}}}`:                               `schema.properties.x.minLength must be a whole number from 0, not "1"`,
		`{"properties":{"x":{"minimum":"1"}}}`:                                 `schema.properties.x.minimum must be a number, not "1"`,
		`{"properties":{"x":{"minimum":2,"maximum":1}}}`:                       `schema.properties.x has a minimum that is larger than its maximum`,
		`{"properties":{"x":{"minItems":2,"maxItems":1}}}`:                     `schema.properties.x has a minimum that is larger than its maximum`,
		`{"properties":{"x":{"type":"integer","pattern":"a"}}}`:                `schema.properties.x.pattern is for the type "string", and type is "integer"`,
		`{"properties":{"x":{"type":"string","minimum":1}}}`:                   `schema.properties.x.minimum is for the type "number", and type is "string"`,
		`{"properties":{"x":{"pattern":"(?=a)"}}}`:                             "schema.properties.x.pattern is no pattern of RE2: invalid or unsupported Perl syntax: `(?=`",
		`{"properties":{"x":{"pattern":3}}}`:                                   `schema.properties.x.pattern must be a string of at most 4096 bytes`,
		`{"properties":{"x":{"pattern":"` + strings.Repeat("a", 5000) + `"}}}`: `schema.properties.x.pattern must be a string of at most 4096 bytes`,
		`{"properties":{"x":{}},"properties":{}}`:                              `the schema can't be read: not valid JSON: jsontext: duplicate object member name "properties"`,
		`{`:     `the schema can't be read: not valid JSON: `,
		`{} {}`: `the schema can't be read: there is more after its end`,
		`{} x`:  `the schema can't be read: there is more after its end`,
		strings.Repeat(`{"items":`, 300) + `{}` + strings.Repeat(`}`, 300):        `the schema can't be read: it's more than 256 levels deep`,
		`{"properties":{"x":{"pattern":"` + strings.Repeat("a", maxSchema) + `"}`: `the schema can't be read: it's larger than 256 KiB`,
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80s:\n got %v\nwant %s", text, err, want)
		}
		if e := (*Error)(nil); err != nil && !errors.As(err, &e) {
			t.Errorf("%.80s: %T", text, err)
		}
	}
}

// arguments has for each schema what it accepts ("") and what is wrong with what it rejects.
var arguments = []struct{ schema, arguments, want string }{
	{`{}`, `{}`, ""},
	{`{}`, `{"x":1}`, `the arguments may not have "x": there is none`},
	{`{}`, `[]`, `the arguments must be an object, not a list`},
	{`{}`, `{`, `the arguments can't be read: not valid JSON: `},
	{`{"properties":{"x":{}}}`, `{"x":1,"x":2}`, `the arguments can't be read: not valid JSON: jsontext: duplicate object member name "x"`},
	{`{"properties":{"x":{}}}`, `{"x":{"y":1}}`, `x may not have "y": there is none`},
	{`{"properties":{"x":{}}}`, `{"X":1}`, `the arguments may not have "X": there is x`},
	{`{"properties":{"x":{}},"additionalProperties":false}`, `{"y":1}`, `the arguments may not have "y": there is x`},
	{`{"properties":{"x":{}},"additionalProperties":true}`, `{"y":1}`, ""},
	{`{"additionalProperties":{"type":"string"}}`, `{"y":1}`, `y must be string, not 1`},
	{`{"properties":{"x":{}},"required":["x"]}`, `{}`, `the arguments must have "x"`},
	{`{"properties":{"x":{"type":"string"}}}`, `{"x":null}`, `x must be string, not null`},
	{`{"properties":{"x":{"type":["string","null"]}}}`, `{"x":null}`, ""},
	{`{"properties":{"x":{"type":"boolean"}}}`, `{"x":true}`, ""},
	{`{"properties":{"x":{"type":"boolean"}}}`, `{"x":"true"}`, `x must be boolean, not "true"`},
	{`{"properties":{"x":{"type":"integer"}}}`, `{"x":1.0}`, ""},
	{`{"properties":{"x":{"type":"integer"}}}`, `{"x":1e2}`, ""},
	{`{"properties":{"x":{"type":"integer"}}}`, `{"x":1.5}`, `x must be integer, not 1.5`},
	{`{"properties":{"x":{"type":"integer"}}}`, `{"x":"1"}`, `x must be integer, not "1"`},
	{`{"properties":{"x":{"type":"number"}}}`, `{"x":1e400}`, `x is a number that is too large`},
	{`{"properties":{"x":{"minimum":2}}}`, `{"x":1}`, `x is 1, less than 2`},
	{`{"properties":{"x":{"minimum":2}}}`, `{"x":2}`, ""},
	{`{"properties":{"x":{"type":"integer","minimum":2,"maximum":2}}}`, `{"x":2}`, ""},
	{`{"properties":{"x":{"type":"integer","minimum":2}}}`, `{"x":1}`, `x is 1, less than 2`},
	{`{"properties":{"x":{"minItems":1,"maxItems":1}}}`, `{"x":[1]}`, ""},
	{`{"properties":{"x":{"minLength":1,"maxLength":1}}}`, `{"x":"a"}`, ""},
	{`{"properties":{"x":{"enum":[[1,2]]}}}`, `{"x":[1]}`, `x must be one of the values that enum lists, not a list`},
	{`{"properties":{"x":{"enum":[[1]]}}}`, `{"x":[1,2]}`, `x must be one of the values that enum lists, not a list`},
	{`{"properties":{"x":{"enum":[[1]]}}}`, `{"x":{}}`, `x must be one of the values that enum lists, not an object`},
	{`{"properties":{"x":{"properties":{"y":{},"z":{}},"enum":[{"y":1}]}}}`, `{"x":{"z":1}}`, `x must be one of the values that enum lists, not an object`},
	{`{"properties":{"x":{"properties":{"y":{},"z":{}},"enum":[{"y":1}]}}}`, `{"x":{"y":2}}`, `x must be one of the values that enum lists, not an object`},
	{`{"properties":{"x":{"maximum":9007199254740993}}}`, `{"x":9007199254740993}`, ""},
	{`{"properties":{"x":{"maximum":9007199254740992}}}`, `{"x":9007199254740993}`, `x is 9007199254740993, more than 9007199254740992`},
	{`{"properties":{"x":{"maximum":2.5}}}`, `{"x":2.6}`, `x is 2.6, more than 2.5`},
	{`{"properties":{"x":{"minLength":2}}}`, `{"x":"ä"}`, `x has 1 characters, fewer than 2`},
	{`{"properties":{"x":{"maxLength":2}}}`, `{"x":"\ud83d\ude00ä"}`, ""},
	{`{"properties":{"x":{"maxLength":2}}}`, `{"x":"abc"}`, `x has 3 characters, more than 2`},
	{`{"properties":{"x":{"pattern":"^a+$"}}}`, `{"x":"aab"}`, `x must match ^a+$, and is "aab"`},
	{`{"properties":{"x":{"pattern":"a"}}}`, `{"x":"bab"}`, ""},
	{`{"properties":{"x":{"properties":{"y":{}},"enum":["a",1,null,{"y":[1.0]}]}}}`, `{"x":{"y":[1]}}`, ""},
	{`{"properties":{"x":{"enum":["a",1,null]}}}`, `{"x":"b"}`, `x must be "a" or 1 or null, not "b"`},
	{`{"properties":{"x":{"enum":["a","b"]}}}`, `{"x":"A"}`, `x must be "a" or "b", not "A"`},
	{`{"properties":{"x":{"items":{"type":"string"},"minItems":1,"maxItems":2}}}`, `{"x":["a","b"]}`, ""},
	{`{"properties":{"x":{"items":{"type":"string"},"minItems":1}}}`, `{"x":[]}`, `x has 0 entries, fewer than 1`},
	{`{"properties":{"x":{"maxItems":1}}}`, `{"x":[1,2]}`, `x has 2 entries, more than 1`},
	{`{"properties":{"x":{"items":{"type":"string"}}}}`, `{"x":["a",1]}`, `x[1] must be string, not 1`},
	{`{"properties":{"x":{"properties":{"y":{"items":{"maximum":1}}}}}}`, `{"x":{"y":[1,2]}}`, `x.y[1] is 2, more than 1`},
}

func TestValidate(t *testing.T) {
	for _, row := range arguments {
		err := parse(t, row.schema).Validate([]byte(row.arguments))
		if got := errorText(err); row.want == "" && got != "" || !strings.HasPrefix(got, row.want) || row.want != "" && got == "" {
			t.Errorf("%s %s:\n got %s\nwant %s", row.schema, row.arguments, got, row.want)
		}
	}
	if err := parse(t, `{"properties":{"x":{}}}`).Validate([]byte(`{"x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "}")); errorText(err) != "the arguments can't be read: it's more than 256 levels deep" {
		t.Error(err)
	}
	if err := parse(t, `{"properties":{"x":{}}}`).Validate([]byte(`{"x":"` + strings.Repeat("a", maxArguments) + `"}`)); errorText(err) != "the arguments can't be read: it's larger than 8192 KiB" {
		t.Error(err)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// closed adds the default of additionalProperties, which JSON Schema hasn't, to each schema within v.
func closed(v any) any {
	schema, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if schema["additionalProperties"] == nil {
		schema["additionalProperties"] = false
	}
	schema["additionalProperties"] = closed(schema["additionalProperties"])
	if schema["items"] != nil {
		schema["items"] = closed(schema["items"])
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name := range properties {
			properties[name] = closed(properties[name])
		}
	}
	return schema
}

// A complete implementation of JSON Schema accepts what Validate accepts, and no other arguments. It compares numbers as floats, and
// keeps the last of two equal keys.
func FuzzValidate(f *testing.F) {
	for _, row := range arguments {
		f.Add(row.schema, row.arguments)
	}
	f.Fuzz(func(t *testing.T, text, arguments string) {
		s, err := Parse([]byte(text))
		if err != nil {
			return
		}
		got := s.Validate([]byte(arguments))
		var plain any
		if json.Unmarshal([]byte(text), &plain) != nil || strings.Contains(arguments+text, "9007199254740") {
			return
		}
		wide, err := json.Marshal(closed(plain))
		var schema jsonschema.Schema
		if err != nil || json.Unmarshal(wide, &schema) != nil {
			return
		}
		resolved, err := schema.Resolve(nil)
		if err != nil {
			return
		}
		var v map[string]any
		if json.Unmarshal([]byte(arguments), &v) != nil || v == nil || strings.Contains(errorText(got), "can't be read") {
			return
		}
		if want := resolved.Validate(v); (got == nil) != (want == nil) {
			t.Errorf("%s %s: got %v, and jsonschema-go %v", text, arguments, got, want)
		}
	})
}

func TestArgv(t *testing.T) {
	const any = `{"additionalProperties":true}`
	for _, row := range []struct{ schema, command, arguments, want string }{
		{"", "rg -n -- {pattern} data", `{"pattern":"-x y"}`, "rg|-n|--|-x y|data"},
		{"", "rg {pattern}", `{"pattern":"x"}`, "rg|x"},
		{"", "rg {pattern}", `{"pattern":""}`, "rg|"},
		{"", "rg {pattern}", `{"pattern":"-x"}`, `error: pattern begins with "-", and the command has no element "--" before it: it would be an option`},
		{"", "rg {pattern} --", `{"pattern":"-x"}`, `error: pattern begins with "-", and the command has no element "--" before it: it would be an option`},
		{"", "rg {a} {b}", `{"a":"--","b":"-x"}`, `error: a begins with "-", and the command has no element "--" before it: it would be an option`},
		{"", "rg {pattern}", `{"pattern":1}`, `error: pattern must be string, not 1`},
		{"", "rg {pattern}", `{}`, `error: the arguments must have "pattern"`},
		{"", "rg {pattern}", `{"pattern":"x","y":1}`, `error: the arguments may not have "y": there is pattern`},
		{"", "rg {pattern}", `{"pattern":"` + strings.Repeat("ä", 2049) + `"}`, `error: pattern has 4098 bytes, more than 4096`},
		{"", "rg {pattern}", `{"pattern":"` + strings.Repeat("a", 4096) + `"}`, "rg|" + strings.Repeat("a", 4096)},
		{"", "rg {pattern}", `{"pattern":"a\u0000b"}`, `error: pattern has a NUL byte, which no command line can have`},
		{"", "rg -- {p*} end", `{"p":["a","-b"]}`, "rg|--|a|-b|end"},
		{"", "rg {p*} end", `{"p":["a","-b"]}`, `error: p begins with "-", and the command has no element "--" before it: it would be an option`},
		{"", "rg {p*} end", `{"p":"a"}`, `error: p must be array, not "a"`},
		{"", "rg {p*} end", `{"p":[1]}`, `error: p[0] must be string, not 1`},
		{"", "rg {p} {p}", `{"p":"{q}"}`, "rg|{q}|{q}"},
		{any, "rg {p*} end", `{}`, "rg|end"},
		{any, "rg {p} end", `{}`, `error: the arguments must have "p", which the command needs`},
		{any, "rg {p} {q} {r}", `{"p":1.50,"q":true,"r":false}`, "rg|1.50|true|false"},
		{any, "rg {p}", `{"p":-1}`, `error: p begins with "-", and the command has no element "--" before it: it would be an option`},
		{any, "rg {p}", `{"p":null}`, `error: p is null, which can't be an element of a command line`},
		{any, "rg {p}", `{"p":["x"]}`, `error: p is a list, which can't be an element of a command line`},
		{any, "rg {p*}", `{"p":[["x"]]}`, `error: p is a list, which can't be an element of a command line`},
		{any, "rg {p*}", `{"p":"x"}`, `error: p must be a list, not "x"`},
		{any, "rg {} {*} x{p}", `{"p":"x"}`, "rg|{}|{*}|x{p}"},
	} {
		command := strings.Fields(row.command)
		s := Default(command)
		if row.schema != "" {
			s = parse(t, row.schema)
		}
		argv, err := s.Argv(command, []byte(row.arguments))
		got := strings.Join(argv, "|")
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != row.want {
			t.Errorf("%s %s:\n got %s\nwant %s", row.command, row.arguments, got, row.want)
		}
	}
	if got := parse(t, `{"properties":{"b":{},"a":{}}}`).Properties(); !slices.Equal(got, []string{"b", "a"}) {
		t.Error(got)
	}
}
