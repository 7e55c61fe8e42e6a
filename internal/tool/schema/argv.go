package schema

import (
	"fmt"
	"slices"
	"strings"
)

// maxText is how long a string may be in the arguments of a tool without a schema, in bytes.
const maxText = 4096

// Placeholder returns the name within an element {NAME} or {NAME*} of a command, and whether it's a list. name is "" for another element.
func Placeholder(element string) (name string, list bool) {
	inner, ok := strings.CutPrefix(element, "{")
	if ok {
		inner, ok = strings.CutSuffix(inner, "}")
	}
	inner, list = strings.CutSuffix(inner, "*")
	if !ok || strings.ContainsAny(inner, "{}*") {
		return "", false
	}
	return inner, list && inner != ""
}

// Default returns the schema of a tool that has none: each {NAME} of its command is a string of at most 4096 bytes, each {NAME*} a
// list of them.
func Default(command []string) *Schema {
	s := new(Schema)
	unlimited, _ := Parse([]byte("{}"))
	*s = *unlimited
	s.types = []string{"object"}
	for _, element := range command {
		name, list := Placeholder(element)
		if name == "" || slices.Contains(s.required, name) {
			continue
		}
		text := *unlimited
		text.types, text.maxBytes = []string{"string"}, maxText
		if list {
			item := text
			text = *unlimited
			text.types, text.items = []string{"array"}, &item
		}
		s.properties = append(s.properties, property{name, &text})
		s.required = append(s.required, name)
	}
	return s
}

// Argv returns the command line of a local tool: its command with each {NAME} replaced by the argument of that name, and each {NAME*} by
// the entries of a list. The arguments are checked first. Strings, numbers and booleans can be elements.
func (s *Schema) Argv(command []string, arguments []byte) ([]string, error) {
	v, err := s.parse(arguments)
	if err != nil {
		return nil, err
	}
	var argv []string
	operands := false // what follows can't be an option
	for _, element := range command {
		name, list := Placeholder(element)
		if name == "" {
			operands = operands || element == "--"
			argv = append(argv, element)
			continue
		}
		argument := v.get(name)
		values := []*value{argument}
		switch {
		case argument == nil && list:
			continue
		case argument == nil:
			return nil, fmt.Errorf("the arguments must have %q, which the command needs", name)
		case list && argument.kind != '[':
			return nil, fmt.Errorf("%s must be a list, not %s", name, argument.describe())
		case list:
			values = argument.items
		}
		for _, a := range values {
			text, err := a.element(name)
			if err != nil {
				return nil, err
			}
			if strings.HasPrefix(text, "-") && !operands {
				return nil, fmt.Errorf(`%s begins with "-", and the command has no element "--" before it: it would be an option`, name)
			}
			argv = append(argv, text)
		}
	}
	return argv, nil
}

// element returns a value as an element of a command line.
func (v *value) element(name string) (string, error) {
	switch v.kind {
	case '"':
		if strings.ContainsRune(v.text, 0) {
			return "", fmt.Errorf("%s has a NUL byte, which no command line can have", name)
		}
		return v.text, nil
	case '0':
		return v.text, nil
	case 't', 'f':
		return v.describe(), nil
	}
	return "", fmt.Errorf("%s is %s, which can't be an element of a command line", name, v.describe())
}
