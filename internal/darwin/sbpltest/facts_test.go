package sbpltest

import (
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const begin = "(version 1)\n(deny default)\n"

func parse(t *testing.T, rules string, params ...string) *Profile {
	t.Helper()
	values := map[string]string{}
	for i := 0; i < len(params); i += 2 {
		values[params[i]] = params[i+1]
	}
	p, err := Parse(begin+rules, values)
	if err != nil {
		t.Fatalf("%v\n%s", err, rules)
	}
	return p
}

// row is a question to a profile.
type row struct {
	name, rules, op, path string
	allow                 bool
}

func decide(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		if got := parse(t, r.rules).Allows(Model{}, r.op, Target{Path: r.path, Type: "REGULAR-FILE"}); got != r.allow {
			t.Errorf("%s: %s %s: %v", r.name, r.op, r.path, got)
		}
	}
}

func TestLastMatch(t *testing.T) {
	const op, path = "file-read-data", "/w/a"
	decide(t, []row{
		{"nothing", ``, op, path, false},
		{"allow, then deny", `(allow file-read-data (subpath "/w")) (deny file-read-data (subpath "/w"))`, op, path, false},
		{"deny, then allow", `(deny file-read-data (subpath "/w")) (allow file-read-data (subpath "/w"))`, op, path, true},
		{"deny, then allow beneath", `(deny file-read-data (subpath "/w")) (allow file-read-data (literal "/w/a"))`, op, path, true},
		{"deny for another path", `(allow file-read-data (subpath "/w")) (deny file-read-data (literal "/w/b"))`, op, path, true},
		{"deny of another operation", `(allow file-read-data (subpath "/w")) (deny file-write-data (subpath "/w"))`, op, path, true},
		{"several filters are alternatives", `(allow file-read-data (literal "/w/b") (literal "/w/a"))`, op, path, true},
		{"several operations", `(allow file-write-data file-read-data (literal "/w/a"))`, op, path, true},
	})
}

func TestNoSpecificPath(t *testing.T) {
	decide(t, []row{
		{"deny of a file before a wider allow", `(deny file-read-data (literal "/w/a")) (allow file-read-data (subpath "/w"))`, "file-read-data", "/w/a", true},
		{"allow of a file before a wider deny", `(allow file-read-data (literal "/w/a")) (deny file-read-data (subpath "/w"))`, "file-read-data", "/w/a", false},
	})
}

func TestExactOperation(t *testing.T) {
	const env = "/w/.env"
	decide(t, []row{
		{"deny of the family, later", `(allow file-read-data (subpath "/")) (deny file-read* (literal "/w/.env"))`, "file-read-data", env, true},
		{"deny of the operation", `(allow file-read-data (subpath "/")) (deny file-read-data (literal "/w/.env"))`, "file-read-data", env, false},
		{"deny of the family alone", `(allow file-read* (subpath "/")) (deny file-read* (literal "/w/.env"))`, "file-read-data", env, false},
		{"allow of the operation, earlier", `(allow file-read-data (literal "/w/.env")) (deny file-read* (subpath "/"))`, "file-read-data", env, true},
		{"other operations of the family", `(allow file-read-data (literal "/w/.env")) (deny file-read* (subpath "/"))`, "file-read-xattr", env, false},
	})
}

func TestUnfilteredIsDefault(t *testing.T) {
	const denied = `(deny network-outbound (literal "/s"))`
	for _, rules := range []string{denied + "(allow network-outbound)", "(allow network-outbound)" + denied} {
		decide(t, []row{{rules, rules, "network-outbound", "/s", false}, {rules, rules, "network-outbound", "/t", true}})
	}
	const allowed = `(allow network-outbound (literal "/s"))`
	for _, rules := range []string{allowed + "(deny network-outbound)", "(deny network-outbound)" + allowed, "(deny network*)" + allowed} {
		decide(t, []row{{rules, rules, "network-outbound", "/s", true}, {rules, rules, "network-outbound", "/t", false}})
	}
	rejected(t, "no measurement decides", `(allow file-read-data) (deny file-read* (literal "/w"))`)
}

