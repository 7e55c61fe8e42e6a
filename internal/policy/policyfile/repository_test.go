package policyfile

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// worktrees is a repository in main with a linked worktree in tree and a submodule in main/sub.
func worktrees(t *testing.T) (dir string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir = childtest.TempDir(t)
	const script = `set -e
git init -q other; (cd other; echo 1 >a; git add a; git commit -qm 1)
git init -q main; cd main; echo 1 >a; git add a; git commit -qm 1
git -c protocol.file.allow=always submodule --quiet add ../other sub; git commit -qm 2
git worktree add -q ../tree -b side`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=n", "GIT_AUTHOR_EMAIL=n@example.com", "GIT_COMMITTER_NAME=n", "GIT_COMMITTER_EMAIL=n@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// in compiles policies for a workspace on this machine.
func in(t *testing.T, workspace string, policies ...string) *policy.Compiled {
	t.Helper()
	src, _, err := Load(Request{Policies: policies, Workspace: workspace, Dir: workspace, Home: "/nowhere", Path: "/usr/bin"}, hostfs.Machine{})
	childtest.Must(t, err)
	return policytest.CompileSource(t, src, hostfs.Machine{})
}

// The repository that a linked worktree or a submodule is of may be used as one in the workspace: the files of a commit may be written, and
// the files that other programs obey may not.
func TestRepositoryOfAWorktree(t *testing.T) {
	dir := worktrees(t)
	const common, tree, sub = "/main/.git", "/main/.git/worktrees/tree", "/main/.git/modules/sub"
	for _, policies := range [][]string{nil, {"preset:git"}} {
		for workspace, want := range map[string]map[policy.Caps]string{
			dir + "/tree": {
				policy.Read:  common + "/HEAD " + common + "/config " + common + "/hooks/x " + common + "/packed-refs " + tree + "/HEAD " + tree + "/commondir",
				policy.Write: common + "/objects/ab/x " + common + "/refs/heads/side.lock " + common + "/logs/HEAD " + tree + "/index.lock " + tree + "/COMMIT_EDITMSG",
				0: common + "/HEAD " + common + "/config " + common + "/hooks/x " + common + "/info/attributes " + common + "/config.worktree " + common + "/index " +
					tree + "/commondir " + tree + "/gitdir " + tree + "/config.worktree /main/a /other/.git/config",
			},
			dir + "/main/sub": {
				policy.Read:  sub + "/HEAD " + sub + "/config " + sub + "/hooks/x",
				policy.Write: sub + "/index.lock " + sub + "/objects/ab/x " + sub + "/refs/heads/config " + sub + "/HEAD.lock",
				0:            sub + "/config " + sub + "/hooks/x " + sub + "/info/attributes " + sub + "/config.worktree " + common + "/config " + common + "/index /main/a",
			},
		} {
			c := in(t, workspace, policies...)
			for caps, paths := range want {
				for _, p := range strings.Fields(paths) {
					asked := caps
					if caps == 0 {
						asked = policy.Update
					}
					if v := c.CheckFS(dir+p, asked); v.Allow != (caps != 0) {
						t.Errorf("%v in %s: %s %s: %+v", policies, workspace, asked, p, v)
					}
				}
			}
		}
	}
	a := in(t, dir+"/tree", writing(t, dir))
	_, read := explain.Ask(a, hostfs.Machine{}, explain.Question{Caps: policy.Read, Target: dir + tree + "/HEAD"})
	_, write := explain.Ask(a, hostfs.Machine{}, explain.Question{Caps: policy.Create, Target: dir + common + "/refs/heads/side.lock"})
	_, hook := explain.Ask(a, hostfs.Machine{}, explain.Question{Caps: policy.Create, Target: dir + common + "/hooks/pre-commit"})
	if read.Suggest != "[[access.fs]]\npath = \""+dir+common+"\"\nread = true\n" || !strings.Contains(read.Advice, "preset:git") ||
		!strings.Contains(write.Suggest, "path = \""+dir+common+"/refs\"\nread = true\nwrite = true\n") || hook.Suggest != "" {
		t.Errorf("suggests %q (%s), %q, %q", read.Suggest, read.Advice, write.Suggest, hook.Suggest)
	}
}

// writing is a policy without rules for the repository.
func writing(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "p.toml")
	childtest.Must(t, os.WriteFile(file, []byte("version = 1\n[[access.fs]]\npath = \".\"\nwrite = true\n"), 0o600))
	return file
}

