// Package strictjson rejects JSON that two readers could understand differently: a key that is given twice in one object, text that isn't
// UTF-8, more after the end, and, where Members and Object read an object, keys that differ in case alone. Depth is bounded.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep objects and lists may be within each other.
const MaxDepth = 256

// Check returns an error for text that isn't one unambiguous JSON value.
func Check(text []byte) error {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	for depth := 0; ; {
		t, err := d.ReadToken()
		if err != nil {
			return fmt.Errorf("not valid JSON: %w", err)
		}
		switch t.Kind() {
		case '{', '[':
			if depth++; depth > MaxDepth {
				return fmt.Errorf("it's more than %d levels deep", MaxDepth)
			}
		case '}', ']':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after its end")
	}
	return nil
}

// Member is a key of an object with its value.
type Member struct {
	Key   string
	Value json.RawMessage
}

// Members returns the keys of an object in their order. Two that differ in case alone are an error.
func Members(text []byte) (list []Member, err error) {
	if jsontext.Value(bytes.TrimSpace(text)).Kind() != '{' {
		return nil, errors.New("it's no object")
	}
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	seen := map[string]string{}
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := key.String()
		folded := strings.ToLower(strings.ToUpper(name)) // as strings.EqualFold: the long s is an s, too
		if other, ok := seen[folded]; ok {
			return nil, fmt.Errorf("the keys %q and %q differ in case alone", other, name)
		}
		seen[folded] = name
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		list = append(list, Member{name, json.RawMessage(value.Clone())})
	}
	return list, nil
}

// Object is Members as a map.
func Object(text []byte) (map[string]json.RawMessage, error) {
	list, err := Members(text)
	if err != nil {
		return nil, err
	}
	m := make(map[string]json.RawMessage, len(list))
	for _, x := range list {
		m[x.Key] = x.Value
	}
	return m, nil
}