func TestRequireAllVnodeType(t *testing.T) {
	const allow = `(allow file-write-unlink (require-all (subpath "/w") (vnode-type REGULAR-FILE)))`
	decide(t, []row{
		{"", allow, "file-write-unlink", "/w/a", true},
		{"deny by subpath", allow + `(deny file-write-unlink (subpath "/w/a"))`, "file-write-unlink", "/w/a", true},
		{"deny by literal", allow + `(deny file-write-unlink (literal "/w/a"))`, "file-write-unlink", "/w/a", false},
		{"deny by both", allow + `(deny file-write-unlink (literal "/w/a") (subpath "/w/a"))`, "file-write-unlink", "/w/a", false},
		{"without a vnode-type", `(allow file-write-unlink (require-all (subpath "/w") (require-not (literal "/w")))) (deny file-write-unlink (subpath "/w/a"))`, "file-write-unlink", "/w/a", false},
	})
	p := parse(t, allow)
	if p.Allows(Model{}, "file-write-unlink", Target{Path: "/w/a", Type: "DIRECTORY"}) || p.Allows(Model{}, "file-write-unlink", Target{Path: "/w/a"}) {
		t.Error("a vnode-type matches another one, or what doesn't exist")
	}
}

func TestAllowedAtFirst(t *testing.T) {
	const path = "/w/a"
	decide(t, []row{
		{"deny default", ``, "file-link", path, true},
		{"not every operation", ``, "file-mknod", path, false},
		{"deny of the family", `(deny file*)`, "file-clone", path, true},
		{"deny of the name", `(deny file-clone)`, "file-clone", path, false},
		{"deny and allow", `(deny file-link) (allow file-link (subpath "/w"))`, "file-link", path, true},
		{"a later allow", `(deny file-link) (allow file-link)`, "file-link", path, true},
		{"deny of the other family", `(deny fs-snapshot*)`, "fs-snapshot-mount", path, true},
	})
	rejected(t, "no measurement decides", `(deny file* (subpath "/w"))`)
	others := Target{Process: "others"}
	if !parse(t, ``).Allows(Model{}, "process-info-pidinfo", others) {
		t.Error("(deny default) applies to process-info*")
	}
	p := parse(t, `(deny process-info*) (allow process-info* (target self))`)
	if p.Allows(Model{}, "process-info-pidinfo", others) || !p.Allows(Model{}, "process-info-pidinfo", Target{Process: "self"}) {
		t.Error("a rule for process-info* has no effect")
	}
}

func TestReleases(t *testing.T) {
	rejected(t, "unbound variable", `(deny file-graft)`, `(when (defined? 'file-ungraft) (deny file-graft))`)
	rejected(t, "unknown operation", `(when (defined? 'file-nonsense) (deny file-clone))`)
	rejected(t, "when", `(when (allow) (deny file-clone))`, `(when (defined? 'file-graft) (import "x"))`)
	decide(t, []row{
		{"without", ``, "file-graft", "/w", true},
		{"when", `(when (defined? 'file-graft) (deny file-graft))`, "file-graft", "/w", false},
		{"if", `(if (defined? 'file-graft) (deny file-graft))`, "file-graft", "/w", false},
	})
}

func TestNetworkAddress(t *testing.T) {
	p := parse(t, `(allow network-outbound (remote tcp "localhost:8080") (remote udp "*:53"))`)
	for addr, allow := range map[string]bool{
		"tcp 127.0.0.1:8080": true, "tcp [::1]:8080": true, "tcp 0.0.0.0:8080": true, "tcp [::ffff:127.0.0.1]:8080": true,
		"tcp 127.0.0.2:8080": false, "tcp 127.0.0.1:8081": false, "udp 127.0.0.1:8080": false, "tcp 192.0.2.1:8080": false,
		"udp 192.0.2.1:53": true, "tcp 192.0.2.1:53": false,
	} {
		protocol, at, _ := strings.Cut(addr, " ")
		if got := p.Allows(Model{}, "network-outbound", Target{Protocol: protocol, Addr: netip.MustParseAddrPort(at)}); got != allow {
			t.Errorf("%s: %v", addr, got)
		}
	}
	rejected(t, "host must be * or localhost", `(allow network-outbound (remote tcp "127.0.0.1:80"))`, `(allow network-outbound (remote ip "example.com:443"))`)
	rejected(t, "port missing", `(allow network-outbound (remote ip "*"))`)
	rejected(t, "invalid port", `(allow network-outbound (remote ip "*:1-100"))`, `(allow network-outbound (remote ip "*:0"))`, `(allow network-outbound (remote ip "*:65536"))`)
	local := parse(t, `(allow network-bind (local tcp "localhost:80"))`)
	elsewhere := Target{Protocol: "tcp", Addr: netip.MustParseAddrPort("192.0.2.1:81")}
	if local.Allows(Model{}, "network-bind", elsewhere) || !local.Allows(Model{LocalIsAny: true}, "network-bind", elsewhere) {
		t.Error("LocalIsAny has no effect")
	}
}