// A .git that a command has written leads nowhere that the command couldn't write.
func TestForgedRepository(t *testing.T) {
	dir := worktrees(t)
	write := func(name, text string) {
		childtest.Must(t, os.MkdirAll(filepath.Dir(dir+name), 0o755))
		childtest.Must(t, os.WriteFile(dir+name, []byte(text), 0o644))
	}
	link := func(name, to string) {
		childtest.Must(t, os.Symlink(dir+to, dir+name))
	}
	write("/home/.ssh/id_rsa", "")
	write("/bad/x", "")
	write("/fake/worktrees/x/gitdir", dir+"/bad/.git\n")
	write("/fake/HEAD", "")
	link("/fake/objects", "/home/.ssh")
	link("/fake/refs", "/home/.ssh")
	for _, to := range []string{
		"/main/.git/worktrees/tree", // another's
		"/main/.git", "/main/.git/modules/sub", "/home", "/home/.ssh", "/nowhere", "", "/bad",
		"/fake/worktrees/x", // whose objects are elsewhere
	} {
		write("/bad/.git", "gitdir: "+dir+to+"\n")
		c := in(t, dir+"/bad", "preset:git")
		if c.Repository != (policy.Repository{}) {
			t.Errorf("%q: %+v", to, c.Repository)
		}
		for _, p := range []string{"/home/.ssh/id_rsa", "/main/.git/objects/x"} {
			if c.CheckFS(dir+p, policy.Read).Allow {
				t.Errorf("%q: %s may be read", to, p)
			}
		}
	}
	for workspace, repository := range map[string]string{"/outer/in": "/outer", "/around": "/around/in"} { // which holds the workspace, or is in it
		for _, name := range []string{"/objects/x", "/refs/x"} {
			write(repository+name, "")
		}
		write(repository+"/config", "worktree = "+dir+workspace+"\n")
		write(workspace+"/.git", "gitdir: "+dir+repository+"\n")
		if c := in(t, dir+workspace, "preset:git"); c.Repository != (policy.Repository{}) {
			t.Errorf("%s: %+v", workspace, c.Repository)
		}
	}
	write("/bad/.git", "gitdir: "+dir+"/main/.git/worktrees/tree\n")
	write("/main/.git/worktrees/tree/gitdir", dir+"/bad/.git\n") // the control: now it's its own
	if c := in(t, dir+"/bad", "preset:git"); c.Repository.Common != dir+"/main/.git" {
		t.Errorf("%+v", c.Repository)
	}
}

// A repository's hooks and settings are protected before they exist, and if they are replaced; its files are granted at their own path alone.
func TestRepositoryThatChanges(t *testing.T) {
	dir := worktrees(t)
	const common, tree, sub = "/main/.git", "/main/.git/worktrees/tree", "/main/.git/modules/sub"
	for _, gone := range []string{sub + "/hooks", common + "/hooks"} {
		childtest.Must(t, os.Rename(dir+gone, dir+gone+".old"))
	}
	for workspace, protected := range map[string]string{
		"/main/sub": sub + "/hooks " + sub + "/hooks/post-checkout " + sub + "/commondir " + sub + "/gitdir " + sub + "/config",
		"/tree":     common + "/hooks " + common + "/hooks/post-checkout " + common + "/config " + tree + "/hooks/x " + tree + "/config " + tree + "/commondir",
	} {
		wide := filepath.Join(dir, "wide.toml")
		childtest.Must(t, os.WriteFile(wide, []byte("version = 1\n[[access.fs]]\npath = \""+dir+common+"\"\nread = true\nwrite = true\n"), 0o600))
		for _, policies := range [][]string{nil, {"preset:git"}, {wide}} {
			c := in(t, dir+workspace, policies...)
			for _, p := range strings.Fields(protected) {
				if c.CheckFS(dir+p, policy.Create).Allow {
					t.Errorf("%v in %s: %s may be made", policies, workspace, p)
				}
			}
			if control := dir + common + "/objects/x"; workspace == "/tree" && !c.CheckFS(control, policy.Create).Allow {
				t.Errorf("%v in %s: control: %s mayn't be made", policies, workspace, control)
			}
		}
	}

	// A symlink in the place of hooks, or of what is granted.
	childtest.Must(t, os.Symlink("../../../hooks", dir+sub+"/hooks"))
	src, _, err := Load(Request{Policies: []string{"preset:git"}, Workspace: dir + "/main/sub", Dir: dir, Home: "/nowhere", Path: "/usr/bin"}, hostfs.Machine{})
	childtest.Must(t, err)
	compile := func() *policy.Compiled {
		t.Helper()
		return policytest.CompileSource(t, src, hostfs.Machine{})
	}
	c := compile()
	if c.CheckFS(dir+sub+"/hooks", policy.Delete).Allow || !c.CheckFS(dir+sub+"/index", policy.Delete).Allow {
		t.Error("the symlink may be replaced, or the index mayn't")
	}
	if !c.CheckFS(dir+sub+"/refs/x", policy.Create).Allow {
		t.Error("control: the refs mayn't be written")
	}
	childtest.Must(t, os.Rename(dir+sub, dir+sub+".old"))
	childtest.Must(t, os.MkdirAll(dir+"/private/refs", 0o755))
	childtest.Must(t, os.Symlink(dir+"/private", dir+sub))
	if got := compile().Caps(dir + "/private/refs/x"); got != 0 {
		t.Errorf("where a symlink in the place of the repository leads: %s", got)
	}
}
