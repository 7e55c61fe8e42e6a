package policy

import (
	"path"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// ResolveTarget returns the path that the kernel would decide on if a process in the workspace opened input: it resolves symlinks and ".."
// in order, and appends components that don't exist yet. follow is whether to follow a symlink in the last component, which to
// remove and to rename don't.
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

// CheckFSInput resolves input and decides. p is the resolved path, or the input if it can't be resolved.
func (c *Compiled) CheckFSInput(sys fspath.FileSystem, input string, want Caps) (v Verdict, p string) {
	if want&Delete != 0 && want != Delete {
		if v, p := c.CheckFSInput(sys, input, want&^Delete); !v.Allow {
			return v, p
		}
		want = Delete
	}
	return c.CheckInput(sys, input, want != Delete, want)
}

// CheckInput is CheckFSInput for one operation that follows a symlink in the last component, or doesn't.
func (c *Compiled) CheckInput(sys fspath.FileSystem, input string, follow bool, want Caps) (v Verdict, p string) {
	p, err := c.ResolveTarget(sys, input, follow)
	if err != nil {
		return Verdict{Reason: PathUnresolved, Layer: -1, Rule: NoMatch}, input
	}
	id, err := c.LinkedFile(sys, p)
	if err != nil {
		return Verdict{Reason: PathUnresolved, Layer: -1, Rule: NoMatch}, input
	}
	v = c.CheckFile(p, id, want)
	if v.Reason == NoRule {
		v.Reason = c.UnmatchedReason(input, p)
	}
	return v, p
}

// UnmatchedReason returns the reason for a path that no rule matches, by its position: in the workspace, outside of it, or outside
// although input looked as if it were in the workspace.
func (c *Compiled) UnmatchedReason(input, p string) Reason {
	switch {
	case fspath.Within(p, c.Workspace):
		return NoRule
	case !strings.HasPrefix(input, "/"), fspath.Within(path.Clean(input), c.Workspace):
		return WorkspaceEscape
	}
	return OutsideWorkspace
}
