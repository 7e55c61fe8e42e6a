package landlock

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
)

// aliasMachine is a machine on which /data has the alias /mnt, /data/s has /srv, and /ws/a has /data/a.
var aliasMachine = fspathtest.Mounted{
	Tree: fspathtest.New(map[string]string{
		"/ws/a": "file", "/data/a": "file", "/data/p": "file", "/data/s": "dir", "/mnt/s": "dir", "/srv": "dir", "/opt": "dir",
	}),
	Table: fspathtest.Mount("/data /mnt", "/data/s /srv"), Inodes: map[string]uint64{"/ws/a": 7, "/data/a": 7},
}

// TestReportAliases is TestReport for files with two names.
func TestReportAliases(t *testing.T) {
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
		compiled := compileSource(t, aliasMachine, &policy.Source{Workspace: "/ws", Layers: []policy.SourceLayer{l}})
		wantRow(t, c.what, Report(compiled, 7), c.id, c.status, c.why)
	}
}

// TestReportOwnFileAliases checks that a policy file is protected under its aliases as well.
func TestReportOwnFileAliases(t *testing.T) {
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
		compiled := compileSource(t, aliasMachine, &src)
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
