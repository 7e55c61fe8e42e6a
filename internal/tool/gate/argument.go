package gate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/tool/patch"
	"github.com/toolguard/toolguard/internal/tool/program"
)

// argument judges one value of the call's arguments by its role.
func (j *judge) argument(v *value) {
	if j.done() {
		return
	}
	if j.environment(v) {
		return
	}
	switch v.role {
	case roleText, roleCwd: // a working directory needs nothing; what is relative to it does
	case rolePath:
		j.pathArgument(v)
	case rolePatch:
		if strings.Contains(v.text, "\n") || patch.Looks(v.text) {
			j.patch(v)
			return
		}
		j.pathArgument(v)
	case roleURL:
		j.address(v.text, j.in(v.in), cmp.Or(j.args.method, "GET"))
	case roleCommand:
		j.commandLine(v, j.argv[v.in])
	case roleArgv:
		if len(j.commands[v.in]) == 0 && j.Settings.Kind == "execute" {
			j.commandLine(v, nil)
		}
	default:
		j.unnamed(v)
	}
}

// unnamed judges a value whose argument has no role.
func (j *judge) unnamed(v *value) {
	kind, key := j.Settings.Kind, fold(v.key)
	switch {
	case patch.Looks(v.text):
		j.patch(v)
	case kind == "execute" && key == "commands":
		j.commandLine(v, nil)
	case kind == "execute" && key == "shell" && v.text != "":
		j.command(&program.Call{Argv: []program.Word{program.Literal(v.text), {Text: "…", Many: true}}, Dir: program.Literal(j.dir)})
	case kind == "move" && (key == "from" || key == "to"), kind == "delete" && looksAbsolute(v.text):
		j.pathArgument(v)
	case kind == "" && looksAbsolute(v.text):
		j.file(v.text, []string{j.dir}, anyAction)
	case kind != "read" && kind != "list" && kind != "fetch" && kind != "" && v.text != "":
		j.odd = append(j.odd, v)
	}
}

// understood reports the texts that aren't: a tool that executes something and no command that is known to be one, or a tool that changes
// files and no file.
func (j *judge) understood() {
	if j.Settings.Kind == "execute" && j.ran || j.Settings.Kind != "execute" && j.found {
		return
	}
	for _, v := range j.odd {
		j.doubt(v.key, "isn't known to be a command, a file or a text, and the tool executes something or changes files")
	}
}

// environments are the keys of the environment of a command that a tool executes, without _ and -.
var environments = []string{"env", "envs", "environment", "envvars", "environmentvariables"}

// environment judges a variable of a command: {"env":{"K":"V"}}, {"env":["K=V"]} or {"env":[{"name":"K","value":"V"}]}.
func (j *judge) environment(v *value) bool {
	if k := j.Settings.Kind; k != "execute" && k != "" || v.role == roleText || v.in == nil {
		return false
	}
	name, text := v.key, program.Literal(v.text)
	switch {
	case isEnvironment(v.in.key) && slices.Contains([]string{"name", "key"}, fold(v.key)):
		name, text = v.text, program.Word{Text: v.text}
	case isEnvironment(v.in.key):
	case isEnvironment(v.key):
		before, after, _ := strings.Cut(v.text, "=")
		name, text = before, program.Literal(after)
	default:
		return false
	}
	j.variable(program.Variable{Name: name, Value: text}, program.Literal(j.dir))
	return j.Settings.Kind == "execute" // without a kind, what it is isn't known
}

// looksAbsolute reports whether a text is nothing but an absolute path. A tool without a kind could use it as one, whatever its argument is
// called.
func looksAbsolute(s string) bool {
	if len(s) > 4096 || strings.ContainsAny(s, "\n\r") {
		return false
	}
	return strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~/") || strings.HasPrefix(s, "$HOME/") || strings.HasPrefix(s, "${HOME}/") ||
		len(s) > 5 && strings.EqualFold(s[:5], "file:")
}

// kindActions are what a tool of each kind does to its paths. Moving depends on the argument.
var kindActions = map[string][]action{
	"read": {reads}, "list": {lists}, "create": {creates}, "modify": {updates}, "delete": {deletes}, "execute": {executes},
	"fetch": {anyAction}, "": {anyAction},
}

// actions are what the call does to the path in an argument.
func (j *judge) actions(key string) []action {
	if j.Settings.Kind != "move" {
		return kindActions[j.Settings.Kind]
	}
	switch strings.ToLower(key) {
	case "source", "src", "from", "old_path":
		return []action{deletes}
	case "destination", "dest", "target", "target_file", "to", "new_path":
		return []action{creates}
	}
	return []action{deletes, creates}
}

