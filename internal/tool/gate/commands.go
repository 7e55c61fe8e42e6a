package gate

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/tool/program"
	"github.com/toolguard/toolguard/internal/tool/shell"
)

// maxNesting is how deep commands may run commands: sh -c "env sh -c …".
const maxNesting = 32

// maxCalls is how many commands of one call are judged; about more a person is asked.
const maxCalls = 20_000

// script judges a text for the shell that runs it. An unknown shell could be any of them: the strictest answer applies.
func (j *judge) script(s *program.Script, depth int) {
	if j.done() {
		return
	}
	if j.calls > maxCalls {
		return
	}
	if depth > maxNesting {
		j.doubt(clip(s.Text), "runs commands within commands, too deep")
		return
	}
	var seen []*program.Effects
	for _, d := range shell.Dialects(s.Shell) {
		e := shell.Analyze(s, d)
		if !slices.ContainsFunc(seen, func(o *program.Effects) bool { return reflect.DeepEqual(o, e) }) {
			j.effects(e, depth)
			seen = append(seen, e)
		}
	}
}

// effects judges everything that a script or a program is known to do.
func (j *judge) effects(e *program.Effects, depth int) {
	j.unclear = append(j.unclear, e.Unclear...)
	for i := range e.Files {
		j.fileOf(&e.Files[i], e.Files)
	}
	for _, u := range e.URLs {
		switch _, rest, _ := strings.Cut(u.Target.Prefix, "://"); {
		case u.Target.Known:
			j.address(u.Target.Text, []string{j.dir}, "")
		case strings.Contains(rest, "/"): // the host is known
			j.address(u.Target.Prefix, []string{j.dir}, "")
		case j.limits(policy.Net):
			j.doubt(u.Target.Text, "is an address that isn't known")
		}
	}
	for i := range e.Calls {
		j.call(&e.Calls[i], depth)
	}
	for i := range e.Scripts {
		j.script(&e.Scripts[i], depth+1)
	}
}

// text is the value of a known word. ok is false for a home that isn't known.
func (j *judge) text(w program.Word) (value string, ok bool) {
	if w.Home {
		return j.Home + strings.TrimPrefix(w.Text, "~"), j.Home != ""
	}
	return w.Text, true
}

// limits reports whether the policy denies some target of a resource.
func (j *judge) limits(of policy.Resource) bool {
	return slices.ContainsFunc(j.Policy.Layers, func(l *policy.Layer) bool { return l.Defaults[of] == policy.Deny })
}

// folder is the absolute folder that a word names; ok is false for one that isn't known.
func (j *judge) folder(dir program.Word) (string, bool) {
	if dir.Text == "" && !dir.Known {
		return j.dir, true // the zero Word
	}
	if !dir.Known {
		return "", false
	}
	text, ok := j.text(dir)
	return absolute(j.dir, text), ok
}

// fileOf judges a file that a command certainly uses. A name that isn't known is left to the kernel: the words that matter are unclear. What
// is copied, moved or linked into a folder is written as an entry of it, by the name of its source.
func (j *judge) fileOf(f *program.File, all []program.File) {
	p, ok := j.pathOf(f)
	if !ok || j.done() {
		return
	}
	if f.Access == program.Write && j.isDir(p) {
		for i := range all {
			if all[i].Access == program.Write {
				continue
			}
			if source, ok := j.pathOf(&all[i]); ok {
				entry := path.Base(source)
				j.path(absolute(p, entry), absolute(f.Path.Text, entry), creates)
			}
		}
	}
	j.path(p, f.Path.Text, map[program.Access]action{
		program.Read: reads, program.Write: creates, program.Delete: deletes, program.Execute: executes,
	}[f.Access])
}

// pathOf is the absolute path of a file; ok is false if it isn't known.
func (j *judge) pathOf(f *program.File) (p string, ok bool) {
	name, ok := j.text(f.Path)
	if !f.Path.Known {
		if name, ok = j.begins(f.Path, j.isOwn(f.Dir)); !ok {
			return "", false
		}
	}
	dir, known := j.folder(f.Dir)
	if !ok || !known && !strings.HasPrefix(name, "/") {
		j.doubt(f.Path.Text, "is relative to a folder that isn't known")
		return "", false
	}
	return j.within(dir, name), true
}

// isOwn reports whether a folder is the call's own, as far as it's known.
func (j *judge) isOwn(dir program.Word) bool {
	d, ok := j.folder(dir)
	return ok && d == j.dir
}

// begins is the folder in which the file of an unknown word is: "" for the one in which the command runs, which says nothing if that's the
// call's own. Which file it is decides the kernel.
func (j *judge) begins(w program.Word, own bool) (string, bool) {
	prefix, ok := j.text(program.Word{Text: w.Prefix, Home: w.Home})
	switch i := strings.LastIndexByte(prefix, '/'); {
	case !w.Home && strings.HasPrefix(w.Text, "~"):
		j.doubt(w.Text, "names another user's home")
		return "", false
	case !ok:
		return "", false
	case i < 0:
		return "", !own
	case i == 0:
		return "/", true
	default:
		return prefix[:i], true
	}
}

