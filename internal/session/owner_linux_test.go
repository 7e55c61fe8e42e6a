package session

import (
	"os"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// Root gets the notice about permissions only if they prevent writing in the workspace.
func TestNoticeOfAnotherOwner(t *testing.T) {
	childtest.NeedsRoot(t)
	dir := t.TempDir()
	write := policy.SourceLayer{Authority: policy.Session, FS: []policy.FSRule{{Path: dir, Caps: policy.Read | policy.Write}}}
	read, kept := write, write
	read.FS = []policy.FSRule{{Path: dir, Caps: policy.Read}}
	kept.Capabilities = []string{"CAP_DAC_OVERRIDE"}
	for _, x := range []struct {
		layer policy.SourceLayer
		owner int
		want  bool
	}{{write, 0, false}, {write, 65534, true}, {read, 65534, false}, {kept, 65534, false}} {
		must(t, os.Chown(dir, x.owner, x.owner))
		c, err := policy.Compile(&policy.Source{Name: "test", Workspace: dir, Home: "/", Layers: []policy.SourceLayer{x.layer}}, hostfs.Machine{})
		must(t, err)
		notice := ""
		r := &run{cfg: Config{Policy: c, Notice: func(s string) { notice += s }}}
		if r.noticePermissions(); strings.Contains(notice, dir+" belongs to user 65534") != x.want || !x.want && notice != "" {
			t.Errorf("%+v: %q", x.layer, notice)
		}
	}
}
