package manifest

import (
	"encoding/json"
	"reflect"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// portableLayer returns a copy of a layer in which file renames the files of positions.
func portableLayer(l *toolset.Layer, file func(string) string) *toolset.Layer {
	out := new(toolset.Layer)
	text, err := json.Marshal(l)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		panic(err) // it's made of strings, numbers and lists
	}
	rename(reflect.ValueOf(out), file)
	return out
}

// rename renames the file of every position in a value.
func rename(v reflect.Value, file func(string) string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			rename(v.Elem(), file)
		}
	case reflect.Slice:
		for i := range v.Len() {
			rename(v.Index(i), file)
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			x := reflect.New(i.Value().Type()).Elem() // values of maps can't be changed
			x.Set(i.Value())
			rename(x, file)
			v.SetMapIndex(i.Key(), x)
		}
	case reflect.Struct:
		if p, ok := v.Addr().Interface().(*policy.Position); ok {
			if p.File != "" && !builtin(p.File) {
				p.File = file(p.File)
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				rename(v.Field(i), file)
			}
		}
	}
}

// setOf returns the tool layer of a manifest for decisions.
func (m *Manifest) setOf() *toolset.Set {
	m.Layer.Author = policy.Session
	for _, hooks := range [][]*toolset.Hook{m.Layer.Before, m.Layer.After} {
		for _, h := range hooks {
			h.Layer = m.Layer
		}
	}
	known := words{}
	eachEntry(m.Layer, func(e toolset.Entry) {
		if name := toolset.Normal(e.Text); e.Rule.Builtin() && toolset.ValidName(name) {
			known.add(name)
		}
	})
	m.Layer.Known = known.list
	return &toolset.Set{Layers: []*toolset.Layer{m.Layer}}
}
