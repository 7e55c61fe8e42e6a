package bubblewrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/toolguard/toolguard/internal/mounts"
)

// canary is what the session of a canary does, in a folder that it may write. It prints one word for each operation that had the expected result.
const canary = `
echo x >"$1" && echo wrote
(echo x >masked/"$1") 2>/dev/null || echo read-only
(read -r x <hidden) 2>/dev/null || echo hidden
(read -r x <covered/file) 2>/dev/null || echo covered
mv above moved 2>/dev/null || echo pinned
[ "$$" -lt 9 ] && echo pids
`

const expected = "wrote\nread-only\nhidden\ncovered\npinned\npids\n"

// Canary checks in a session of its own that bubblewrap works on this machine, and denies: what may be written is, a masked folder can't be
// written, hidden ones can't be read, and a folder above a mask can't be moved.
func (p Program) Canary() error {
	tree, err := mounts.NewCanaryTree()
	if err != nil {
		return err
	}
	return errors.Join(p.runCanary(tree.Dir, tree.Name), tree.Remove())
}

func (p Program) runCanary(dir, name string) error {
	args, err := Args(canaryPlan(dir), Options{Dir: dir}, []string{"/bin/sh", "-c", canary, "sh", name})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, p.Path, args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = []string{"PATH=/usr/bin:/bin"}, "/", &out, &errs
	if err := cmd.Run(); err != nil && out.Len() == 0 {
		return explain(err, errs.String())
	}
	if out.String() != expected {
		return fmt.Errorf("its canary had the results %q instead of %q: %s", out.String(), expected, errs.String())
	}
	return nil
}

// canaryPlan is a plan with a mount of each kind.
func canaryPlan(dir string) *mounts.Plan {
	return &mounts.Plan{PrivateTmp: true, Mounts: []mounts.Mount{
		{Path: "/", Mode: mounts.ReadOnly, Dir: true},
		{Path: "/tmp", Mode: mounts.Hidden, Dir: true},
		{Path: dir, Mode: mounts.ReadWrite, Dir: true},
		{Path: dir + "/above", Mode: mounts.ReadWrite, Dir: true},
		{Path: dir + "/above/below", Mode: mounts.ReadOnly, Dir: true},
		{Path: dir + "/covered", Mode: mounts.Hidden, Dir: true},
		{Path: dir + "/hidden", Mode: mounts.Hidden},
		{Path: dir + "/masked", Mode: mounts.ReadOnly, Dir: true},
	}}
}
