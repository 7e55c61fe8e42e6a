package schema

import (
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// In each row the first schema accepts no more than the second one, and the second one accepts more.
func TestWithin(t *testing.T) {
	property := func(s string) string { return `{"type":"object","properties":{"p":` + s + `}}` }
	for _, row := range [][2]string{
		{`{"type":"object"}`, `{}`},
		{property(`{"type":"string"}`), property(`{}`)},
		{property(`{"type":"integer"}`), property(`{"type":"number"}`)},
		{property(`{"type":"string","maxLength":5}`), property(`{"type":"string"}`)},
		{property(`{"type":"string","minLength":5}`), property(`{"type":"string"}`)},
		{property(`{"type":"string","pattern":"^a$"}`), property(`{"type":"string"}`)},
		{property(`{"type":"string","enum":["a","b"]}`), property(`{"type":"string"}`)},
		{property(`{"enum":["a"]}`), property(`{"enum":["a","b"]}`)},
		{property(`{"enum":["a"]}`), property(`{"type":"string","pattern":"^a"}`)},
		{property(`{"type":"integer","minimum":1,"maximum":2}`), property(`{"type":"integer","minimum":1,"maximum":3}`)},
		{property(`{"type":"integer","minimum":1}`), property(`{"type":"integer","minimum":0}`)},
		{property(`{"type":"array","maxItems":1}`), property(`{"type":"array","maxItems":2}`)},
		{property(`{"type":"array","minItems":1}`), property(`{"type":"array"}`)},
		{property(`{"type":"array","items":{"type":"string"}}`), property(`{"type":"array"}`)},
		{`{"properties":{"p":{}},"required":["p"]}`, `{"properties":{"p":{}}}`},
		{`{"properties":{"p":{}}}`, `{"properties":{"p":{},"q":{}}}`},
		{`{"properties":{"p":{}}}`, `{"properties":{"p":{}},"additionalProperties":true}`},
		{`{"additionalProperties":{"type":"string"}}`, `{"additionalProperties":true}`},
	} {
		a, err := Parse([]byte(row[0]))
		childtest.Must(t, err)
		b, err := Parse([]byte(row[1]))
		childtest.Must(t, err)
		if !a.Within(b) || b.Within(a) || !a.Within(a) || !b.Within(b) {
			t.Errorf("%s, %s: %t %t %t %t", row[0], row[1], a.Within(b), b.Within(a), a.Within(a), b.Within(b))
		}
	}
	if text := Default([]string{"rg", "{p}"}); !text.Within(text) {
		t.Error("the default schema isn't within itself")
	}
}
