package mounts

import (
	"os"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// TestCovers checks that a file outside of all grants isn't covered, as Landlock denies opening it again, and that one beneath a mask is.
func TestCovers(t *testing.T) {
	dir := t.TempDir()
	l := policy.SourceLayer{Authority: policy.Session, FS: []policy.FSRule{{Path: dir, Caps: policy.AllCaps}, {Path: dir + "/ro", Caps: policy.Read}}}
	l.Defaults[policy.FS] = policy.Deny
	c := policytest.CompileSource(t, &policy.Source{Name: "test", Workspace: dir, Home: dir, Layers: []policy.SourceLayer{l}}, hostfs.Machine{})
	p, err := New(c, Host{}, Options{})
	childtest.Must(t, err)
	for path, want := range map[string]policy.Caps{
		dir + "/file": 0, dir + "/ro/file": policy.Write | policy.Execute, "/etc/passwd": 0,
	} {
		if got := p.Covers(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

// TestFolderInTmp checks that a working folder within a granted one in /tmp has no mount of its own, which would be read-only.
func TestFolderInTmp(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "mounts-")
	childtest.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	childtest.Must(t, os.Mkdir(dir+"/sub", 0o755))
	l := policy.SourceLayer{Authority: policy.Session, FS: []policy.FSRule{{Path: dir, Caps: policy.AllCaps}}}
	l.Defaults[policy.FS] = policy.Deny
	c := policytest.CompileSource(t, &policy.Source{Name: "test", Workspace: dir, Home: dir, Layers: []policy.SourceLayer{l}}, hostfs.Machine{})
	p, err := New(c, Host{}, Options{Visible: []string{dir + "/sub"}})
	childtest.Must(t, err)
	if m := p.Mode(dir + "/sub"); m != ReadWrite {
		t.Errorf("%v: %+v", m, p.Mounts)
	}
}
