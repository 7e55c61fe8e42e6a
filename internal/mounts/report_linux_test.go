package mounts_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/mounts"
	"github.com/toolguard/toolguard/internal/mounts/mountstest"
	"github.com/toolguard/toolguard/internal/policy"
)

const (
	r   = policy.Read
	w   = policy.Write
	x   = policy.Execute
	rwx = r | w | x
)

// program makes no mounts: these tests are about plans and reports.
var program = mountstest.Program{Report: func(c *policy.Compiled, p *mounts.Plan, abi int) []policy.Enforceability {
	return p.Report(landlock.Report(c, abi), "mounts", abi)
}}

// TestAutomatic leaves rows of protect = "auto" advisory.
func TestAutomatic(t *testing.T) {
	s := program.New(t, mountstest.Tree(t, "/var/tmp", os.Getuid(), ".git/hooks/"), mountstest.Restricted(policy.ProtectAuto, mountstest.Rule(".", rwx)))
	if row := s.Row(t, "protect.1"); row.Status != policy.Partly || !row.Advisory {
		t.Errorf("%+v", row)
	}
}

// TestSymlinks rejects a pattern that matches a symlink, which has no mount.
func TestSymlinks(t *testing.T) {
	ws := mountstest.Tree(t, "/var/tmp", os.Getuid(), "hooks/", ".git/")
	childtest.Must(t, os.Symlink("../hooks", ws+"/.git/hooks"))
	s := program.New(t, ws, mountstest.Restricted(policy.ProtectOn, mountstest.Rule(".", rwx)))
	s.Want(t, "protect.1", policy.NotEnforceable, ".git/hooks is a symlink")
}

// TestMissing rejects rules for names that don't exist yet where the session could make them.
func TestMissing(t *testing.T) {
	s := program.New(t, mountstest.Tree(t, "/var/tmp", os.Getuid(), "dir/"), mountstest.Layer(mountstest.Rule(".", r|w), mountstest.Rule("later", r), mountstest.Rule("dir", r), mountstest.Rule("dir/later", r)))
	s.Want(t, "fs.5", policy.NotEnforceable, "later doesn't exist")
	s.Want(t, "fs.7", policy.Enforced, "")
}

// TestInseparable rejects what mounts can't take away alone.
func TestInseparable(t *testing.T) {
	for _, c := range []struct {
		caps policy.Caps
		want string
	}{
		{r | w, "not just execute on"},
		{r, "not just execute on"},
		{r | x | policy.Update, "not just create+delete on"},
		{r | x | policy.Create | policy.Update, "not just delete on"},
		{x, "not just read on"},
		{w | x, "not just read on"},
		{r | x, ""},
		{0, ""},
	} {
		s := program.New(t, mountstest.Tree(t, "/var/tmp", os.Getuid(), "dir/file"), mountstest.Layer(mountstest.Rule(".", rwx), mountstest.Rule("dir", c.caps)))
		row := s.Row(t, "fs.5")
		if (row.Status == policy.Enforced) != (c.want == "") || !strings.Contains(row.Why, c.want) {
			t.Errorf("%v: %+v", c.caps, row)
		}
	}
}

// TestLimit reports patterns as not enforceable where there is too much to search.
func TestLimit(t *testing.T) {
	ws := mountstest.Tree(t, "/var/tmp", os.Getuid(), "sub/deep/.env", ".env")
	for i := range 200 {
		dir := fmt.Sprintf("%s/n%d", ws, i)
		childtest.Must(t, os.Mkdir(dir, 0o755))
		for k := range 100 {
			childtest.Must(t, os.WriteFile(fmt.Sprintf("%s/%d", dir, k), nil, 0o644))
		}
	}
	s := program.New(t, ws, mountstest.Layer(mountstest.Rule(".", r|w), policy.FSRule{Match: "**/.env"}))
	s.Want(t, "fs.5", policy.NotEnforceable, "more than 20000 entries to search, so not every match is covered: 1 is")
	if s.Plan.Mode(ws+"/.env") != mounts.Hidden {
		t.Error(s.Plan.Mounts)
	}
}

