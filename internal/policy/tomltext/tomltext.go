// Package tomltext writes the TOML of policy files: strings, lists and tables. Any string can be written, whatever bytes a rule or a command
// line has: the result is one printable line that reads back as the same string.
package tomltext

import (
	"fmt"
	"strconv"
	"strings"
)

// Quote returns s as a basic TOML string with all unprintable characters escaped.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xffff && !strconv.IsPrint(r):
			fmt.Fprintf(&b, `\U%08X`, r)
		case !strconv.IsPrint(r):
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// Key returns a key of a table, quoted unless it's a bare one.
func Key(name string) string {
	if name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
		return Quote(name)
	}
	return name
}

// Strings returns l as a TOML array of strings.
func Strings(l []string) string {
	q := make([]string, len(l))
	for i, s := range l {
		q[i] = Quote(s)
	}
	return "[" + strings.Join(q, ", ") + "]"
}

// Lists returns l as a TOML array of arrays of strings.
func Lists(l [][]string) string {
	q := make([]string, len(l))
	for i, s := range l {
		q[i] = Strings(s)
	}
	return "[" + strings.Join(q, ", ") + "]"
}

// Keys is the content of a table: one "key = value" for each element.
type Keys []string

// Add appends a key with a value in TOML.
func (k *Keys) Add(key, value string) { *k = append(*k, key+" = "+value) }

// AddString appends a string unless it is empty.
func (k *Keys) AddString(key, value string) {
	if value != "" {
		k.Add(key, Quote(value))
	}
}

// AddFlag appends a key that is true, if on.
func (k *Keys) AddFlag(key string, on bool) {
	if on {
		k.Add(key, "true")
	}
}

// Inline returns the table on one line.
func (k Keys) Inline() string { return "{ " + strings.Join(k, ", ") + " }" }

// Table returns the table on several lines, under its header.
func (k Keys) Table(header string) string {
	return strings.Join(append([]string{header}, k...), "\n") + "\n"
}
