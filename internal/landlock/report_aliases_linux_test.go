package landlock

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// aliasMachine is a machine on which /data has the alias /mnt, /data/s has /srv, and /ws/a has /data/a.
type aliasMachine struct{ forest }

func (aliasMachine) Mounts() ([]fspath.Mount, error) {
	return []fspath.Mount{
		{ID: 1, Root: "/", At: "/"}, {ID: 2, Parent: 1, Root: "/data", At: "/mnt"}, {ID: 3, Parent: 1, Root: "/data/s", At: "/srv"},
	}, nil
}

func (t aliasMachine) File(p string) (fspath.FileID, uint64, error) {
	if p == "/ws/a" || p == "/data/a" {
		return fspath.FileID{Inode: 7}, 2, nil
	}
	return t.forest.File(p)
}

// TestReportAliases is TestReport for files with two names.
func TestReportAliases(t *testing.T) {
	sys := aliasMachine{forest{
		"/": fspath.Dir, "/ws": fspath.Dir, "/data": fspath.Dir, "/data/s": fspath.Dir, "/mnt": fspath.Dir, "/mnt/s": fspath.Dir,
		"/ws/a": fspath.File, "/data/a": fspath.File, "/srv": fspath.Dir, "/opt": fspath.Dir,
	}}
	no, partly, yes := policy.NotEnforceable, policy.Partly, policy.Enforced
	for _, c := range []struct {
		what   string
		rules  []policy.FSRule
		id     string
		status policy.Status
		why    string
	}{
		{"less under the alias", []policy.FSRule{rule("/mnt", r|w), rule("/data", r)}, "fs.2", no, "fs.1 gives create+update+delete on /mnt, which is also /data"},
		{"less under the first name", []policy.FSRule{rule("/data", r|w), rule("/mnt", r)}, "fs.2", no, "fs.1 gives create+update+delete on /data, which is also /mnt"},
		{"less beneath the alias", []policy.FSRule{rule("/mnt", r|w), rule("/data/s", r)}, "fs.2", no, "on /mnt/s, which is also /data/s"},
		{"more beneath", []policy.FSRule{rule("/mnt/s", r|w), rule("/data", r)}, "fs.2", no, "on /mnt/s, which is also /data/s"},
		{"the same", []policy.FSRule{rule("/mnt", r|w), rule("/data", r|w)}, "fs.2", yes, ""},
		{"an exception under both", []policy.FSRule{rule("/mnt", r), rule("/mnt/s", r|w), rule("/data", r), rule("/data/s", r|w)}, "fs.3", yes, ""},
		{"elsewhere", []policy.FSRule{rule("/mnt", r|w), rule("/opt", r)}, "fs.2", yes, ""},
		{"a pattern", []policy.FSRule{rule("/mnt", r), {Match: "/data/**/*.pem"}}, "fs.2", no, "fs.1 grants read on /mnt"},
		{"less above the alias", []policy.FSRule{rule("/srv", r|w), rule("/data", r)}, "fs.2", no, "on /srv, which is also /data/s"},
		{"a pattern above", []policy.FSRule{rule("/srv", r), {Match: "/data/**/*.pem"}}, "fs.2", no, "fs.1 grants read on /srv"},
		{"a pattern elsewhere", []policy.FSRule{rule("/opt", r), {Match: "/data/**/*.pem"}}, "fs.2", yes, "nothing else is granted where it could match"},
		{"a hard link", []policy.FSRule{rule("/ws", r|w), rule("/data/a", r)}, "fs.2", partly, "lint --scan"},
		{"a pattern without an alias", []policy.FSRule{rule("/mnt", r), {Match: "/ws/**/*.pem"}}, "fs.2", yes, "nothing else is granted where it could match"},
		{"a hard link, overridden", []policy.FSRule{rule("/ws", r|w), rule("/data/a", 0), rule("/data/a", r)}, "fs.2", yes, "fs.3 on the same path decides"},
		{"a hard link, nowhere more", []policy.FSRule{rule("/ws", r), rule("/data/a", r)}, "fs.2", yes, ""},
	} {
		l := policy.SourceLayer{Authority: policy.Session, FS: c.rules}
		compiled := compileSource(t, sys, &policy.Source{Workspace: "/ws", Layers: []policy.SourceLayer{l}})
		wantRow(t, c.what, Report(compiled, 7), c.id, c.status, c.why)
	}
}

// TestReportOwnFileAliases checks that a policy file is protected under its aliases as well.
func TestReportOwnFileAliases(t *testing.T) {
	sys := aliasMachine{forest{"/": fspath.Dir, "/ws": fspath.Dir, "/data": fspath.Dir, "/mnt": fspath.Dir, "/ws/a": fspath.File, "/data/a": fspath.File, "/data/p": fspath.File}}
	for _, c := range []struct {
		file, granted string
		status        policy.Status
		why           string
		own           bool // it's toolguard's own folder in the user's home
	}{
		{"/data/p", "/mnt", policy.NotEnforceable, "lets the command write /data/p", false},
		{"/data/p", "/ws", policy.Enforced, "", false},
		{"/data/own", "/ws", policy.Enforced, "", true},
		{"/data/own", "/data", policy.NotEnforceable, "can't take away beneath a grant: fs.1 lets the command write /data/own", true},
		{"/data/a", "/ws", policy.Partly, "hard links", false},
	} {
		l := policy.SourceLayer{Authority: policy.Session, FS: []policy.FSRule{rule(c.granted, r|w)}}
		src := policy.Source{Workspace: "/ws", Files: []string{c.file}, Layers: []policy.SourceLayer{l}}
		if c.own {
			src.Files, src.Own = nil, src.Files
		}
		compiled := compileSource(t, sys, &src)
		i := 0
		rows := Report(compiled, 7)
		for rows[i].Rule.FS.Path != c.file {
			i++
		}
		if rows[i].Status != c.status || !strings.Contains(rows[i].Why, c.why) || rows[i].Advisory != (c.own && c.status != policy.Enforced) {
			t.Errorf("%s: %+v", c.file, rows[i])
		}
	}
}
