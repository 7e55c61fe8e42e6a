package imports

import (
	"strings"

	"github.com/toolguard/toolguard/internal/policy/tomltext"
	"github.com/toolguard/toolguard/internal/printable"
)

// table is a table of the policy that is written.
type table struct {
	header string // "[tools.x]"; "" for the outermost keys
	lines  []string
}

// set adds a key to the table of a header, with the key of the source that it comes from; "" is none.
func (i *importer) set(header, key, value string, from ...string) {
	t := i.table(header)
	i.comment(t, from...)
	t.lines = append(t.lines, key+" = "+value)
}

// add adds a table to a list of tables.
func (i *importer) add(header string, k tomltext.Keys, from ...string) {
	t := &table{header: "[[" + header + "]]"}
	i.tables = append(i.tables, t)
	i.comment(t, from...)
	t.lines = append(t.lines, k...)
}

// note adds a comment that explains a choice.
func (i *importer) note(header, text string) {
	t := i.table(header)
	t.lines = append(t.lines, "# "+text)
}

func (i *importer) comment(t *table, from ...string) {
	for _, key := range from {
		t.lines = append(t.lines, "# "+oneLine(i.file+": "+key))
	}
}

func (i *importer) table(header string) *table {
	if header != "" {
		header = "[" + header + "]"
	}
	t := i.byName[header]
	if t == nil {
		t = &table{header: header}
		i.byName[header] = t
		i.tables = append(i.tables, t)
	}
	return t
}

func (i *importer) text(from string) []byte {
	var b strings.Builder
	b.WriteString("# Written by toolguard policy import --from " + from + " " + oneLine(i.file) + "\n")
	for _, t := range i.tables {
		b.WriteByte('\n')
		if t.header != "" {
			b.WriteString(t.header + "\n")
		}
		for _, l := range t.lines {
			b.WriteString(l + "\n")
		}
	}
	return []byte(b.String())
}

// oneLine returns text of the source as it can be in a comment.
func oneLine(s string) string {
	q := tomltext.Quote(printable.Clean(s))
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// join returns the header of a table by its keys.
func join(keys ...string) string {
	for n := range keys {
		keys[n] = tomltext.Key(keys[n])
	}
	return strings.Join(keys, ".")
}