// TestSockets doesn't call a rule enforced that leaves unix sockets to a session which can create them.
func TestSockets(t *testing.T) {
	ws := mountstest.Tree(t, "/var/tmp", os.Getuid(), "dir/file", "hidden/file", "file")
	restricted := mountstest.Layer(mountstest.Rule(".", r|w), mountstest.Rule("dir", r), mountstest.Rule("hidden", 0), mountstest.Rule("file", r))
	open := policy.SourceLayer{FS: restricted.FS, Defaults: [policy.NumResources]policy.DefaultAction{policy.FS: policy.Allow}}
	for _, c := range []struct {
		layer policy.SourceLayer
		abi   int
		id    string
		want  policy.Status
	}{
		{restricted, 8, "fs.5", policy.Enforced},
		{restricted, 9, "fs.5", policy.Partly},
		{restricted, 9, "fs.6", policy.Enforced},
		{restricted, 9, "fs.7", policy.Enforced},
		{open, 8, "fs.5", policy.NotEnforceable}, // execute
		{open, 8, "fs.6", policy.Enforced},
	} {
		p := program
		p.ABI = c.abi
		if row := p.New(t, ws, c.layer).Row(t, c.id); row.Status != c.want {
			t.Errorf("ABI %d: %+v", c.abi, row)
		}
	}
}

// TestManyMatches covers no more entries than there can be mounts, and says that.
func TestManyMatches(t *testing.T) {
	ws := mountstest.Tree(t, "/var/tmp", os.Getuid(), "dir/file", "file")
	for i := range 1500 {
		childtest.Must(t, os.WriteFile(fmt.Sprintf("%s/secret%d", ws, i), nil, 0o666))
	}
	s := program.New(t, ws, mountstest.Layer(mountstest.Rule(".", r|w), policy.FSRule{Match: "**/secret*"}, mountstest.Rule("dir/file", r)))
	s.Want(t, "fs.5", policy.NotEnforceable, "more entries match than there can be mounts")
	if row := s.Row(t, "fs.6"); row.Status != policy.Enforced || s.Plan.Mode(ws+"/dir/file") != mounts.ReadOnly || len(s.Plan.Mounts) > mounts.MaxMounts {
		t.Errorf("%+v", row)
	}
}

// TestRestored rejects a rule that Landlock enforces by the rule around it, where a mount takes away what that one denies.
func TestRestored(t *testing.T) {
	ws := mountstest.Tree(t, "/var/tmp", os.Getuid(), "dir/sub/file")
	s := program.New(t, ws, mountstest.Layer(mountstest.Rule(".", r|w), mountstest.Rule("dir", r), mountstest.Rule("dir/sub", r|policy.Update)))
	if row := s.Row(t, "fs.5"); row.Status != policy.Enforced || s.Plan.Mode(ws+"/dir") != mounts.ReadOnly {
		t.Errorf("%+v", row)
	}
	s.Want(t, "fs.6", policy.NotEnforceable, "not just create+delete on")
}

// TestExemptions covers what a pattern decides on that doesn't have the exemption of the folder it's in, and nothing that a rule exempts.
func TestExemptions(t *testing.T) {
	ws := mountstest.Tree(t, "/var/tmp", os.Getuid(), "dir/.env", ".git/hooks/")
	exempt := policy.FSRule{Path: ".", Caps: r | w, Secret: true, Unprotect: true}
	s := program.New(t, ws, mountstest.Restricted(policy.ProtectOn, exempt))
	for _, id := range []string{"protect.1", "secrets.1"} {
		s.Want(t, id, policy.Enforced, "")
	}
	if s.Plan.Mode(ws+"/dir/.env") != mounts.ReadWrite || s.Plan.Mode(ws+"/.git/hooks") != mounts.ReadWrite {
		t.Error(s.Plan.Mounts)
	}
	s = program.New(t, ws, mountstest.Restricted(policy.ProtectOn, exempt, policy.FSRule{Match: "**/.env", Caps: r | w}))
	if row := s.Row(t, "secrets.1"); row.Status != policy.Partly || s.Plan.Mode(ws+"/dir/.env") != mounts.Hidden {
		t.Errorf("%+v", row)
	}
	s = program.New(t, ws, mountstest.Restricted(policy.ProtectOn, mountstest.Rule(".", r|w), policy.FSRule{Path: "dir/.env", Caps: r | w, Secret: true}))
	if s.Plan.Mode(ws+"/dir/.env") != mounts.ReadWrite || s.Plan.Mode(ws+"/.git/hooks") != mounts.ReadOnly {
		t.Error(s.Plan.Mounts)
	}
}

