package policyfile

import (
	"encoding/json"
	"reflect"
	"strings"
)

// Schema returns the JSON Schema (draft 2020-12) of the format, for editors. It describes each key by itself; only loading checks
// the conditions between keys and those that need other files.
func Schema() []byte {
	g := schemas{defs: map[string]any{}}
	root := g.table(reflect.TypeFor[Policy]())
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "toolguard policy"
	root["properties"].(object)["version"].(object)["const"] = version
	root["$defs"] = g.defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("policyfile: " + err.Error())
	}
	return append(out, '\n')
}

type object = map[string]any

// schemas collects the schemas of tables, which may contain themselves.
type schemas struct{ defs object }

// lister is a List of any type.
type lister interface{ item() reflect.Type }

func (*List[T]) item() reflect.Type { return reflect.TypeFor[T]() }

// of is the schema of a type; f, which may be nil, is the key that has it.
func (g *schemas) of(t reflect.Type, f *field) object {
	if t.Kind() == reflect.Pointer {
		return g.of(t.Elem(), f)
	}
	if l, ok := reflect.New(t).Interface().(lister); ok {
		return g.list(l.item())
	}
	if s := g.custom(t); s != nil {
		return s
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int:
		least, most := f.bounds()
		s := object{"type": "integer", "minimum": least}
		if most < 1<<53 {
			s["maximum"] = most
		}
		return s
	case reflect.String:
		if f == nil || len(f.words()) == 0 {
			return text()
		}
		return object{"enum": f.words()}
	case reflect.Slice:
		return object{"type": "array", "items": g.of(t.Elem(), f)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": g.of(t.Elem(), nil)}
	}
	return g.ref(t)
}

func text() object { return object{"type": "string", "minLength": 1} }

// ref is a reference to the schema of a struct, which it makes if need be.
func (g *schemas) ref(t reflect.Type) object {
	name := strings.ToLower(t.Name())
	if _, ok := g.defs[name]; !ok {
		g.defs[name] = nil // it may refer to itself
		g.defs[name] = g.table(t)
	}
	return object{"$ref": "#/$defs/" + name}
}

// table is the schema of a struct.
func (g *schemas) table(t reflect.Type) object {
	info := shapeOf(t)
	props, required := object{}, []string{}
	for i := range info.fields {
		f := &info.fields[i]
		s := g.of(f.typ, f)
		s["description"] = f.doc()
		if f.required {
			required = append(required, f.name)
		}
		props[f.name] = s
	}
	s := object{"type": "object", "properties": props, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	switch t {
	case reflect.TypeFor[FS]():
		s["oneOf"] = eitherOf("path", "match")
	case reflect.TypeFor[Hook]():
		s["oneOf"] = eitherOf("command", "url")
	case reflect.TypeFor[Net]():
		s["dependentSchemas"] = object{"listen": object{"required": []string{"port"}}}
	}
	return s
}

func eitherOf(keys ...string) []object {
	var out []object
	for _, k := range keys {
		out = append(out, object{"required": []string{k}})
	}
	return out
}

// list is the schema of both forms of a list.
func (g *schemas) list(item reflect.Type) object {
	plain := object{"type": "array", "items": g.of(item, nil)}
	return object{"anyOf": []object{plain, withStrategy(plain)}}
}

func withStrategy(value object) object {
	return object{
		"type": "object", "additionalProperties": false, "required": []string{"strategy", "value"},
		"properties": object{"strategy": object{"enum": strategies}, "value": value},
	}
}

// custom is the schema of a type that decodes itself; nil for other types.
func (g *schemas) custom(t reflect.Type) object {
	actions := object{"enum": []string{"deny", "allow"}}
	switch t {
	case reflect.TypeFor[Text]():
		return text()
	case reflect.TypeFor[Argv](), reflect.TypeFor[SelfTest]():
		return object{"type": "array", "items": object{"type": "string"}}
	case reflect.TypeFor[Role]():
		return object{"enum": roles}
	case reflect.TypeFor[ArgumentSchema]():
		return object{"anyOf": []object{text(), {"type": "object"}}}
	case reflect.TypeFor[Default]():
		return object{"anyOf": []object{actions, {
			"type": "object", "additionalProperties": false,
			"properties": object{"fs": actions, "net": actions, "env": actions, "commands": actions},
		}}}
	case reflect.TypeFor[Protect]():
		return object{"enum": []any{"auto", true, false}}
	case reflect.TypeFor[Syscalls]():
		return object{"anyOf": []object{{"enum": []string{"default", "strict"}}, g.ref(t)}}
	case reflect.TypeFor[CommandSet]():
		one := g.ref(reflect.TypeFor[Command]())
		plain := object{"type": "object", "additionalProperties": one}
		return object{"anyOf": []object{plain, withStrategy(plain)}}
	case reflect.TypeFor[Named]():
		s := g.table(reflect.TypeFor[Stage]())
		s["additionalProperties"] = g.ref(reflect.TypeFor[Stage]())
		return s
	case reflect.TypeFor[Size]():
		return object{"anyOf": []object{
			{"type": "integer", "minimum": 1},
			{"type": "string", "pattern": `^[0-9]+(\.[0-9]{1,3})? *(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?(/s)?$`},
		}}
	case reflect.TypeFor[Count]():
		return object{"type": "integer", "minimum": 1}
	case reflect.TypeFor[Percent]():
		return object{"type": "string", "pattern": `^[0-9]+%$`}
	case reflect.TypeFor[Duration]():
		return object{"type": "string", "pattern": `^\+?([0-9]*\.?[0-9]*(ns|us|µs|μs|ms|s|m|h))+$`}
	}
	return nil
}
