package mountstest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// Restricted is a layer with protect and secrets.
func Restricted(mode policy.ProtectMode, rules ...policy.FSRule) policy.SourceLayer {
	l := Layer(rules...)
	l.Protect, l.Secrets = mode, mode
	l.Protected = []policy.FSRule{{Match: "/**/.git/hooks", Position: policy.Position{File: "builtin:protect", Line: 1}}}
	l.SecretFiles = []policy.FSRule{{Match: "/**/.env", Position: policy.Position{File: "builtin:secrets", Line: 1}}}
	return l
}

// Test runs the whole suite, a subtest each.
func (p *Program) Test(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"Masks": p.masks, "Patterns": p.patterns, "Private": p.private, "Swapped": p.swapped, "Many": p.many, "Aliases": p.aliases,
		"HardLinks": p.hardLinks, "Random": p.random, "Race": p.race,
	} {
		t.Run(name, test)
	}
}

// patterns covers the entries that patterns match.
func (p *Program) patterns(t *testing.T) {
	ws := p.tree(t, p.Users[0], ".git/hooks/pre-commit", ".git/objects/", "sub/.git/hooks/", "sub/deep/.env", ".env", "file", "also/secret.key/file")
	childtest.Must(t, os.Symlink("/var/tmp", ws+"/also/link"))
	s := p.New(t, ws, Restricted(policy.ProtectOn, Rule(".", rwx), policy.FSRule{Match: "**/*.key"}))
	for id, want := range map[string]string{
		"protect.1": "only what exists now: 2 entries",
		"secrets.1": "only what exists now: 2 entries; they can't be written either",
		"fs.5":      "only what exists now: 1 entry",
	} {
		if row := s.Row(t, id); row.Status != policy.Partly || row.Why != want || row.Advisory {
			t.Errorf("%s: %+v", id, row)
		}
	}
	for _, uid := range p.Users {
		permitted := []string{
			"create|new", "read|file", "create|.git/objects/new", "create|sub/deep/new", "unlink|new", "unlink|.git/objects/new",
			"unlink|sub/deep/new",
		}
		denied := []string{
			"create|.git/hooks/new", "write|.git/hooks/pre-commit", "rename|.git/hooks|.git/old", "create|sub/.git/hooks/new",
			"read|.env", "read|sub/deep/.env", "execute|.env", "write|.env", "unlink|.env", "read|also/secret.key", "read|also/secret.key/file",
			"rename|.git|old", "rename|sub/deep|deep", "rename|sub|x",
		}
		got := s.Run(t, uid, append(permitted, denied...)...)
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

// private shows that a session has its own /tmp, /dev/shm and /proc, and sees what a rule grants in /tmp.
func (p *Program) private(t *testing.T) {
	outside, err := os.MkdirTemp("/tmp", "outside-")
	childtest.Must(t, err)
	defer os.RemoveAll(outside)
	granted, err := os.MkdirTemp("/tmp", "granted-")
	childtest.Must(t, err)
	defer os.RemoveAll(granted)
	childtest.Must(t, os.Chmod(granted, 0o777))
	if os.Getuid() == 0 {
		childtest.Must(t, os.Chown(granted, p.Users[0], p.Users[0]))
	}
	ws := p.tree(t, p.Users[0], "file")
	s := p.New(t, ws, Layer(Rule(".", r|w), Rule(granted, r|w), Rule("/proc", r)))
	self := fmt.Sprint(os.Getpid())
	for _, uid := range p.Users {
		got := s.Run(t, uid, "create|new", "create|"+granted+"/new", "unlink|"+granted+"/new", "unlink|new", "stat|"+outside, "processes|1", "processes|"+self)
		want := Results{
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

// swapped refuses to start where a folder was replaced by a symlink after the plan was made.
func (p *Program) swapped(t *testing.T) {
	ws := p.tree(t, p.Users[0], "dir/sub/file", "other/sub/file")
	s := p.New(t, ws, Layer(Rule(".", r|w), Rule("dir/sub", 0)))
	childtest.Must(t, os.Rename(ws+"/dir", ws+"/moved"))
	childtest.Must(t, os.Symlink("other", ws+"/dir"))
	got, errs := s.Start(t, p.Users[0], "read|moved/sub/file")
	expected := func(word string) bool { return strings.Contains(errs, word) }
	if got != nil || !slices.ContainsFunc([]string{"verify", "bwrap: ", "isn't a file or folder"}, expected) {
		t.Errorf("it started: %v %s", got, errs)
	}
	childtest.Must(t, os.Remove(ws+"/dir"))
	childtest.Must(t, os.Rename(ws+"/moved", ws+"/dir"))
	if got := s.Run(t, p.Users[0], "read|dir/sub/file"); got["read|dir/sub/file"] != unix.EACCES {
		t.Error(got)
	}
}

// many starts a session with 1,000 masks, and rejects more than there may be.
func (p *Program) many(t *testing.T) {
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("d%d/.env", i%100+i/500*1000), fmt.Sprintf("f%d", i))
	}
	ws := p.tree(t, p.Users[0], names...)
	for i := range 700 {
		childtest.Must(t, os.WriteFile(fmt.Sprintf("%s/secret%d", ws, i), nil, 0o666))
	}
	s := p.New(t, ws, Layer(Rule(".", r|w), policy.FSRule{Match: "**/secret*"}, policy.FSRule{Match: "**/.env"}))
	t.Log(len(s.Plan.Mounts))
	got := s.Run(t, p.Users[0], "read|f1", "create|new", "read|secret699", "read|d1/.env")
	if got["read|f1"] != 0 || got["create|new"] != 0 || got["read|secret699"] != unix.EACCES || got["read|d1/.env"] != unix.EACCES {
		t.Error(got)
	}
}

// aliases covers a folder under both of its names.
func (p *Program) aliases(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: a bind mount")
	}
	ws := p.tree(t, p.Users[0], "dir/sub/file", "alias/", "file")
	childtest.Must(t, unix.Mount(ws+"/dir", ws+"/alias", "", unix.MS_BIND, ""))
	defer func() { childtest.Must(t, unix.Unmount(ws+"/alias", unix.MNT_DETACH)) }()
	s := p.New(t, ws, Layer(Rule(".", r|w), Rule("dir/sub", r)))
	s.Want(t, "fs.5", policy.Enforced, "")
	got := s.Run(t, p.Users[0], "write|file", "read|alias/sub/file", "create|alias/new", "write|dir/sub/file", "write|alias/sub/file", "create|alias/sub/new",
		"rename|alias/sub|alias/moved")
	for op, errno := range got {
		if (errno == 0) != slices.Contains([]string{"write|file", "read|alias/sub/file", "create|alias/new"}, op) {
			t.Errorf("%s: %v", op, errno)
		}
	}
}

// hardLinks doesn't call a rule enforced for files with hard links elsewhere, which can be used, and does where mounts cover all of them.
func (p *Program) hardLinks(t *testing.T) {
	ws := p.tree(t, p.Users[0], "dir/file", "other/", "ro/deep/f", "secret/k", "both/a/", "both/b/f", "a/b/.git/hooks/pre-commit")
	for from, to := range map[string]string{
		"dir/file": "other/file", "ro/deep/f": "hl", "secret/k": "hk", "both/b/f": "both/a/f", "a/b/.git/hooks/pre-commit": "innocent",
	} {
		childtest.Must(t, os.Link(ws+"/"+from, ws+"/"+to))
	}
	layer := Restricted(policy.ProtectOn, Rule(".", r|w), Rule("dir/file", r), Rule("ro", r), Rule("secret", 0), Rule("both/a", r), Rule("both/b", 0))
	s := p.New(t, ws, layer)
	for id, want := range map[string]string{
		"fs.4": "", "fs.5": "several hard links", "fs.6": "/ro/deep/f has hard links that no mount covers", "fs.7": "/secret/k has hard links that no mount covers",
		"fs.8": "", "fs.9": "/both/b/f has hard links", // it can be read in both/a
		"protect.1": "only what exists now: 1 entry; " + ws + "/a/b/.git/hooks/pre-commit has hard links that no mount covers",
	} {
		row := s.Row(t, id)
		if (row.Status == policy.Enforced) != (want == "") || want != "" && row.Status != policy.Partly || !strings.Contains(row.Why, want) {
			t.Errorf("%+v, want %q", row, want)
		}
	}
	got := s.Run(t, p.Users[0], "write|other/file", "write|dir/file", "link|dir/file|third", "read|hk", "write|hl", "read|secret/k", "write|ro/deep/f",
		"read|both/a/f", "read|both/b/f", "write|both/a/f", "write|innocent")
	for op, errno := range got {
		if (errno == 0) != slices.Contains([]string{"write|other/file", "read|hk", "write|hl", "read|both/a/f", "write|innocent"}, op) {
			t.Errorf("%s: %v", op, errno)
		}
	}
	for _, name := range []string{"hl", "hk", "innocent"} {
		childtest.Must(t, os.Remove(ws+"/"+name))
	}
	s = p.New(t, ws, layer)
	for _, id := range []string{"fs.6", "fs.7"} {
		if row := s.Row(t, id); row.Status != policy.Enforced || row.Why != "" {
			t.Errorf("%+v", row)
		}
	}
	if row := s.Row(t, "protect.1"); strings.Contains(row.Why, "hard links") {
		t.Errorf("%+v", row)
	}
}
