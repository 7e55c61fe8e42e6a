package landlock

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// commands adds a row for each command rule of a layer.
func (k *reporter) commands(l *policy.Layer) {
	for _, r := range l.Commands.Rules() {
		k.add(r, command(l, r.Command))
	}
}

func command(l *policy.Layer, c *policy.CompiledCommand) result {
	switch {
	case !c.AnyArgs():
		return notEnforceable("landlock sees which program is executed, not its arguments or its argument 0")
	case c.HasEnvs:
		return notEnforceable("the variables of a single program can't be filtered from outside it")
	case !restricts(l, policy.Commands):
		return enforced("everything else is allowed too")
	case c.Program == "":
		return enforced("no such program was found, so nothing is granted")
	}
	in, err := inspect(c.Program)
	if err != nil {
		return partlyEnforced("the program can't be read, so its interpreter can't be granted: " + err.Error())
	}
	var more []string
	for _, p := range in.interpreters {
		if !listed(l, p) {
			more = append(more, p)
		}
	}
	if more != nil {
		return partlyEnforced(fmt.Sprintf("it's a script, so %s must be executable, and then can be executed without it as well: list it as a command",
			strings.Join(more, " and ")))
	}
	return enforced("")
}

// listed reports whether a program may be executed with any arguments under the layer's own rules.
func listed(l *policy.Layer, program string) bool {
	return slices.ContainsFunc(l.Commands.Rules(), func(r *policy.Rule) bool { return r.Command.Program == program })
}
