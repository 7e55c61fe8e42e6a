package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

// Limits of a schema's file.
const (
	maxSchema      = 1 << 20 // bytes
	maxSchemaDepth = 64
)

// readSchemas reads the schemas of a file's local tools that are files of their own. Those of the host's policies must be as well
// protected as the policies.
func (l *loader) readSchemas(f *File) {
	for _, name := range slices.Sorted(maps.Keys(f.Policy.Tools)) {
		if s := f.Policy.Tools[name].Schema; s != nil && s.File != "" {
			l.readSchema(f, s)
		}
	}
}

func (l *loader) readSchema(f *File, s *ArgumentSchema) {
	get := l.files.Read
	if f.Authority == policy.Host {
		get = l.files.ReadTrusted
	}
	text, err := get(absolute(s.File, filepath.Dir(f.Path)), maxSchema+1)
	switch {
	case err != nil:
		l.fail(s.Position, "its name is relative to the policy's folder", "can't read schema %s: %s", tomltree.Quote(s.File), reason(err))
		return
	case len(text) > maxSchema:
		l.fail(s.Position, "", "schema %s has more than 1 MiB", tomltree.Quote(s.File))
		return
	}
	if err := checkJSON(text); err != nil {
		l.fail(s.Position, "", "schema %s: %v", tomltree.Quote(s.File), err)
		return
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		l.fail(s.Position, "write it as an object", "schema %s is no JSON Schema", tomltree.Quote(s.File))
		return
	}
	s.JSON, s.Names = text, slices.Sorted(maps.Keys(schema.Properties))
}

// checkJSON rejects a text that isn't one JSON value, and a key that's given twice, of which readers may take either. It's part of
// toolguardd, which therefore doesn't link a library for it.
func checkJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if err := checkValue(d, 0); err != nil {
		return fmt.Errorf("not valid JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("not valid JSON: there is more after its end")
	}
	return nil
}

func checkValue(d *json.Decoder, depth int) error {
	open, err := d.Token()
	if delim, ok := open.(json.Delim); err != nil || !ok || delim != '{' && delim != '[' {
		return err
	}
	if depth == maxSchemaDepth {
		return fmt.Errorf("it's more than %d levels deep", maxSchemaDepth)
	}
	seen := map[json.Token]bool{}
	for d.More() {
		if open == json.Delim('{') {
			key, err := d.Token()
			if err != nil {
				return err
			}
			if seen[key] {
				return fmt.Errorf("key %q is given twice", key)
			}
			seen[key] = true
		}
		if err := checkValue(d, depth+1); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}
