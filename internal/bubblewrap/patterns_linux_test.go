package bubblewrap

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// restricted is a layer with protect and secrets.
func restricted(mode policy.ProtectMode, rules ...policy.FSRule) policy.SourceLayer {
	l := layer(rules...)
	l.Protect, l.Secrets = mode, mode
	l.Protected = []policy.FSRule{{Match: "/**/.git/hooks", Position: policy.Position{File: "builtin:protect", Line: 1}}}
	l.SecretFiles = []policy.FSRule{{Match: "/**/.env", Position: policy.Position{File: "builtin:secrets", Line: 1}}}
	return l
}

// TestPatterns covers the entries that patterns match.
func TestPatterns(t *testing.T) {
	ws := tree(t, ".git/hooks/pre-commit", ".git/objects/", "sub/.git/hooks/", "sub/deep/.env", ".env", "file", "also/secret.key/file")
	childtest.Must(t, os.Symlink("/var/tmp", ws+"/also/link"))
	s := newSession(t, ws, restricted(policy.ProtectOn, rule(".", rwx), policy.FSRule{Match: "**/*.key"}))
	for id, want := range map[string]string{
		"protect.1": "only what exists now: 2 entries",
		"secrets.1": "only what exists now: 2 entries; they can't be written either",
		"fs.5":      "only what exists now: 1 entry",
	} {
		if row := s.row(t, id); row.Status != policy.Partly || row.Why != want || row.By != Name || row.Advisory {
			t.Errorf("%s: %+v", id, row)
		}
	}
	for _, uid := range childtest.Users() {
		permitted := []string{
			"create|new", "read|file", "create|.git/objects/new", "create|sub/deep/new", "unlink|new", "unlink|.git/objects/new",
			"unlink|sub/deep/new",
		}
		denied := []string{
			"create|.git/hooks/new", "write|.git/hooks/pre-commit", "rename|.git/hooks|.git/old", "create|sub/.git/hooks/new",
			"read|.env", "read|sub/deep/.env", "execute|.env", "write|.env", "unlink|.env", "read|also/secret.key", "read|also/secret.key/file",
			"rename|.git|old", "rename|sub/deep|deep", "rename|sub|x",
		}
		got := s.run(t, uid, append(permitted, denied...)...)
		for _, op := range permitted {
			if got[op] != 0 {
				t.Errorf("as %d: %s: %v", uid, op, got[op])
			}
		}
		for _, op := range denied {
			if got[op] == 0 {
				t.Errorf("as %d: %s succeeded", uid, op)
			}
		}
	}
}

// TestAutomatic leaves rows of protect = "auto" advisory.
func TestAutomatic(t *testing.T) {
	s := newSession(t, tree(t, ".git/hooks/"), restricted(policy.ProtectAuto, rule(".", rwx)))
	if row := s.row(t, "protect.1"); row.Status != policy.Partly || !row.Advisory {
		t.Errorf("%+v", row)
	}
}

// TestSymlinks rejects a pattern that matches a symlink, which has no mount.
func TestSymlinks(t *testing.T) {
	ws := tree(t, "hooks/", ".git/")
	childtest.Must(t, os.Symlink("../hooks", ws+"/.git/hooks"))
	s := newSession(t, ws, restricted(policy.ProtectOn, rule(".", rwx)))
	if row := s.row(t, "protect.1"); row.Status != policy.NotEnforceable || !strings.Contains(row.Why, ".git/hooks is a symlink") {
		t.Errorf("%+v", row)
	}
}

// TestMissing rejects rules for names that don't exist yet where the session could make them.
func TestMissing(t *testing.T) {
	s := newSession(t, tree(t, "dir/"), layer(rule(".", r|w), rule("later", r), rule("dir", r), rule("dir/later", r)))
	if row := s.row(t, "fs.5"); row.Status != policy.NotEnforceable || !strings.Contains(row.Why, "later doesn't exist") {
		t.Errorf("%+v", row)
	}
	if row := s.row(t, "fs.7"); row.Status != policy.Enforced {
		t.Errorf("%+v", row)
	}
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
		s := newSession(t, tree(t, "dir/file"), layer(rule(".", rwx), rule("dir", c.caps)))
		row := s.row(t, "fs.5")
		if (row.Status == policy.Enforced) != (c.want == "") || !strings.Contains(row.Why, c.want) {
			t.Errorf("%v: %+v", c.caps, row)
		}
	}
}

