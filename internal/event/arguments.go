package event

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// The maximum size of a call's arguments in an event: in bytes, of a string, of a name, and in levels. With escapes, the text fits
// into maxText.
const (
	maxArguments     = 4 << 10
	maxArgumentText  = 1 << 10
	maxArgumentName  = 256
	maxArgumentDepth = 16
)

// value is a JSON value, with its members in their order.
type value struct {
	kind  json.Delim // '{', '[', '"', or 0 for any other value
	text  string     // of a string; else the value as it's written
	names []string   // of the members
	items []value
}

// ellipsis is in place of what was too long.
var ellipsis = value{kind: '"', text: "…"}

// reader reads the beginning of a JSON value.
type reader struct {
	*json.Decoder
	left int  // bytes
	cut  bool // the rest was too long
}

// boundArguments returns the beginning of a call's arguments, as valid JSON. Text that isn't JSON is shortened as it is. It masks nothing:
// Clean does, where nothing waits for it.
func boundArguments(text []byte) string {
	v, ok := readValue(text)
	if !ok {
		return truncate(string(text[:min(len(text), maxText+1)]), maxArguments)
	}
	return string(v.append(nil))
}

// readValue reads a JSON value, which may have been shortened. ok is false if it isn't JSON.
func readValue(text []byte) (v value, ok bool) {
	r := reader{Decoder: json.NewDecoder(bytes.NewReader(text)), left: maxArguments}
	r.UseNumber()
	v, err := r.value(0)
	return v, err == nil && (r.cut || !r.More())
}

func (r *reader) value(depth int) (value, error) {
	t, err := r.Token()
	if err != nil {
		return value{}, err
	}
	switch t := t.(type) {
	case json.Delim:
		return r.list(t, depth)
	case string:
		return r.string(t, maxArgumentText), nil
	case json.Number:
		return r.literal(t.String()), nil
	case bool:
		if t {
			return r.literal("true"), nil
		}
		return r.literal("false"), nil
	}
	return r.literal("null"), nil
}

// list reads the rest of an object or an array.
func (r *reader) list(kind json.Delim, depth int) (value, error) {
	v := value{kind: kind}
	if r.spend(2); depth == maxArgumentDepth {
		r.cut = true
	}
	for !r.cut && r.More() {
		if kind == '{' {
			t, err := r.Token()
			if err != nil {
				return v, err
			}
			name, _ := t.(string) // the decoder accepts nothing else here
			v.names = append(v.names, r.string(name, maxArgumentName).text)
		}
		item, err := r.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.items = append(v.items, item)
		r.spend(2)
	}
	if r.cut {
		if v.items = append(v.items, ellipsis); kind == '{' {
			v.names = append(v.names, "…")
		}
		return v, nil
	}
	_, err := r.Token()
	return v, err
}

func (r *reader) string(s string, most int) value {
	s = truncate(s, most)
	if !r.spend(len(appendString(nil, s))) {
		return ellipsis
	}
	return value{kind: '"', text: s}
}

func (r *reader) literal(s string) value {
	if !r.spend(len(s)) {
		return ellipsis
	}
	return value{text: s}
}

// spend reports whether there's space for so many more bytes.
func (r *reader) spend(n int) bool {
	if n > r.left {
		r.cut = true
		return false
	}
	r.left -= n
	return true
}

// append writes the value as JSON.
func (v *value) append(dst []byte) []byte {
	switch v.kind {
	case 0:
		return append(dst, v.text...)
	case '"':
		return appendString(dst, v.text)
	}
	end := byte(']')
	if v.kind == '{' {
		end = '}'
	}
	dst = append(dst, byte(v.kind))
	for i := range v.items {
		if i > 0 {
			dst = append(dst, ',')
		}
		if v.kind == '{' {
			dst = append(appendString(dst, v.names[i]), ':')
		}
		dst = v.items[i].append(dst)
	}
	return append(dst, end)
}

// redactArguments masks likely secrets in a call's arguments: the value of a member whose name is that of a secret, command lines, headers,
// URLs, and what redactText masks in any text.
func redactArguments(text string) string {
	v, ok := readValue([]byte(text))
	if !ok {
		return redactText(text)
	}
	v.redact(nil)
	return string(v.append(nil))
}

// redact masks secrets. program is the beginning of the command line that a list of strings continues.
func (v *value) redact(program []string) {
	switch v.kind {
	case '"':
		v.text = redactArgument(v.text)
	case '{':
		v.redactMembers()
	case '[':
		if !slices.ContainsFunc(v.items, func(i value) bool { return i.kind != '"' }) {
			v.redactArgv(program)
			return
		}
		for i := range v.items {
			v.items[i].redact(nil)
		}
	}
}

func (v *value) redactMembers() {
	named := namesSecretValue(v.member("name", "key", "header", "variable"))
	program := strings.Fields(v.member("command", "cmd", "program", "executable"))
	for i := range v.items {
		item := &v.items[i]
		switch name := v.names[i]; {
		case item.kind == 0 && item.text == "null":
		case namesSecretValue(name), named && strings.EqualFold(name, "value"):
			*item = value{kind: '"', text: mask}
		default:
			item.redact(program)
		}
		v.names[i] = redactText(v.names[i])
	}
}

// redactArgv masks secrets in a list of strings as in a command line, whose program may be known.
func (v *value) redactArgv(program []string) {
	if len(program) == 0 {
		program = []string{""} // the first one is never a secret, and may be a flag here
	}
	argv := slices.Clone(program)
	for _, i := range v.items {
		argv = append(argv, i.text)
	}
	for i, a := range RedactArgv(argv)[len(program):] {
		v.items[i].text = a
	}
}

// member returns the first member with one of the names that is a string.
func (v *value) member(names ...string) string {
	for i, item := range v.items {
		if item.kind == '"' && slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, v.names[i]) }) {
			return item.text
		}
	}
	return ""
}

// namesSecretValue reports whether the name of a member or a variable is that of a secret.
func namesSecretValue(name string) bool {
	return name != "" && (patterns().name.MatchString(name) || strings.HasSuffix(strings.ToLower(name), "pwd") && !strings.EqualFold(name, "pwd"))
}
