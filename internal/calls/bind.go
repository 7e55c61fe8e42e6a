package calls

import (
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/binding"
	"github.com/toolguard/toolguard/internal/tool/gate"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// Bound is what the approval of a call is bound to, beyond its arguments.
type Bound struct {
	Argv      []string // nil for a call that runs no command
	Cwd       string
	Exe       *message.File
	Files     []message.File
	EnvSHA256 string
	WhyOnce   string // why it can't be allowed once and for all; "": it can

	command *binding.Bound // nil: there are no files to compare
}

// Binder determines what approvals are bound to.
type Binder struct {
	Env       []string // of the session's command
	Shell     string   // that executes texts, as [gate] has it
	Workspace string
	Home      string // "": it isn't known
}

// bind determines what the approval of a call is bound to. The error is that of a command that can't run at all.
func (b *Binder) bind(c *gate.Call, s *toolset.Settings) (*Bound, error) {
	e := gate.ExecutedBy(c, s, b.Workspace, b.Home)
	if e.Script == "" && len(e.Argv) == 0 {
		return &Bound{Cwd: e.Dir, WhyOnce: e.Why}, nil
	}
	command, err := binding.Of(binding.Call{Argv: e.Argv, Script: e.Script, Shell: b.Shell, Cwd: e.Dir, Env: b.Env})
	if err != nil {
		return nil, err
	}
	out := &Bound{
		Argv: command.Argv, Cwd: command.Cwd, Exe: command.Exe, Files: command.Files, EnvSHA256: command.EnvSHA256, WhyOnce: e.Why, command: &command,
	}
	if !command.Unique && out.WhyOnce == "" {
		out.WhyOnce = command.Why
	}
	return out, nil
}

// check returns an error if the files aren't those that the approval is bound to any more.
func (b *Bound) check() error {
	if b.command == nil {
		return nil
	}
	return binding.Check(b.command)
}
