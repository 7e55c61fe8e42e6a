package policyfile

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/tomlformat"
)

var update = flag.Bool("update", false, "write builtin_gen.go from the built-in files")

// The tables are the decoded built-in files.
func TestTables(t *testing.T) {
	if *update {
		childtest.Must(t, os.WriteFile("builtin_gen.go", tables(t), 0o644))
		t.Log("builtin_gen.go is written: run the test again without -update")
		return
	}
	if got, err := os.ReadFile("builtin_gen.go"); err != nil || !bytes.Equal(got, tables(t)) {
		t.Errorf("builtin_gen.go is out of date: run go generate (%v)", err)
	}
	for _, name := range tabled() {
		if got, want := table(name), decoded(t, name); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the table differs from the file", name)
		}
	}
	for _, name := range []string{"tools", "starter", "absent"} {
		if table(name) != nil {
			t.Errorf("%s has a table", name)
		}
	}
}

// tabled are the built-in files that a session may start with.
func tabled() []string {
	names := []string{"runtime", "protect", "secrets", "default"}
	for _, p := range presets {
		names = append(names, "preset_"+p)
	}
	return names
}

func decoded(t *testing.T, name string) *Policy {
	t.Helper()
	p, errs := decodePolicy(builtinShown(name), builtinText(name))
	if errs != nil {
		t.Fatal(errs)
	}
	return p
}

// tables is the text of builtin_gen.go.
func tables(t *testing.T) []byte {
	t.Helper()
	var vars, cases strings.Builder
	for _, name := range tabled() {
		v := "table"
		for _, word := range strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' }) {
			v += strings.ToUpper(word[:1]) + word[1:]
		}
		fmt.Fprintf(&cases, "case %q:\nreturn &%s\n", name, v)
		fmt.Fprintf(&vars, "\nvar %s = ", v)
		literal(&vars, reflect.ValueOf(decoded(t, name)).Elem(), true)
		vars.WriteByte('\n')
	}
	src := "// Code generated from the files in builtin by go generate; DO NOT EDIT.\n\npackage policyfile\n\n" +
		"import \"github.com/toolguard/toolguard/internal/policy\"\n\n" +
		"// yes is what the keys that are set point to.\nvar yes = true\n\n" +
		"// table returns the decoded built-in file of that name, nil when it has no table. Callers must not change it.\n" +
		"func table(name string) *Policy {\nswitch name {\n" + cases.String() + "}\nreturn nil\n}\n" + vars.String()
	out, err := format.Source([]byte(src))
	childtest.Must(t, err)
	return out
}

// literal writes a value as Go has it, without the fields that are zero. named says whether a struct needs its type.
func literal(b *strings.Builder, v reflect.Value, named bool) {
	switch v.Kind() {
	case reflect.String:
		fmt.Fprintf(b, "%q", v.String())
	case reflect.Bool, reflect.Int, reflect.Int32, reflect.Uint8:
		fmt.Fprint(b, v.Interface())
	case reflect.Pointer:
		if v.Elem().Kind() == reflect.Bool && v.Elem().Bool() {
			b.WriteString("&yes")
			return
		}
		b.WriteByte('&')
		literal(b, v.Elem(), true)
	case reflect.Slice, reflect.Array:
		b.WriteString(typeName(v.Type()) + "{")
		for i := range v.Len() {
			if v.Kind() == reflect.Slice {
				b.WriteByte('\n')
			}
			literal(b, v.Index(i), false)
			b.WriteByte(',')
		}
		b.WriteByte('}')
	case reflect.Struct:
		if named {
			b.WriteString(typeName(v.Type()))
		}
		b.WriteByte('{')
		for i := range v.NumField() {
			if f := v.Field(i); !f.IsZero() {
				b.WriteString(v.Type().Field(i).Name + ": ")
				literal(b, f, true)
				b.WriteByte(',')
			}
		}
		b.WriteByte('}')
	default:
		panic("no literal of type " + v.Type().String() + ": leave the file out of the tables, or teach this")
	}
}

// typeName is a type's name inside this package.
func typeName(t reflect.Type) string {
	s := strings.ReplaceAll(t.String(), "github.com/toolguard/toolguard/internal/policy/policyfile.", "")
	return strings.ReplaceAll(s, "policyfile.", "")
}

// The built-in files are laid out as policy fmt would.
func TestBuiltinFilesAreFormatted(t *testing.T) {
	for _, name := range []string{"runtime", "protect", "secrets", "default", "tools", "starter", "runtime_darwin", "protect_darwin", "secrets_darwin", "preset_readonly", "preset_python", "preset_node", "preset_go", "preset_git"} {
		got, err := tomlformat.Format(name, builtinText(name))
		if err != nil || string(got) != string(builtinText(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