func (j *judge) isDir(p string) bool {
	resolved, err := j.Policy.ResolveTarget(j.Files, p, true)
	if err != nil {
		return false
	}
	kind, err := j.Files.Lstat(resolved)
	return err == nil && kind == fspath.Dir
}

// call judges a program that would be executed, and what it does in turn.
func (j *judge) call(c *program.Call, depth int) {
	if j.done() {
		return
	}
	if depth > maxNesting {
		j.doubt(clip(c.Argv[0].Text), "is run by commands within commands, too deep")
		return
	}
	j.ran = true
	if j.calls++; j.calls > maxCalls {
		if j.calls == maxCalls+1 {
			j.doubt(clip(c.Argv[0].Text), "is one of too many commands")
		}
		return
	}
	if !c.Argv[0].Known {
		j.doubt(c.Argv[0].Text, "is the name of a program, and isn't known")
		return
	}
	for _, v := range c.Env {
		j.variable(v, c.Dir)
	}
	j.command(c)
	if !j.done() {
		j.effects(program.Inspect(c), depth+1)
	}
}

// command asks the policy about a program and its arguments.
func (j *judge) command(c *program.Call) {
	name, ok := j.text(c.Argv[0])
	if !ok {
		j.doubt(c.Argv[0].Text, "is relative to a home that isn't known")
		return
	}
	if strings.Contains(name, "/") && !strings.HasPrefix(name, "/") {
		dir, ok := j.folder(c.Dir)
		if !ok {
			j.doubt(name, "is a program in a folder that isn't known")
			return
		}
		name = absolute(dir, name)
	}
	argv := []string{name}
	unknown := -1
	for i, w := range c.Argv[1:] {
		if !w.Known {
			unknown = i + 1
			break
		}
		text, ok := j.text(w)
		if !ok {
			unknown = i + 1
			break
		}
		argv = append(argv, text)
	}
	shown := show(c.Argv)
	if strings.Contains(name, "/") && j.Policy.CheckCommand(name, argv).Allow && !j.exists(name) {
		j.doubt(c.Argv[0].Text, "is a program that doesn't exist yet")
		return
	}
	if unknown < 0 {
		a := j.commandAnswer(argv)
		j.noteListed(a)
		j.take(target{q: explain.Question{Resource: policy.Commands}, shown: shown, capability: "execute"}, a)
		return
	}
	// No argument is this one: a rule that accepts it accepts any.
	a := j.commandAnswer(append(argv, "\x00"))
	switch {
	case a.Decision == Allow:
		j.noteListed(a)
		a.Target = shown
		j.take(target{q: explain.Question{Resource: policy.Commands}, shown: shown, capability: "execute"}, a)
	case a.Reason == policy.ArgsNotListed:
		j.doubt(c.Argv[unknown].Text, fmt.Sprintf("is an argument of %s that isn't known, and the policy limits its arguments", path.Base(name)))
	default:
		j.take(target{q: explain.Question{Resource: policy.Commands}, shown: shown, capability: "execute"}, a)
	}
}

func (j *judge) commandAnswer(argv []string) explain.Answer {
	_, a := explain.Ask(j.Policy, j.Files, explain.Question{Resource: policy.Commands, Argv: argv})
	return a
}

// noteListed remembers whether a rule names the command.
func (j *judge) noteListed(a explain.Answer) {
	j.listed = j.listed && a.Rule != nil && a.Rule.Command != nil && !a.Rule.Builtin()
}

// variable judges what a command line assigns for a command.
func (j *judge) variable(v program.Variable, dir program.Word) {
	kind := program.RiskyVariable(v.Name)
	switch {
	case kind == program.Plain:
	case kind == program.CommandLine && v.Value.Known:
		j.script(&program.Script{Text: v.Value.Text, Shell: "sh", Dir: dir}, 1)
	case kind == program.CommandPrefix:
		j.effects(program.Extended(v.Value, dir), 1)
	case kind == program.CommandLine:
		j.doubt(v.Name, "is assigned a command that isn't known")
	case v.Value.Known && !program.HarmfulValue(v.Name, v.Value.Text):
	case v.Name == "PYTHONPATH" && j.inWorkspace(v.Value): // python runs the programs of the workspace anyway
	default:
		j.doubt(v.Name, "is assigned, and programs load or execute what it names")
	}
}

// inWorkspace reports whether a list of folders is known, and all of them are in the workspace.
func (j *judge) inWorkspace(w program.Word) bool {
	if !w.Known || w.Text == "" {
		return false
	}
	for dir := range strings.SplitSeq(w.Text, ":") {
		resolved, err := j.Policy.ResolveTarget(j.Files, absolute(j.dir, dir), true)
		if err != nil || !fspath.Within(resolved, j.Policy.Workspace) {
			return false
		}
	}
	return true
}

// clip shortens a text for a message.
func clip(s string) string { return clipTo(s, 100) }

func clipTo(s string, most int) string {
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

func show(argv []program.Word) string {
	parts := make([]string, 0, len(argv))
	for _, w := range argv {
		parts = append(parts, w.Text)
	}
	return clip(strings.Join(parts, " "))
}
