package launch

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/envname"
)

// Environ returns the variables of env that the command gets, and the names of the others, each once. Entries that aren't NAME=VALUE are dropped,
// because no rule can name them. TMPDIR is the session's own, if it has one. So is TMUX_TMPDIR, unless the policy passes it: tmux creates its
// socket there or in /tmp, where the socket of the user's own server is.
func Environ(c *policy.Compiled, program string, env []string) (keep, removed []string) {
	allowed := commandEnvs(c, program)
	for _, kv := range env {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" || (name == "TMPDIR" && c.TmpDir != "") {
			continue
		}
		if c.CheckVariable(name, value).Allow && (allowed == nil || slices.Contains(allowed, name) || envname.IsShellState(name)) {
			keep = append(keep, kv)
		} else if !slices.Contains(removed, name) {
			removed = append(removed, name)
		}
	}
	if c.TmpDir != "" {
		keep = append(keep, "TMPDIR="+c.TmpDir)
		if !slices.ContainsFunc(keep, func(kv string) bool { return strings.HasPrefix(kv, "TMUX_TMPDIR=") }) {
			keep = append(keep, "TMUX_TMPDIR="+c.TmpDir)
		}
	}
	return keep, removed
}

// commandEnvs lists the variables that the rules for program let it see, in every layer that has such a rule; nil when
// none has.
func commandEnvs(c *policy.Compiled, program string) []string {
	var names []string
	narrowed := false
	for _, r := range c.Rules {
		if r.Command == nil || !r.Command.HasEnvs || r.Command.Program != program {
			continue
		}
		if !narrowed {
			names, narrowed = append([]string{}, r.Command.Envs...), true
			continue
		}
		names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(r.Command.Envs, n) })
	}
	return names
}
