package gate

import (
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// Executed is the command that a call runs.
type Executed struct {
	Script string   // a text for a shell
	Argv   []string // or what is executed as it is; both are empty for a call that runs no command
	Dir    string   // the working directory, absolute
	Why    string   // why the command isn't known exactly; "": it is
}

// ExecutedBy returns the command that a call runs, as the gate finds it in its arguments. home is the user's, or "".
func ExecutedBy(c *Call, s *toolset.Settings, workspace, home string) Executed {
	e := Executed{Dir: workspace}
	w, err := values(c.Arguments, rolesOf(s))
	if err != nil {
		e.Why = err.Error()
		return e
	}
	dirs := w.cwds
	if c.Cwd != "" {
		dirs = append([]string{c.Cwd}, dirs...)
	}
	for _, dir := range dirs { // each is relative to the one before, as the gate reads them
		list, why := readings(dir, home)
		if why != "" || len(list) == 0 {
			e.Why = "its working directory isn't known"
			return e
		}
		e.Dir = absolute(e.Dir, list[len(list)-1])
	}
	if len(w.cwds) > 1 {
		e.Why = "it names several working directories"
	}
	e.find(w, s)
	if e.Script == "" && e.Argv == nil && e.Why == "" && s.Kind == "execute" {
		e.Why = "what it executes isn't known"
	}
	e.Dir = path.Clean(e.Dir)
	return e
}

// find finds the command among the values of a call.
func (e *Executed) find(w *walker, s *toolset.Settings) {
	commands := 0
	for i := range w.values {
		v := &w.values[i]
		switch key := fold(v.key); {
		case isEnvironment(v.key), v.in != nil && isEnvironment(v.in.key):
			e.Why = "it sets variables of its own"
		case s.Kind == "execute" && v.role == "" && (key == "shell" || key == "commands"):
			e.Why = "it names the shell, or several commands"
		case v.role != roleCommand && v.role != roleArgv:
		default:
			commands++
			e.Script, e.Argv = v.text, v.list
		}
	}
	if commands > 1 {
		e.Script, e.Argv, e.Why = "", nil, "it has several commands, or a command with further arguments"
	}
}

// isEnvironment reports whether a key is that of the environment of a command.
func isEnvironment(key string) bool {
	return slices.Contains(environments, strings.NewReplacer("_", "", "-", "").Replace(fold(key)))
}