func (j *judge) pathArgument(v *value) {
	j.found = true
	if s := scheme(v.text); s != "" && s != "file" {
		if s != "data" && s != "about" && s != "blob" {
			j.address(v.text, nil, "GET")
		}
		if !strings.Contains(v.text, "..") && !j.begun(v) {
			return // nothing but a URL
		}
	}
	for _, a := range j.actions(v.key) {
		j.file(v.text, j.in(v.in), a)
	}
}

// begun reports whether there is a file with the name that a URL would be as a path, or a folder with the one that it begins with.
func (j *judge) begun(v *value) bool {
	first, _, _ := strings.Cut(v.text, "/")
	return len(first) < 256 && slices.ContainsFunc(j.in(v.in), func(dir string) bool { return j.exists(absolute(dir, first)) })
}

// patch judges the files that a patch touches.
func (j *judge) patch(v *value) {
	files, err := patch.Files(v.text)
	if err != nil {
		j.doubt(v.key, "is a patch that can't be read: "+err.Error())
		return
	}
	j.found = j.found || len(files) > 0
	if len(files) == 0 {
		j.odd = append(j.odd, v)
	}
	dirs := j.in(v.in)
	for _, f := range files {
		if j.done() {
			return
		}
		if k := j.Settings.Kind; k == "read" || k == "list" {
			j.file(f.Path, dirs, reads)
			continue
		}
		switch f.Action {
		case patch.Create:
			j.file(f.Path, dirs, creates)
		case patch.Delete:
			j.file(f.Path, dirs, deletes)
		case patch.Read:
			j.file(f.Path, dirs, reads)
		case patch.Move:
			j.file(f.Path, dirs, deletes)
			j.file(f.To, dirs, creates)
		default:
			j.file(f.Path, dirs, updates)
		}
	}
}

// commandLine judges a command: a text for a shell or a list of words, with further arguments that the call has next to it.
func (j *judge) commandLine(v *value, more []value) {
	for _, dir := range j.in(v.in) {
		j.commandIn(v, more, program.Literal(dir))
	}
}

func (j *judge) commandIn(v *value, more []value, dir program.Word) {
	if v.list == nil {
		j.ran = true
		j.script(&program.Script{Text: joined(v, more, quote), Shell: j.shell(), Dir: dir}, 0)
		j.joinedForShell(v, more, dir)
		return
	}
	words := slices.Clone(v.list)
	for _, m := range more {
		if m.list == nil {
			j.doubt(m.key, "is a text where a list of arguments is expected")
		}
		words = append(words, m.list...)
	}
	if len(words) == 0 {
		return
	}
	call := program.Call{Dir: dir}
	for _, w := range words {
		if strings.IndexByte(w, 0) >= 0 {
			j.doubt(fmt.Sprintf("%q", clip(w)), "has a NUL byte")
			return
		}
		call.Argv = append(call.Argv, program.Literal(w))
	}
	j.call(&call, 0)
}

// joined is a command with the arguments that the call has next to it.
func joined(v *value, more []value, word func(string) string) string {
	var text strings.Builder
	text.WriteString(v.text)
	for _, m := range more {
		text.WriteString(" " + m.text)
		for _, w := range m.list {
			text.WriteString(" " + word(w))
		}
	}
	return text.String()
}

// joinedForShell doubts arguments that would do something else if the host joins them to the command for a shell, as some do.
func (j *judge) joinedForShell(v *value, more []value, dir program.Word) {
	for _, m := range more {
		i := slices.IndexFunc(m.list, func(w string) bool { return strings.ContainsAny(w, ";|&`$<>()\n") })
		if i < 0 || j.done() {
			continue
		}
		other := *j
		other.unclear = nil
		other.script(&program.Script{Text: joined(v, more, func(w string) string { return w }), Shell: j.shell(), Dir: dir}, 0)
		if j.calls = other.calls; other.denied != nil || len(other.unclear) > 0 {
			j.doubt(m.list[i], "isn't only an argument if the host joins it to the command for a shell")
		}
		return
	}
}

// shell is the shell that runs the commands of calls; "" if it isn't known.
func (j *judge) shell() string {
	if j.Gate.Shell == "auto" {
		return ""
	}
	return j.Gate.Shell
}

// quote writes a word so that a shell reads it as it is.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
