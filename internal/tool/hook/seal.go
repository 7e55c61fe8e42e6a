package hook

import (
	"errors"
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/binding"
)

// Seal returns a Runner.Check that rejects programs which have changed since Seal was called, before the session began: the session may be able to
// write them. Their executables, interpreters and scripts are compared, as for approvals. What these load in turn isn't.
func Seal(hooks []*toolset.Hook, env []string) func(*toolset.Hook) error {
	type sealed struct {
		bound binding.Bound
		err   error
	}
	all := map[*toolset.Hook]sealed{}
	for _, h := range hooks {
		if h.URL == "" {
			b, err := bind(h, env)
			all[h] = sealed{b, err}
		}
	}
	return func(h *toolset.Hook) error {
		s, ok := all[h]
		switch {
		case !ok:
			return errors.New("it wasn't there when the session began")
		case s.err != nil:
			return s.err
		}
		if err := binding.Check(&s.bound); err != nil {
			return fmt.Errorf("its program isn't the one of the session's begin: %w; if you have changed it, start a new session", err)
		}
		return nil
	}
}

func bind(h *toolset.Hook, env []string) (binding.Bound, error) {
	file, err := find(h.Command[0], h.Dir, env)
	if err != nil {
		return binding.Bound{}, err
	}
	b, err := binding.Of(binding.Call{Argv: append([]string{file}, h.Command[1:]...), Cwd: h.Dir, Env: env})
	if err == nil && (b.Exe == nil || strings.Contains(b.Why, "can't be read")) { // a file that is made after Check would be executed
		err = fmt.Errorf("a file that it executes didn't exist when toolguard began: %s; start again when it does", b.Why)
	}
	return b, err
}