func TestRemoteIP(t *testing.T) {
	p := parse(t, `(allow network-outbound (remote ip "localhost:80"))`)
	for _, protocol := range []string{"tcp", "udp"} {
		if !p.Allows(Model{}, "network-outbound", Target{Protocol: protocol, Addr: netip.MustParseAddrPort("127.0.0.1:80")}) {
			t.Errorf("ip doesn't include %s", protocol)
		}
	}
	if p.Allows(Model{}, "network-outbound", Target{Path: "/s", Type: "SOCKET"}) {
		t.Error("ip includes unix sockets")
	}
}

func TestUnixSocket(t *testing.T) {
	decide(t, []row{
		{"a file operation", `(deny file-write-data (literal "/s")) (allow network-outbound (subpath "/"))`, "network-outbound", "/s", true},
		{"by its path", `(allow network-outbound (subpath "/")) (deny network-outbound (literal "/s"))`, "network-outbound", "/s", false},
		{"any", `(allow network-outbound (remote unix-socket))`, "network-outbound", "/s", true},
		{"any with a path", `(allow network-outbound (remote unix-socket (subpath "/t")))`, "network-outbound", "/s", false},
		{"that path", `(allow network-bind (local unix-socket (subpath "/t")))`, "network-bind", "/t/s", true},
	})
}

func TestIoctl(t *testing.T) {
	p := parse(t, `(allow file-ioctl (literal "/dev/tty")) (deny file-ioctl (ioctl-command TIOCSTI))`)
	for name, allow := range map[string]bool{"TIOCSTI": false, "TIOCGETA": true} {
		if p.Allows(Model{}, "file-ioctl", Target{Path: "/dev/tty", Type: "CHARACTER-DEVICE", Name: name}) != allow {
			t.Error(name)
		}
	}
}

func TestSysctl(t *testing.T) {
	p := parse(t, `(allow sysctl-read (sysctl-name "vm.x") (sysctl-name-prefix "hw."))`)
	for name, allow := range map[string]bool{"vm.x": true, "hw.ncpu": true, "vm.xy": false, "kern.x": false} {
		if p.Allows(Model{}, "sysctl-read", Target{Name: name}) != allow {
			t.Error(name)
		}
	}
}

func TestUnboundVariable(t *testing.T) {
	rejected(t, "unbound variable",
		`(allow file-write-rename (subpath "/w"))`, `(allow nonsense)`, `(allow file-nonsense*)`, `(setenv A "1")`, `(allow file-read-data (below "/w"))`,
		`(import "system.sb")`, `(define a 1)`, `(allow file-read-data (subpath (concat "/w" "a")))`, `(allow network-outbound (remote sctp))`,
		`(allow file-read-data (vnode-type NONSENSE))`, `(allow process-fork (with nonsense))`, `(allow file-read-data (subpath "/w") (with message "x"))`)
	rejected(t, "no-sandbox", `(allow process-exec (subpath "/bin") (with no-sandbox))`)
	rejected(t, "illegal argument", `(allow file-read-data "/w")`, `(allow file-read-data (subpath /w))`, `(allow file-read-data (subpath "/w") file-write-data)`)
	rejected(t, "doesn't apply", `(allow mach-lookup (subpath "/w"))`, `(allow file-read-data (global-name "a"))`, `(allow process-fork (subpath "/bin"))`, `(allow file-read-data (remote tcp "*:80"))`)
	rejected(t, "line", `(allow file-read-data (subpath "/w")`, `)`, `(allow file-read-data (subpath "/w))`, `(allow file-read-data (subpath "\w"))`)
	rejected(t, "without", `(allow)`, `(allow file-read-data (subpath))`)
	for _, p := range []string{"", "(deny default)", "(version 2)(deny default)", "(version 1)", begin + "(deny default)"} {
		if _, err := Parse(p, nil); err == nil {
			t.Errorf("%q is accepted", p)
		}
	}
	parse(t, `; a comment
		(deny mach-lookup (with no-log)) (allow mach-lookup (global-name "a" "b")) (deny file-read-data (literal "/w") (with message "tag"))`)
}

func TestForms(t *testing.T) {
	forms, err := Forms(`(version 1) ; (not one)
(deny default)(allow file-read-data (regex #"^/\(\"") (literal ")"))`)
	if want := []string{"(version 1)", "(deny default)", `(allow file-read-data (regex #"^/\(\"") (literal ")"))`}; err != nil || !slices.Equal(forms, want) {
		t.Errorf("%q, %v", forms, err)
	}
	if _, err := Forms("(a"); err == nil {
		t.Error("a form without an end")
	}
}

