package shell

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/tool/program"
)

// value is a word with what arithmetic and splitting need to know.
type value struct {
	program.Word
	numeric bool // unknown, but a number: $?, $#, ${#x}, $((…))
}

func literal(text string) value { return value{Word: program.Literal(text)} }

// variable is a variable that the script may have assigned.
type variable struct {
	name     string
	value    value
	exported bool // or may be: it may have come with the environment
}

// state is what's known at one point of a script, on each way that leads there. It's immutable. A nil *state is a point that isn't reached.
type state struct {
	vars []variable         // by name
	env  []program.Variable // the exported ones
	dirs []program.Word     // each possible working directory
	lost []program.Word     // those of dirs where the shell only is if a cd failed
}

// functionPrefix begins the name of the variable that stands for a function: its value is known where the function is certainly defined.
const functionPrefix = "()"

// defined reports whether a function is certainly defined.
func (a *analyzer) defined(function string, st *state) bool {
	v, ok := st.lookup(functionPrefix + function)
	return ok && v.value.Known && !a.scan.volatileFuncs()
}

var unknownDir = program.Word{Text: "$PWD"}

// startState is the state in which a script begins. What a loop or a function assigns may be assigned at any time.
func (a *analyzer) startState(s *program.Script) *state {
	st := &state{dirs: []program.Word{s.Dir}}
	if s.Dir == (program.Word{}) {
		st.dirs[0] = program.Literal("")
	}
	for _, v := range s.Env {
		st = a.set(st, variable{v.Name, value{Word: v.Value}, true})
	}
	for name := range a.scan.volatile {
		if a.inheritable(name) || a.scan.exported[name] {
			st = a.set(st, variable{name, unknownValue(name), true})
		}
	}
	return st
}

// functionState is the state in which a function's body begins: the function may be called at any time.
func (a *analyzer) functionState() *state {
	st := &state{dirs: a.start.dirs}
	for _, v := range a.start.vars {
		st = a.set(st, variable{v.name, unknownValue(v.name), v.exported})
	}
	if a.scan.cd {
		st.dirs = []program.Word{unknownDir}
	}
	for name := range a.scan.assigned {
		if a.inheritable(name) || a.scan.exported[name] {
			st = a.set(st, variable{name, unknownValue(name), true})
		}
	}
	return st
}

func unknownValue(name string) value { return value{Word: program.Word{Text: "$" + name}} }

func (st *state) lookup(name string) (variable, bool) {
	i, ok := slices.BinarySearchFunc(st.vars, name, func(v variable, name string) int { return strings.Compare(v.name, name) })
	if !ok {
		return variable{}, false
	}
	return st.vars[i], true
}

// set returns the state with a variable.
func (a *analyzer) set(st *state, v variable) *state {
	if len(v.value.Text) > maxValue {
		v.value = unknownValue(v.name)
	}
	i, found := slices.BinarySearchFunc(st.vars, v.name, func(v variable, name string) int { return strings.Compare(v.name, name) })
	next := &state{dirs: st.dirs, lost: st.lost}
	switch {
	case found && st.vars[i] == v:
		return st
	case found:
		next.vars = slices.Clone(st.vars)
		next.vars[i] = v
	case len(st.vars) < maxVariables:
		next.vars = slices.Insert(slices.Clone(st.vars), i, v)
	case v.exported:
		a.unclear(v.name, "is one of too many variables")
		return st
	default:
		return st
	}
	next.env = environment(next.vars)
	return next
}

func environment(vars []variable) (env []program.Variable) {
	for _, v := range vars {
		if v.exported {
			env = append(env, program.Variable{Name: v.name, Value: v.value.Word})
		}
	}
	return env
}

func (st *state) in(dirs ...program.Word) *state {
	slices.SortFunc(dirs, func(a, b program.Word) int { return strings.Compare(a.Text, b.Text) })
	dirs = slices.Compact(dirs)
	if len(dirs) > maxDirs || slices.ContainsFunc(dirs, func(d program.Word) bool { return !d.Known }) {
		dirs = []program.Word{unknownDir}
	}
	return &state{vars: st.vars, env: st.env, dirs: dirs}
}

// failedCd returns the state after a cd that failed.
func (st *state) failedCd() *state {
	return &state{vars: st.vars, env: st.env, dirs: st.dirs, lost: st.dirs}
}

// regular returns the directories in which the shell is although no cd failed.
func (st *state) regular() (dirs []program.Word) {
	for _, dir := range st.dirs {
		if !slices.Contains(st.lost, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// joinDirs returns x in the directories of either.
func joinDirs(x, y *state) *state {
	if slices.Equal(x.dirs, y.dirs) && slices.Equal(x.lost, y.lost) {
		return &state{vars: x.vars, env: x.env, dirs: x.dirs, lost: x.lost}
	}
	j := x.in(append(slices.Clone(x.dirs), y.dirs...)...)
	regular := append(x.regular(), y.regular()...)
	for _, dir := range j.dirs {
		if !slices.Contains(regular, dir) {
			j.lost = append(j.lost, dir)
		}
	}
	return j
}

// join returns the state after either of two ways.
func (a *analyzer) join(x, y *state) *state {
	switch {
	case x == nil || x == y:
		return y
	case y == nil:
		return x
	}
	j := joinDirs(x, y)
	if slices.Equal(x.vars, y.vars) {
		return j
	}
	for _, v := range x.vars {
		if w, ok := y.lookup(v.name); w != v {
			j = a.set(j, variable{v.name, joinValues(v, w, ok), v.exported || w.exported})
		}
	}
	for _, w := range y.vars {
		if v, ok := x.lookup(w.name); !ok {
			j = a.set(j, variable{w.name, joinValues(v, w, false), w.exported})
		}
	}
	return j
}

func joinValues(v, w variable, both bool) value {
	if both && v.value == w.value {
		return v.value
	}
	name := cmp.Or(v.name, w.name)
	u := unknownValue(name)
	u.numeric = both && isNumeric(v.value) && isNumeric(w.value)
	return u
}

// joinDir returns the directory that cd reaches. Shells resolve .. by name (cd -L).
func joinDir(dir, to program.Word) program.Word {
	switch {
	case !to.Known, len(dir.Text)+len(to.Text) > maxValue:
		return unknownDir
	case to.Home && strings.Contains(to.Text, ".."):
		return unknownDir
	case to.Home || strings.HasPrefix(to.Text, "/"):
		to.Text = path.Clean(to.Text)
		return to
	case !dir.Known:
		return unknownDir
	case dir.Text == "":
		return program.Literal(cleanDir(to.Text))
	}
	if dir.Home && strings.Contains(to.Text, "..") {
		return unknownDir
	}
	dir.Text = cleanDir(path.Join(dir.Text, to.Text))
	return dir
}

func cleanDir(dir string) string {
	if dir = path.Clean(dir); dir == "." {
		return ""
	}
	return dir
}

// inheritable reports whether a variable may have come with the environment, so that its assignment changes what programs get.
func (a *analyzer) inheritable(name string) bool {
	lower := strings.ToLower(name)
	return a.scan.allExport || name != lower && strings.ToUpper(name) == name || strings.HasSuffix(name, "_proxy") || strings.HasPrefix(lower, "npm_config_")
}
