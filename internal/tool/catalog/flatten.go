package catalog

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// schemaKeys are where a tool's schema is, by shape.
var schemaKeys = []string{"parameters", "inputSchema", "input_schema"}

// Flatten rewrites the schemas that OpenAI rejects: those with a union at the root. What remains at the root is an object with the
// properties of all members. A property that members define differently may be what any of them says. A property is required if each
// member requires it; the members of allOf apply together, so one that requires it is enough.
//
// The schema is then wider than it was, for the model alone: calls are checked against the original.
func (l *List) Flatten() error {
	for i := range l.Tools {
		t := &l.Tools[i]
		var e map[string]json.RawMessage
		if err := json.Unmarshal(t.raw, &e); err != nil {
			return err
		}
		own := e
		if t.nested != "" {
			own = nil
			if err := json.Unmarshal(e[t.nested], &own); err != nil {
				return err
			}
		}
		changed, err := flattenTool(own)
		if err != nil || !changed {
			if err != nil {
				return err
			}
			continue
		}
		if t.nested != "" {
			if e[t.nested], err = json.Marshal(own); err != nil {
				return err
			}
		}
		if t.raw, err = json.Marshal(e); err != nil {
			return err
		}
	}
	return nil
}

func flattenTool(own map[string]json.RawMessage) (changed bool, err error) {
	for _, key := range schemaKeys {
		var schema map[string]any
		if own[key] == nil || json.Unmarshal(own[key], &schema) != nil || !isUnion(schema) {
			continue
		}
		if own[key], err = json.Marshal(flatten(schema, schema, 0)); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, nil
}

var unions = []string{"anyOf", "oneOf", "allOf"}

func isUnion(schema map[string]any) bool {
	for _, u := range unions {
		if _, ok := schema[u]; ok {
			return true
		}
	}
	_, ref := schema["$ref"]
	return ref
}

// mostNested bounds unions within unions and references to references.
const mostNested = 32

// flatten returns a schema without a union or reference at its root. root has the definitions that references name.
func flatten(schema, root map[string]any, depth int) map[string]any {
	out := map[string]any{"type": "object"}
	for k, v := range schema {
		if k != "$ref" && k != "anyOf" && k != "oneOf" && k != "allOf" {
			out[k] = v
		}
	}
	properties, _ := out["properties"].(map[string]any)
	merged := map[string]any{}
	maps.Copy(merged, properties)
	required := names(out["required"])
	if target := resolve(schema["$ref"], root); target != nil && depth < mostNested {
		m := flatten(target, root, depth+1)
		merge(merged, m)
		required = union(required, names(m["required"]))
	}
	for _, u := range unions {
		members, _ := schema[u].([]any)
		var common []string
		for i, member := range members {
			m, ok := member.(map[string]any)
			if !ok || depth >= mostNested {
				common = nil
				continue
			}
			m = flatten(m, root, depth+1)
			merge(merged, m)
			switch {
			case u == "allOf":
				required = union(required, names(m["required"]))
			case i == 0:
				common = names(m["required"])
			default:
				common = intersection(common, names(m["required"]))
			}
		}
		if u != "allOf" {
			required = union(required, common)
		}
	}
	out["properties"] = merged
	if delete(out, "required"); len(required) > 0 {
		out["required"] = required
	}
	if isUnion(schema) {
		delete(out, "additionalProperties") // a member may have had others
	}
	return out
}

// merge adds the properties of a member.
func merge(into, member map[string]any) {
	properties, _ := member["properties"].(map[string]any)
	for name, p := range properties {
		earlier, ok := into[name]
		if !ok {
			into[name] = p
		} else if !reflect.DeepEqual(earlier, p) {
			into[name] = alternatives(earlier, p)
		}
	}
}

// alternatives is a schema for values that either of two accepts.
func alternatives(a, b any) any {
	if m, ok := a.(map[string]any); ok && len(m) == 1 {
		if list, ok := m["anyOf"].([]any); ok {
			if slices.ContainsFunc(list, func(x any) bool { return reflect.DeepEqual(x, b) }) {
				return a
			}
			return map[string]any{"anyOf": append(append([]any{}, list...), b)}
		}
	}
	return map[string]any{"anyOf": []any{a, b}}
}

// resolve returns the definition that a reference within the schema names; nil for another reference.
func resolve(ref any, root map[string]any) map[string]any {
	path, ok := ref.(string)
	if !ok {
		return nil
	}
	path, ok = strings.CutPrefix(path, "#/")
	if !ok {
		return nil
	}
	at := any(root)
	for _, part := range strings.Split(path, "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	target, _ := at.(map[string]any)
	return target
}

func names(v any) (out []string) {
	list, _ := v.([]any)
	for _, x := range list {
		if s, ok := x.(string); ok {
			out = append(out, s)
		}
	}
	if already, ok := v.([]string); ok {
		out = already
	}
	return out
}

func union(a, b []string) []string {
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(a, x)
		}
	}
	return a
}

func intersection(a, b []string) (out []string) {
	for _, x := range a {
		if slices.Contains(b, x) {
			out = append(out, x)
		}
	}
	return out
}