func TestParam(t *testing.T) {
	p := parse(t, `(allow file-read-data (subpath (param "W")) (literal (string-append (param "W") "x")))`, "W", `/a "b"(c)`)
	if !p.Allows(Model{}, "file-read-data", Target{Path: `/a "b"(c)/d`}) || !p.Allows(Model{}, "file-read-data", Target{Path: `/a "b"(c)x`}) {
		t.Error("a parameter isn't its value")
	}
	rejected(t, "has no value", `(allow file-read-data (subpath (param "W")))`)
	rejected(t, "unbound variable: param", `(allow file-read-data (param "W"))`)
}

func TestPaths(t *testing.T) {
	rejected(t, "path", `(allow file-read-data (subpath "w"))`, `(allow file-read-data (subpath "/w/"))`, `(allow file-read-data (literal "/w/../x"))`, `(allow file-read-data (literal ""))`)
	decide(t, []row{
		{"by component", `(allow file-read-data (subpath "/w"))`, "file-read-data", "/wx", false},
		{"the root", `(allow file-read-data (subpath "/"))`, "file-read-data", "/x", true},
		{"literal", `(allow file-read-data (literal "/"))`, "file-read-data", "/x", false},
		{"case", `(allow file-read-data (subpath "/w"))`, "file-read-data", "/W/a", false},
		{"not", `(allow file-read-data (require-all (subpath "/w") (require-not (subpath "/w/a") )))`, "file-read-data", "/w/a/b", false},
		{"any", `(allow file-read-data (require-any (subpath "/v") (subpath "/w")))`, "file-read-data", "/w/a", true},
	})
}

func TestModels(t *testing.T) {
	p := parse(t, `(allow file-read-data (subpath "/w"))`)
	file, dir := Target{Path: "/w", Type: "REGULAR-FILE"}, Target{Path: "/w", Type: "DIRECTORY"}
	if m := (Model{SubpathIsDirectory: true}); p.Allows(m, "file-read-data", file) || !p.Allows(m, "file-read-data", dir) {
		t.Error("SubpathIsDirectory")
	}
	if m := (Model{FoldPaths: true}); !p.Allows(m, "file-read-data", Target{Path: "/W/a"}) {
		t.Error("FoldPaths")
	}
	if m := (Model{FoldPaths: true}); !parse(t, `(allow file-read-data (subpath "/s/k"))`).Allows(m, "file-read-data", Target{Path: "/\u017f/\u212a/a"}) {
		t.Error("FoldPaths with letters that Unicode folds to ASCII ones")
	}
	upper := Target{Path: "/W/A"}
	if p := parse(t, `(allow file-read-data (regex #"^/w/a$"))`); p.Allows(Model{FoldPaths: true}, "file-read-data", upper) || !p.Allows(Model{FoldRegex: true}, "file-read-data", upper) {
		t.Error("FoldRegex")
	}
	if len(Models()) != 8 {
		t.Error("not every model")
	}
}

func TestRegexGroups(t *testing.T) {
	rejected(t, "regular expression",
		`(allow file-read-data (regex #"^/w/(?:.*/)?\.env$"))`, `(allow file-read-data (regex #"(?i)a"))`, `(allow file-read-data (regex #"\d"))`,
		`(allow file-read-data (regex #"a{2}"))`, `(allow file-read-data (regex #"a**"))`, `(allow file-read-data (regex #"a*?"))`,
		`(allow file-read-data (regex #"(a|)"))`, `(allow file-read-data (regex #"|a"))`, `(allow file-read-data (regex #"()"))`, `(allow file-read-data (regex #"a|"))`,
		`(allow file-read-data (regex #"[[:alpha:]]"))`, `(allow file-read-data (regex #"[éÉ]"))`, `(allow file-read-data (regex #"[]a]"))`, `(allow file-read-data (regex #"[a"))`,
		`(allow file-read-data (regex #"a]"))`, `(allow file-read-data (regex #"(a"))`, `(allow file-read-data (regex #""))`, `(allow file-read-data (literal #"/w"))`)
	decide(t, []row{
		{"the root of BASE", `(deny file-read-data (regex #"^/w/(.*/)?\.env(/.*)?$")) (allow file-read-xattr (regex #"^/w/(.*/)?\.env(/.*)?$"))`, "file-read-xattr", "/w/.env", true},
		{"deeper", `(allow file-read-data (regex #"^/w/(.*/)?\.env(/.*)?$"))`, "file-read-data", "/w/a/.env/b", true},
		{"a dot is escaped", `(allow file-read-data (regex #"^/w/\.env$"))`, "file-read-data", "/w/xenv", false},
		{"a newline", `(allow file-read-data (regex #"^/w/(.*/)?\.env$"))`, "file-read-data", "/w/a\nb/.env", true},
		{"a quote", `(allow file-read-data (regex #"^/w/\"$"))`, "file-read-data", `/w/"`, true},
		{"a string", `(allow file-read-data (regex "^/w/\\.env$"))`, "file-read-data", "/w/.env", true},
		{"a set", `(allow file-read-data (regex #"^/w/[^/]*[eE]$"))`, "file-read-data", "/w/xE", true},
	})
}