// TestManyMasks starts a session with 1,000 masks, and rejects more than there may be.
func TestManyMasks(t *testing.T) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("d%d/.env", i%100+i/500*1000), fmt.Sprintf("f%d", i))
	}
	ws := tree(t, names...)
	for i := range 700 {
		childtest.Must(t, os.WriteFile(fmt.Sprintf("%s/secret%d", ws, i), nil, 0o666))
	}
	s := newSession(t, ws, layer(rule(".", r|w), policy.FSRule{Match: "**/secret*"}, policy.FSRule{Match: "**/.env"}))
	t.Log(len(s.plan.Mounts))
	got := s.run(t, os.Getuid(), "read|f1", "create|new", "read|secret699", "read|d1/.env")
	if got["read|f1"] != 0 || got["create|new"] != 0 || got["read|secret699"] != unix.EACCES || got["read|d1/.env"] != unix.EACCES {
		t.Error(got)
	}
}

// TestLimit reports patterns as not enforceable where there is too much to search.
func TestLimit(t *testing.T) {
	ws := tree(t, "sub/deep/.env", ".env")
	for i := range 200 {
		dir := fmt.Sprintf("%s/n%d", ws, i)
		childtest.Must(t, os.Mkdir(dir, 0o755))
		for k := range 100 {
			childtest.Must(t, os.WriteFile(fmt.Sprintf("%s/%d", dir, k), nil, 0o644))
		}
	}
	s := newSession(t, ws, layer(rule(".", r|w), policy.FSRule{Match: "**/.env"}))
	if row := s.row(t, "fs.5"); row.Status != policy.NotEnforceable || !strings.Contains(row.Why, "more than 20000 entries to search, so not every match is covered: 1 was found") {
		t.Errorf("%+v", row)
	}
	if got := s.run(t, os.Getuid(), "read|.env", "read|n1/1"); got["read|.env"] != unix.EACCES || got["read|n1/1"] != 0 {
		t.Error(got)
	}
}

// TestPrivate shows that a session has its own /tmp, /dev/shm and /proc, and sees what a rule grants in /tmp.
func TestPrivate(t *testing.T) {
	outside, err := os.MkdirTemp("/tmp", "outside-")
	childtest.Must(t, err)
	defer os.RemoveAll(outside)
	granted, err := os.MkdirTemp("/tmp", "granted-")
	childtest.Must(t, err)
	defer os.RemoveAll(granted)
	childtest.Must(t, os.Chmod(granted, 0o777))
	ws := tree(t, "file")
	s := newSession(t, ws, layer(rule(".", r|w), rule(granted, r|w), rule("/proc", r)))
	self := fmt.Sprint(os.Getpid())
	for _, uid := range childtest.Users() {
		got := s.run(t, uid, "create|new", "create|"+granted+"/new", "unlink|"+granted+"/new", "unlink|new", "stat|"+outside, "processes|1", "processes|"+self)
		want := results{
			"create|new": 0, "create|" + granted + "/new": 0, "unlink|" + granted + "/new": 0, "unlink|new": 0, "stat|" + outside: unix.ENOENT,
			"processes|1": 0, "processes|" + self: unix.ENOENT,
		}
		for op, errno := range want {
			if got[op] != errno {
				t.Errorf("as %d: %s: %v, want %v", uid, op, got[op], errno)
			}
		}
	}
}

// TestVerify refuses to start where a folder was replaced by a symlink after the plan was made.
func TestVerify(t *testing.T) {
	ws := tree(t, "dir/sub/file", "other/sub/file")
	s := newSession(t, ws, layer(rule(".", r|w), rule("dir/sub", 0)))
	childtest.Must(t, os.Rename(ws+"/dir", ws+"/moved"))
	childtest.Must(t, os.Symlink("other", ws+"/dir"))
	got, errs := s.start(t, os.Getuid(), "read|moved/sub/file")
	if got != nil || !strings.Contains(errs, "verify") && !strings.Contains(errs, "bwrap:") {
		t.Errorf("it started: %v %s", got, errs)
	}
	childtest.Must(t, os.Remove(ws+"/dir"))
	childtest.Must(t, os.Rename(ws+"/moved", ws+"/dir"))
	if got := s.run(t, os.Getuid(), "read|dir/sub/file"); got["read|dir/sub/file"] != unix.EACCES {
		t.Error(got)
	}
}
