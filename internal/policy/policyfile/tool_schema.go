package policyfile

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
	"github.com/toolguard/toolguard/internal/tool/schema"
)

// ArgumentSchema is the value of `schema` of a local tool: the name of a file, or a JSON Schema written as a table.
type ArgumentSchema struct {
	File     string          // relative to the policy's folder; "" for a table
	JSON     json.RawMessage // nil for a file that wasn't read yet
	Names    []string        // of the properties
	Position policy.Position
}

func (a *ArgumentSchema) decode(d *decoder, n *tomltree.Node) {
	a.Position = d.position(n.Off)
	switch n.Kind {
	case tomltree.String:
		a.File, _ = d.text(n)
	case tomltree.Table:
		value, ok := d.plain(n)
		if !ok {
			return
		}
		text, err := json.Marshal(value)
		if err != nil {
			d.fail(n.Off, "", "the schema is no JSON: %v", err)
			return
		}
		a.JSON = text
		d.checkSchema(n, text)
		if props := n.Get("properties"); props != nil {
			for _, e := range props.Node.Keys {
				a.Names = append(a.Names, e.Name)
			}
		}
	default:
		d.wrong(n, "the name of a file, or a table", "")
	}
}

// checkSchema reports what is wrong with an inline schema, at the key that is wrong.
func (d *decoder) checkSchema(n *tomltree.Node, text []byte) {
	_, err := schema.Parse(text)
	if err == nil {
		return
	}
	off := n.Off
	if e := (*schema.Error)(nil); errors.As(err, &e) {
		for _, key := range e.Path {
			entry := n.Get(key)
			if entry == nil {
				break
			}
			n, off = entry.Node, entry.Off
		}
	}
	d.fail(off, "", "%v", err)
}

// plain converts a value of TOML to the one of JSON.
func (d *decoder) plain(n *tomltree.Node) (value any, ok bool) {
	switch n.Kind {
	case tomltree.String:
		return n.Text, true
	case tomltree.Bool:
		return n.Bool, true
	case tomltree.Integer:
		return n.Int, true
	case tomltree.Float:
		if f, err := strconv.ParseFloat(n.Text, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, true
		}
	case tomltree.Array:
		list := make([]any, len(n.Items))
		for i, item := range n.Items {
			if list[i], ok = d.plain(item); !ok {
				return nil, false
			}
		}
		return list, true
	case tomltree.Table:
		table := make(map[string]any, len(n.Keys))
		for _, e := range n.Keys {
			if table[e.Name], ok = d.plain(e.Node); !ok {
				return nil, false
			}
		}
		return table, true
	}
	d.wrong(n, "a value that JSON has", "")
	return nil, false
}