func TestRegexAnywhere(t *testing.T) {
	decide(t, []row{
		{"not anchored", `(allow file-read-data (regex #"/b"))`, "file-read-data", "/a/b/c", true},
		{"anchored", `(allow file-read-data (regex #"^/b"))`, "file-read-data", "/a/b/c", false},
		{"at the end", `(allow file-read-data (regex #"/b$"))`, "file-read-data", "/a/b/c", false},
	})
}

func TestRename(t *testing.T) {
	p := parse(t, `(allow file-write-create file-write-unlink (subpath "/w")) (deny file-write-unlink (literal "/w/a")) (deny file-write-create (literal "/w/b"))`)
	at := func(path, kind string) Target { return Target{Path: path, Type: kind} }
	for _, r := range []struct {
		old, new Target
		allow    bool
	}{
		{at("/w/x", "REGULAR-FILE"), at("/w/y", ""), true},
		{at("/w/a", "REGULAR-FILE"), at("/w/y", ""), false},
		{at("/w/x", "REGULAR-FILE"), at("/w/b", ""), false},
		{at("/w/x", "REGULAR-FILE"), at("/w/a", "REGULAR-FILE"), false},
		{at("/w/x", "REGULAR-FILE"), at("/v/x", ""), false},
	} {
		if got := p.Rename(Model{}, r.old, r.new); got != r.allow {
			t.Errorf("%s to %s: %v", r.old.Path, r.new.Path, got)
		}
	}
}

func TestLink(t *testing.T) {
	p := parse(t, `(allow file-write-create (subpath "/w")) (deny file-link) (allow file-link (subpath "/w"))`)
	inside, outside := Target{Path: "/w/a", Type: "REGULAR-FILE"}, Target{Path: "/v/a", Type: "REGULAR-FILE"}
	new := Target{Path: "/w/b"}
	if !p.Link(Model{}, inside, new) || p.Link(Model{}, outside, new) || p.Link(Model{}, inside, Target{Path: "/v/b"}) {
		t.Error("a link isn't decided by file-link and file-write-create")
	}
	if !p.Clone(Model{}, outside, new) || p.Clone(Model{}, inside, Target{Path: "/v/b"}) {
		t.Error("a clone isn't decided by file-clone and file-write-create")
	}
}

func TestVnodePath(t *testing.T) {
	for name, want := range map[string]string{
		"/tmp": "/private/tmp", "/tmp/a": "/private/tmp/a", "/var/x": "/private/var/x", "/etc": "/private/etc", "/tmpx": "/tmpx", "/": "/",
		"/System/Volumes/Data/Users/u": "/Users/u", "/System/Volumes/Data": "/", "/System/Volumes/Data/private/tmp": "/private/tmp", "/System/Volumes/Database": "/System/Volumes/Database",
	} {
		if got := Resolve(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	decide(t, []row{{"a rule for a symlink's path", `(allow file-read-data (subpath "/tmp"))`, "file-read-data", Resolve("/tmp/a"), false}})
}

// rejected checks that each of some rules is an error that contains want.
func rejected(t *testing.T, want string, rules ...string) {
	t.Helper()
	for _, r := range rules {
		if _, err := Parse(begin+r, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error about %q", r, err, want)
		}
	}
}

// TestFacts checks that each fact of the package comment has a test of its name.
func TestFacts(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("facts_test.go")
	if err != nil {
		t.Fatal(err)
	}
	facts := regexp.MustCompile(`(?m)^//   - (\w+):`).FindAllSubmatch(doc, -1)
	for _, f := range facts {
		if !strings.Contains(string(tests), "func Test"+string(f[1])+"(t *testing.T)") {
			t.Errorf("%s has no test", f[1])
		}
	}
	if len(facts) < 15 {
		t.Errorf("only %d facts", len(facts))
	}
}
