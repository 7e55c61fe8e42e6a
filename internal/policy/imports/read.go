package imports

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

// Limits of a file's content.
const (
	maxDepth  = 64
	maxValues = 100_000
)

var (
	errDepth  = fmt.Errorf("values are nested more than %d deep", maxDepth)
	errValues = fmt.Errorf("it has more than %d values", maxValues)
	errObject = errors.New("the outermost value isn't a table")
	errUTF8   = errors.New("it isn't UTF-8")
)

func readTOML(src []byte) (map[string]any, error) {
	root, err := tomltree.Parse(src)
	if err != nil {
		return nil, fmt.Errorf("line %d: %s", 1+bytes.Count(src[:err.Off], []byte("\n")), err.Msg)
	}
	m, _ := tomlValue(root).(map[string]any)
	return m, nil
}

func tomlValue(n *tomltree.Node) any {
	switch n.Kind {
	case tomltree.Table:
		m := make(map[string]any, len(n.Keys))
		for _, e := range n.Keys {
			m[e.Name] = tomlValue(e.Node)
		}
		return m
	case tomltree.Array:
		list := make([]any, len(n.Items))
		for i, x := range n.Items {
			list[i] = tomlValue(x)
		}
		return list
	case tomltree.Bool:
		return n.Bool
	case tomltree.Integer:
		return n.Int
	case tomltree.String:
		return n.Text
	}
	return unread{}
}

// unread is a number with a fraction, or a date: no policy has one.
type unread struct{}

// readJSONOrYAML reads a manifest: Agents.KT writes both.
func readJSONOrYAML(src []byte) (map[string]any, error) {
	if bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) {
		return readJSON5(src)
	}
	return readYAML(src)
}

func readYAML(src []byte) (map[string]any, error) {
	if !utf8.Valid(src) {
		return nil, errUTF8
	}
	d := yaml.NewDecoder(bytes.NewReader(src))
	var doc, more yaml.Node
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	if d.Decode(&more) == nil {
		return nil, errors.New("it has more than one document")
	}
	if len(doc.Content) == 0 {
		return nil, errObject
	}
	values := 0
	v, err := yamlValue(doc.Content[0], 0, &values)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errObject
	}
	return m, nil
}

// yamlValue rejects what can stand for something else: aliases, merges, tags, keys that are given twice.
func yamlValue(n *yaml.Node, depth int, values *int) (any, error) {
	if *values++; *values > maxValues {
		return nil, errValues
	}
	if depth > maxDepth {
		return nil, errDepth
	}
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		return nil, fmt.Errorf("line %d: anchors and aliases aren't read", n.Line)
	case n.Kind == yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, c := range n.Content {
			v, err := yamlValue(c, depth+1, values)
			if err != nil {
				return nil, err
			}
			list[i] = v
		}
		return list, nil
	case n.Kind == yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode || k.ShortTag() == "!!merge" {
				return nil, fmt.Errorf("line %d: a key isn't a name", k.Line)
			}
			if _, twice := m[k.Value]; twice {
				return nil, fmt.Errorf("line %d: key %q is given twice", k.Line, k.Value)
			}
			v, err := yamlValue(n.Content[i+1], depth+1, values)
			if err != nil {
				return nil, err
			}
			m[k.Value] = v
		}
		return m, nil
	}
	return yamlScalar(n)
}

func yamlScalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		return decodeAs[bool](n)
	case "!!int":
		return decodeAs[int64](n)
	case "!!float":
		return decodeAs[float64](n)
	case "!!str", "!!timestamp":
		return n.Value, nil
	}
	return nil, fmt.Errorf("line %d: tag %s isn't read", n.Line, n.Tag)
}

func decodeAs[T any](n *yaml.Node) (any, error) {
	var v T
	err := n.Decode(&v)
	return v, err
}
