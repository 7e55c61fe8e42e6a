// Package catalog reads the list of tools that a host or an MCP server offers to a model, and writes it without some of them.
//
// A list has one of the shapes that MCP, OpenAI, Anthropic and Gemini use, or is a plain list of names. The output has the same
// shape. Tools that stay are not changed, byte for byte, except that Flatten rewrites schemas.
//
// # Threats
//
// Lists come from outside. JSON that two readers could understand differently is rejected: a key that is given twice, text that isn't
// UTF-8, and in the list's object and in those of tools keys that differ in case alone. Size and depth are bounded. An entry whose name can't be read is
// an error, so that a tool can't stay in the list unseen.
package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/toolguard/toolguard/internal/tool/strictjson"
)

// MaxSize is the size of the largest list, in bytes.
const MaxSize = 16 << 20

// Tool is one tool of a List.
type Tool struct {
	Name      string
	OwnerOnly bool // the list itself marks it so
	MCP       bool // an MCP server offers it
	raw       json.RawMessage
	nested    string // the key under which the tool's own object is: "function" for OpenAI; "" for the entry itself
}

// List is a parsed list.
type List struct {
	Tools   []Tool
	outer   []strictjson.Member // the object around the list, in its order; nil for a bare list
	key     string              // of the list in the object
	entries []entry
}

// entry is one element of the list. Gemini's may have several tools.
type entry struct {
	object       map[string]json.RawMessage
	declarations bool
	first, count int // its tools
}

// The keys that the list has in an object, by shape.
const (
	keyTools        = "tools"
	keyDeclarations = "functionDeclarations"
)

// Parse reads a list.
func Parse(text []byte) (*List, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("the list of tools is larger than %d MiB", MaxSize>>20)
	}
	if err := strictjson.Check(text); err != nil {
		return nil, fmt.Errorf("the list of tools: %w", err)
	}
	l := new(List)
	text = bytes.TrimSpace(text)
	tools := json.RawMessage(text)
	if jsontext.Value(text).Kind() == '{' {
		var err error
		if l.outer, err = strictjson.Members(text); err != nil {
			return nil, fmt.Errorf("the list of tools: %w", err)
		}
		i := slices.IndexFunc(l.outer, func(m strictjson.Member) bool { return m.Key == keyTools })
		if i < 0 {
			i = slices.IndexFunc(l.outer, func(m strictjson.Member) bool { return m.Key == keyDeclarations })
		}
		if i < 0 {
			return nil, errors.New("the list of tools is an object without tools or functionDeclarations")
		}
		l.key, tools = l.outer[i].Key, l.outer[i].Value
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(tools, &entries); err != nil {
		return nil, errors.New("the list of tools is no list: it's a tools/list result of MCP, the tools of OpenAI or Anthropic, Gemini's functionDeclarations, or a list of objects with a name")
	}
	return l, l.read(entries)
}

// read takes the entries of the list apart.
func (l *List) read(entries []json.RawMessage) error {
	for i, raw := range entries {
		e := entry{first: len(l.Tools)}
		if json.Unmarshal(raw, &e.object) != nil {
			return fmt.Errorf("tool %d of the list is no object", i+1)
		}
		tools := []json.RawMessage{raw}
		if e.declarations = e.object[keyDeclarations] != nil && e.object["name"] == nil; e.declarations {
			if json.Unmarshal(e.object[keyDeclarations], &tools) != nil || len(e.object) > 1 {
				return fmt.Errorf("entry %d of the list has more than a list of functionDeclarations", i+1)
			}
		}
		for _, raw := range tools {
			t, err := parseTool(raw, i)
			if err != nil {
				return err
			}
			l.Tools = append(l.Tools, t)
		}
		e.count = len(tools)
		l.entries = append(l.entries, e)
	}
	return nil
}

// parseTool reads one tool of entry i.
func parseTool(raw json.RawMessage, i int) (t Tool, err error) {
	e, err := strictjson.Object(raw)
	if err != nil {
		return t, fmt.Errorf("tool %d of the list: %w", i+1, err)
	}
	if e[keyTools] != nil || e[keyDeclarations] != nil {
		return t, fmt.Errorf("tool %d of the list has further tools within it", i+1)
	}
	t.raw, t.MCP = raw, e["inputSchema"] != nil // the shape of MCP
	own := e
	if e["name"] == nil && e["function"] != nil {
		t.nested = "function"
		if own, err = strictjson.Object(e["function"]); err != nil {
			return t, fmt.Errorf("the function of tool %d: %w", i+1, err)
		}
	}
	if json.Unmarshal(own["name"], &t.Name) != nil {
		if t.Name = hosted(e); t.Name == "" || own["name"] != nil {
			return t, fmt.Errorf("tool %d of the list has no name", i+1)
		}
	}
	var source string
	if s := e["source"]; s != nil {
		if json.Unmarshal(s, &source) != nil {
			return t, fmt.Errorf("the source of tool %d is no text", i+1)
		}
		t.MCP = source == "mcp"
	}
	if s := e["owner_only"]; s != nil && json.Unmarshal(s, &t.OwnerOnly) != nil {
		return t, fmt.Errorf("owner_only of tool %d is neither true nor false", i+1)
	}
	return t, nil
}

// hosted is the name of a tool that the model's provider runs: OpenAI's have a type alone ({"type":"web_search"}), Gemini's a key alone
// ({"googleSearch":{}}). It's "" for any other tool.
func hosted(e map[string]json.RawMessage) (name string) {
	if kind := e["type"]; kind != nil {
		if json.Unmarshal(kind, &name) != nil || name == "function" {
			return ""
		}
		return name
	}
	if len(e) == 1 {
		for name = range e {
		}
	}
	return name
}

// Filter writes the list with the tools for which keep is true, in the shape that it came in.
func (l *List) Filter(keep []bool) []byte {
	var kept [][]byte
	for _, e := range l.entries {
		var tools [][]byte
		for i := e.first; i < e.first+e.count; i++ {
			if keep[i] {
				tools = append(tools, l.Tools[i].raw)
			}
		}
		if !e.declarations {
			kept = append(kept, tools...)
		} else if len(tools) > 0 { // Gemini rejects an empty list
			kept = append(kept, fmt.Appendf(nil, "{%q:%s}", keyDeclarations, list(tools)))
		}
	}
	if l.outer == nil {
		return list(kept)
	}
	out := []byte{'{'}
	for i, m := range l.outer {
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, m.Key) // which was valid UTF-8 when it was read
		out = append(out, ':')
		if m.Key == l.key {
			out = append(out, list(kept)...)
		} else {
			out = append(out, m.Value...)
		}
	}
	return append(out, '}')
}

func list(items [][]byte) []byte {
	return slices.Concat([]byte{'['}, bytes.Join(items, []byte{','}), []byte{']'})
}
