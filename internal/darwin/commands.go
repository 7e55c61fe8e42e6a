package darwin

import (
	"maps"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
)

// restrictsCommands reports whether some layer allows only the programs that it lists.
func (p *profile) restrictsCommands() bool {
	return slices.ContainsFunc(p.layers(), func(l *policy.Layer) bool { return l.Defaults[policy.Commands] == policy.Deny })
}

// programs writes the rule for the programs that every layer lists. An interpreter that executes a script needs execute alone.
func (p *profile) programs() {
	listed := map[string]bool{}
	for _, l := range p.layers() {
		for _, r := range l.Commands.Rules() {
			if program := r.Command.Program; program != "" && p.mayExecute(program) {
				listed[program] = true
			}
		}
	}
	var filters []string
	for _, program := range slices.Sorted(maps.Keys(listed)) {
		for _, s := range spelled(program) {
			filters = append(filters, p.literal(s))
		}
	}
	p.comment("execute, as a command")
	p.rule(true, executeOps, filters...)
}

func (p *profile) mayExecute(program string) bool {
	if p.c.Caps(program)&policy.Execute == 0 {
		return false
	}
	return !slices.ContainsFunc(p.layers(), func(l *policy.Layer) bool {
		return l.Defaults[policy.Commands] == policy.Deny && len(l.Commands.Of(program)) == 0
	})
}
