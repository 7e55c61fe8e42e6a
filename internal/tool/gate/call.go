package gate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/strictjson"
)

// MaxCall is the size of the largest call, in bytes.
const MaxCall = 8 << 20

// maxID is the length of the longest id of a call, of an invocation, and of a trace context, in bytes.
const maxID = 256

// Call is a tool call.
type Call struct {
	ID        string
	Tool      string // its full name: mcp__SERVER__TOOL where an MCP server offers it
	Server    string // of an MCP server's tool; else ""
	Bare      string // the name that the server gave it; else ""
	Arguments json.RawMessage

	Agent, Provider, Model, Group string // the caller; "" where the host names none

	Session, Invocation string
	Cwd                 string // "" for the workspace
	Owner               bool
	Depth               int

	Traceparent string // the W3C trace context of the call in its host's telemetry; ""
	ToolUseID   string // the host's own id of the call; ""
}

// End is the report that a call has ended.
type End struct {
	ID, Invocation string
	OK             bool // without an error
}

// BadCall is the error of a text that is no call.
type BadCall struct{ Err error }

func (b *BadCall) Error() string { return "not a tool call: " + b.Err.Error() }

// Parse reads a call, or the report that one has ended, which has a result or an error and no tool. One of the two is nil. The error is
// a *BadCall.
func Parse(text []byte) (*Call, *End, error) {
	c, e, err := parse(text)
	if err != nil {
		return nil, nil, &BadCall{err}
	}
	return c, e, nil
}

func parse(text []byte) (*Call, *End, error) {
	if len(text) > MaxCall {
		return nil, nil, fmt.Errorf("the call is larger than %d MiB", MaxCall>>20)
	}
	if err := strictjson.Check(text); err != nil {
		return nil, nil, err
	}
	keys, err := strictjson.Object(text)
	if err != nil {
		return nil, nil, err
	}
	_, tool := keys["tool"]
	_, result := keys["result"]
	_, failed := keys["error"]
	if !tool && result != failed {
		e, err := parseEnd(keys, failed)
		return nil, e, err
	}
	c, err := parseCall(keys)
	return c, nil, err
}

// parseEnd reads the report of a call's end. What the result is doesn't matter.
func parseEnd(keys map[string]json.RawMessage, failed bool) (*End, error) {
	e := &End{OK: !failed}
	for key, value := range keys {
		field, ok := map[string]*string{"id": &e.ID, "invocation": &e.Invocation}[key]
		switch {
		case ok && json.Unmarshal(value, field) != nil:
			return nil, fmt.Errorf("%s has the wrong type", key)
		case !ok && key != "result" && key != "error" && key != "duration_ms":
			return nil, fmt.Errorf("the end of a call has no key %q", key)
		}
	}
	if e.ID == "" || e.Invocation == "" {
		return nil, errors.New("the end of a call needs its id and its invocation")
	}
	return e, nil
}

func parseCall(keys map[string]json.RawMessage) (*Call, error) {
	c := new(Call)
	fields := map[string]any{
		"id": &c.ID, "tool": &c.Tool, "arguments": &c.Arguments, "agent": &c.Agent, "provider": &c.Provider, "model": &c.Model,
		"group": &c.Group, "session": &c.Session, "invocation": &c.Invocation, "cwd": &c.Cwd, "owner": &c.Owner, "depth": &c.Depth,
		"traceparent": &c.Traceparent, "tool_use_id": &c.ToolUseID,
	}
	var source string
	fields["source"] = &source
	for key, value := range keys {
		field, ok := fields[key]
		if !ok {
			return nil, fmt.Errorf("a call has no key %q", key)
		}
		if string(value) == "null" {
			continue // as if it weren't there
		}
		if json.Unmarshal(value, field) != nil {
			return nil, fmt.Errorf("%s has the wrong type", key)
		}
	}
	return c, c.check(source)
}

func (c *Call) check(source string) error {
	for _, x := range []struct{ name, value string }{{"id", c.ID}, {"invocation", c.Invocation}, {"tool_use_id", c.ToolUseID}} {
		if len(x.value) > maxID {
			return fmt.Errorf("%s is longer than %d bytes", x.name, maxID)
		}
	}
	switch {
	case c.ID == "":
		return errors.New("the call has no id")
	case c.Tool == "":
		return errors.New("the call names no tool")
	case len(c.Arguments) == 0 || c.Arguments[0] != '{':
		return errors.New("arguments is no object")
	case c.Depth < 0:
		return errors.New("depth is negative")
	case c.Model != "" && c.Provider == "":
		return errors.New("a model without its provider")
	case strings.IndexByte(c.Cwd, 0) >= 0:
		return errors.New("cwd has a NUL byte")
	case c.Traceparent != "" && !isTraceparent(c.Traceparent):
		return errors.New("traceparent isn't of the form of W3C: 00-TRACE-PARENT-FLAGS, in lower-case hexadecimal")
	}
	return c.name(source)
}

// isTraceparent reports whether a text is a trace context (https://www.w3.org/TR/trace-context/): a version other than ff, a trace and a
// parent that aren't zero, and flags. Later versions may have more after a further dash.
func isTraceparent(s string) bool {
	const end = len("00-") + 32 + len("-") + 16 + len("-01")
	if len(s) < end || len(s) > maxID || len(s) > end && (s[:2] == "00" || s[end] != '-') {
		return false
	}
	for i := range len(s[:end]) {
		dash := i == 2 || i == 35 || i == 52
		if dash != (s[i] == '-') || !dash && !strings.Contains("0123456789abcdef", s[i:i+1]) {
			return false
		}
	}
	for _, r := range s[end:] {
		if r <= ' ' || r >= 0x7f {
			return false
		}
	}
	return s[:2] != "ff" && strings.Trim(s[3:35], "0") != "" && strings.Trim(s[36:52], "0") != ""
}

// defaultServer is the name of an MCP server whose host names none.
const defaultServer = "server"

// name finds the MCP server that offers the tool, by the source and the name that its host gives.
func (c *Call) name(source string) error {
	switch source {
	case "", "local", "mcp", "builtin":
	default:
		return fmt.Errorf("source is %q, and not local, mcp or builtin", source)
	}
	if rest, ok := strings.CutPrefix(toolset.Normal(c.Tool), "mcp__"); ok { // in any spelling that the policy's patterns match
		server, tool, ok := strings.Cut(rest, "__")
		if !ok || server == "" || tool == "" {
			return errors.New("the name of an MCP server's tool is mcp__SERVER__TOOL")
		}
		c.Server, c.Bare = server, tool
	} else if source == "mcp" {
		c.Server, c.Bare, c.Tool = defaultServer, c.Tool, "mcp__"+defaultServer+"__"+c.Tool
	}
	return nil
}
