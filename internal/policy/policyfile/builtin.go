package policyfile

import (
	"embed"
	"strings"
	"sync"

	"github.com/toolguard/toolguard/internal/policy"
)

// builtin holds the built-in files: the rule sets that every policy may include, and the presets.
//
//go:embed builtin
var builtin embed.FS

// presetPrefix begins the name of a built-in file where a file could be named too.
const presetPrefix = "preset:"

// presets are the names of the presets, in display order.
var presets = []string{"readonly", "python", "node", "go", "rust", "java", "c", "git", "pty", "dns", "claude-code", "codex", "gemini", "cursor-agent", "opencode", "aider"}

// Preset is a built-in policy to extend or to use as it is.
type Preset struct {
	Name string // "preset:python"
	Doc  string // one sentence
	Text []byte // the file
}

// Presets lists them.
func Presets() []Preset {
	out := make([]Preset, len(presets))
	for i, name := range presets {
		text := builtinText("preset_" + name)
		out[i] = Preset{Name: presetPrefix + name, Doc: firstComment(text), Text: text}
	}
	return out
}

// firstComment joins the comment lines that a file begins with.
func firstComment(text []byte) string {
	var words []string
	for line := range strings.Lines(string(text)) {
		body, ok := strings.CutPrefix(line, "#")
		if !ok {
			break
		}
		words = append(words, strings.TrimSpace(body))
	}
	return strings.Join(words, " ")
}

func builtinText(name string) []byte {
	b, err := builtin.ReadFile("builtin/" + name + ".toml")
	if err != nil {
		panic("policyfile: " + err.Error())
	}
	return b
}

// Nearly every start needs some of the built-in files, so their decoded form is generated Go code.
//
//go:generate go test -count=1 -run ^TestTables$ . -update

// parsed caches the built-in files without a table, which are the same for every load.
var parsed sync.Map // of file name to *Policy

// builtinPolicy is the built-in file name. It's shared: callers must not change it.
func builtinPolicy(name string) *Policy {
	if p := table(name); p != nil {
		return p
	}
	if p, ok := parsed.Load(name); ok {
		return p.(*Policy)
	}
	p, errs := decodePolicy(builtinShown(name), builtinText(name))
	if len(errs) > 0 {
		panic("policyfile: " + errs.Error())
	}
	parsed.Store(name, p)
	return p
}

// builtinShown is a built-in file's name in positions.
func builtinShown(name string) string {
	if preset, ok := strings.CutPrefix(name, "preset_"); ok {
		return presetPrefix + preset
	}
	return "builtin:" + name
}

// builtinRules are the fs rules of builtin:NAME for this session, all optional, and those for its system.
func (l *loader) builtinRules(name string) []policy.FSRule {
	items := builtinPolicy(name).Access.FS.Items
	if l.req.System == "darwin" {
		items = append(items[:len(items):len(items)], builtinPolicy(name+"_darwin").Access.FS.Items...)
	}
	return l.fsRules(items)
}

// fsRules converts fs rules. In built-in files a path may be a placeholder for something that differs by session; where that doesn't
// exist the path is empty, so that compiling leaves the rule out but counts it. In other files a path is always
// literal.
//
// A process that may write in a folder may replace it by a symlink, so that the next session would be granted the symlink's target. So
// writable paths in the home, and readable ones that could have credentials, are granted at their own path alone.
func (l *loader) fsRules(items []FS) []policy.FSRule {
	out := make([]policy.FSRule, 0, len(items))
	for i := range items {
		r := items[i].rule()
		r.Optional = isBuiltin(r.Position.File)
		if r.Optional {
			r.NoLink = l.gitPath(&r.Path) || l.gitPath(&r.Match) || strings.HasPrefix(r.Path, "~/") && (r.Secret || r.Caps&policy.Create != 0)
			switch r.Path {
			case "$TMPDIR":
				r.Path = l.req.TmpDir
			case "$TERMINAL":
				r.Path = l.req.Terminal
			case "$TTY":
				if r.Path = ""; !l.req.HideTTY {
					r.Path = "/dev/tty"
				}
			}
		}
		out = append(out, r)
	}
	return out
}

func isBuiltin(file string) bool {
	return strings.HasPrefix(file, "builtin:") || strings.HasPrefix(file, presetPrefix)
}
