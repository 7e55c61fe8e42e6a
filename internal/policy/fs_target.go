package policy

import (
	"path"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// ResolveTarget is the path that the kernel would decide on when a process in the workspace asks for input: symlinks
// and ".." in order, with what doesn't exist yet appended. follow is whether a symlink in the last component is
// followed, which removing and renaming don't.
func (c *Compiled) ResolveTarget(sys fspath.FileSystem, input string, follow bool) (string, error) {
	switch {
	case input == "":
		return "", fspath.ErrEmpty
	case strings.IndexByte(input, 0) >= 0:
		return "", fspath.ErrNUL
	case len(input) > fspath.MaxPath:
		return "", fspath.ErrTooLong
	case !strings.HasPrefix(input, "/"):
		input = c.Workspace + "/" + input
	}
	got, err := fspath.NewResolver(sys).Resolve(input, follow)
	if err != nil {
		return "", err
	}
	if !fspath.IsCanonical(got.Path) {
		return "", fspath.ErrTooLong
	}
	return got.Path, nil
}

// CheckFSInput resolves what somebody asked for and decides. p is what was decided on, or the input when it can't be
// resolved.
func (c *Compiled) CheckFSInput(sys fspath.FileSystem, input string, want Caps) (v Verdict, p string) {
	if want&Delete != 0 && want != Delete {
		if v, p := c.CheckFSInput(sys, input, want&^Delete); !v.Allow {
			return v, p
		}
		want = Delete
	}
	return c.CheckInput(sys, input, want != Delete, want)
}

func (c *Compiled) CheckInput(sys fspath.FileSystem, input string, follow bool, want Caps) (v Verdict, p string) {
	p, err := c.ResolveTarget(sys, input, follow)
	if err != nil {
		return Verdict{Reason: PathUnresolved, Layer: -1, Rule: NoMatch}, input
	}
	id, err := c.FileAt(sys, p)
	if err != nil {
		return Verdict{Reason: PathUnresolved, Layer: -1, Rule: NoMatch}, input
	}
	v = c.CheckFile(p, id, want)
	if v.Reason == NoRule {
		v.Reason = c.OutsideReason(input, p)
	}
	return v, p
}

// OutsideReason is the reason why no rule matched a path: there is none for it, or it's not even in the workspace. An input
// that looked as if it were is an escape.
func (c *Compiled) OutsideReason(input, p string) Reason {
	switch {
	case fspath.Within(p, c.Workspace):
		return NoRule
	case !strings.HasPrefix(input, "/"), fspath.Within(path.Clean(input), c.Workspace):
		return WorkspaceEscape
	}
	return OutsideWorkspace
}
