package imports

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/nearest"
	"github.com/toolguard/toolguard/internal/policy/tomltext"
)

// MaxSize is how large a file may be, in bytes.
const MaxSize = 1 << 20

// format reads one kind of file.
type format struct {
	name string
	read func(src []byte) (map[string]any, error)
	do   func(*importer, *object)
}

var formats = []format{
	{"jp", readTOML, (*importer).jp},
	{"openclaw", readJSON5, func(i *importer, o *object) { i.openClaw(o, false) }},
	{"clawdbot", readJSON5, func(i *importer, o *object) { i.openClaw(o, true) }},
	{"agents-kt", readJSONOrYAML, (*importer).agentsKt},
	{"llm-proxy", readYAML, (*importer).llmProxy},
	{"claude-code", readJSON5, (*importer).claudeCode},
}

// Formats returns the names of the formats.
func Formats() []string {
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = f.name
	}
	return names
}

// Result is an imported policy.
type Result struct {
	Policy []byte
	Tools  []string // those with a table, at most maxTools of them: each has a policy of its own
	Left   []string // what has no equivalent, one a line: the key, and what that means. Text of the file is in it as it is
}

// Import returns the policy of a file's content. file is its name, for comments. The error is about the file: its format, a value of the
// wrong type or that the system itself rejects.
func Import(from, file string, src []byte) (*Result, error) {
	i := slices.IndexFunc(formats, func(f format) bool { return f.name == from })
	switch {
	case from == "":
		return nil, fmt.Errorf("name the format: --from %s", strings.Join(Formats(), "|"))
	case i < 0:
		return nil, fmt.Errorf("unknown format %s: %s", tomltext.Quote(from), nearest.Hint(from, Formats(), "there are "))
	case len(src) > MaxSize:
		return nil, fmt.Errorf("%s is larger than %d MiB", file, MaxSize>>20)
	}
	m, err := formats[i].read(src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	im := &importer{file: file, byName: map[string]*table{}, noted: map[string]bool{}, byPath: map[string]*object{}}
	im.set("", "version", "1")
	im.set("", "name", tomltext.Quote(cmp.Or(strings.TrimSuffix(path.Base(file), path.Ext(file)), from)))
	formats[i].do(im, im.object(m, ""))
	if im.err != nil {
		return nil, fmt.Errorf("%s: %w", file, im.err)
	}
	im.leaveUnread()
	return &Result{Policy: im.text(from), Tools: im.tools, Left: im.left}, nil
}

// maxTools is how many policies of tools a caller tries.
const maxTools = 200

// tool returns the header of a tool's table, and notes the tool's name.
func (i *importer) tool(name string) string {
	if !strings.Contains(name, "*") && !slices.Contains(i.tools, name) && len(i.tools) < maxTools {
		i.tools = append(i.tools, name)
	}
	return join("tools", name)
}

// importer writes the policy of one file.
type importer struct {
	file   string
	tables []*table
	byName map[string]*table
	tools  []string // the names of those that have a table
	left   []string
	noted  map[string]bool // the lines of left
	err    error           // the first one

	objects []*object // all tables of the source that were looked at
	byPath  map[string]*object
}

func (i *importer) fail(key, format string, args ...any) {
	if i.err == nil {
		i.err = fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...))
	}
}

// leave notes what has no equivalent, and what was written in its place.
func (i *importer) leave(key, format string, args ...any) {
	if line := key + ": " + fmt.Sprintf(format, args...); !i.noted[line] {
		i.noted[line] = true
		i.left = append(i.left, line)
	}
}