// TestAuthorities covers what any of two authorities denies.
func TestAuthorities(t *testing.T) {
	ws := mountstest.Tree(t, "/var/tmp", os.Getuid(), "a/file", "b/file", "c/file")
	outer := mountstest.Layer(mountstest.Rule(".", r|w), mountstest.Rule("a", r), mountstest.Rule("c", 0))
	outer.Authority = policy.Global
	s := program.New(t, ws, outer, mountstest.Layer(mountstest.Rule(".", r|w), mountstest.Rule("b", 0), mountstest.Rule("c/file", r)))
	for path, want := range map[string]mounts.Mode{"": mounts.ReadWrite, "/a": mounts.ReadOnly, "/b": mounts.Hidden, "/c": mounts.Hidden, "/c/file": mounts.Hidden} {
		if got := s.Plan.Mode(ws + path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	for _, id := range []string{"global.fs.5", "global.fs.6", "fs.5", "fs.6"} {
		s.Want(t, id, policy.Enforced, "")
	}
}

// TestLinksLimit doesn't call a rule enforced whose folder has too much to search for hard links, or has folders that can't be searched.
func TestLinksLimit(t *testing.T) {
	ws := mountstest.Tree(t, "/var/tmp", os.Getuid(), "large/f", "small/f", "file")
	for i := range mounts.MaxEntries {
		childtest.Must(t, os.WriteFile(fmt.Sprintf("%s/large/%d", ws, i), nil, 0o644))
	}
	s := program.New(t, ws, mountstest.Layer(mountstest.Rule(".", r|w), mountstest.Rule("file", r), mountstest.Rule("large", r)))
	if row := s.Row(t, "fs.6"); row.Status != policy.Partly || row.Why != "there are more than 20000 entries to search for hard links" {
		t.Errorf("%+v", row)
	}
	s.Want(t, "fs.5", policy.Enforced, "")
	s = program.New(t, ws, mountstest.Layer(mountstest.Rule(".", r|w), mountstest.Rule("small", r)))
	s.Want(t, "fs.5", policy.Enforced, "") // what no rule masks isn't searched
}

// TestManyLinks names one of the files with hard links, and their number. A folder that is seen twice by a bind mount has its names once.
func TestManyLinks(t *testing.T) {
	ws := mountstest.Tree(t, "/var/tmp", os.Getuid(), "dir/a", "dir/b", "other/", "alias/")
	for _, name := range []string{"a", "b"} {
		childtest.Must(t, os.Link(ws+"/dir/"+name, ws+"/other/"+name))
	}
	if os.Getuid() == 0 {
		childtest.Must(t, unix.Mount(ws+"/dir", ws+"/alias", "", unix.MS_BIND, ""))
		defer func() { childtest.Must(t, unix.Unmount(ws+"/alias", unix.MNT_DETACH)) }()
	}
	s := program.New(t, ws, mountstest.Layer(mountstest.Rule(".", r|w), mountstest.Rule("dir", r)))
	row := s.Row(t, "fs.5")
	if row.Status != policy.Partly || !strings.Contains(row.Why, "2 files, such as ") || !strings.Contains(row.Why, "/a, have hard links that no mount covers") {
		t.Errorf("%+v", row)
	}
}
