package darwin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/darwin"
	"github.com/toolguard/toolguard/internal/policy"
)

// closed begins a policy without built-in rules.
const closed = "version = 1\n[access]\nruntime = false\nprotect = false\nsecrets = false\n"

// workspace grants all but execute in the workspace.
const workspace = "[[access.fs]]\npath = \".\"\nread = true\nwrite = true\n"

func path(p string, caps ...string) string { return fsRule("path", p, caps) }

func match(m string, caps ...string) string { return fsRule("match", m, caps) }

func fsRule(key, value string, caps []string) string {
	text := "[[access.fs]]\n" + key + " = '" + value + "'\n"
	for _, c := range caps {
		text += c + " = true\n"
	}
	return text
}

func global(rules string) string {
	return "[authorities.global.access]\nruntime = false\nprotect = false\nsecrets = false\n" +
		strings.ReplaceAll(rules, "[[access.", "[[authorities.global.access.")
}

// Operations by short names.
var ops = map[string]string{
	"read": "file-read-data", "create": "file-write-create", "update": "file-write-data", "delete": "file-write-unlink", "link": "file-link",
	"exec": "process-exec", "map": "file-map-executable", "stat": "file-read-metadata", "connect": "network-outbound", "bind": "network-bind",
	"accept": "network-inbound", "clone": "file-clone", "chmod": "file-write-mode", "setuid": "file-write-setugid", "script": "process-exec-interpreter",
}

// Each row is a policy, and operations with the decision: "+read PATH" is allowed, "-read PATH" isn't. A path is in the workspace unless it
// begins with a slash; one that ends with a slash is a folder's.
func TestDecisions(t *testing.T) {
	for _, x := range []struct {
		name, policy string
		want         []string
	}{
		{"what every program needs", closed + path("/nothing") + "[access.commands]\n", []string{
			"-read a", "+stat a", "+stat /x", "+read /", "-read /x", "-exec /bin/sh", "-create a", "-setuid a", "-connect tcp localhost:80",
		}},
		{"the deeper rule", closed + workspace + path("data", "read") + path("data/out", "read", "create"), []string{
			"+read a", "+update a", "-exec a", "+read data/a", "-update data/a", "-create data/a", "+create data/out/a", "-update data/out/a", "-update data",
			"+chmod a", "-chmod data/a", "+update database",
		}},
		{"the rule of a later line, on one path", closed + path("a", "read") + path("a", "update"), []string{"-read a", "+update a"}},
		{"a pattern in a folder and in a deeper one", closed + workspace + path("data", "read") + match("**/.env"), []string{
			"-read .env", "-read a/.env", "-read .env/a", "-read data/.env", "-read data/a/.env/a", "+read data/env", "-create b/.env", "+read .envx",
		}},
		{"a literal rule beneath a pattern's match", closed + workspace + match("**/.env") + path("a/.env", "read"), []string{
			"+read a/.env", "-update a/.env", "-read a/.env/b/.env", "+read a/.env/b", "-read b/.env",
		}},
		{"a pattern with names, and a rule in the middle of them", closed + workspace + match("**/.git/hooks", "read") + path("s/.git", "read", "write"), []string{
			"-update .git/hooks/a", "-update s/.git/hooks/a", "+update s/.git/config", "-update s/.git/x/.git/hooks", "+update s/.git/x/hooks",
		}},
		{"prefixes and suffixes", closed + workspace + match("**/id_*") + match("**/*.key"), []string{
			"-read id_rsa", "-read a/id_/b", "+read xid_rsa", "-read a.key", "-read .key/b", "+read a.keys", "+read key",
		}},
		{"a BASE", closed + workspace + path("/opt/x", "read") + match("a/**/.env"), []string{"-read a/b/.env", "+read /opt/x/.env", "-read a/.env"}},
		{"any case of what is denied, the exact one of what is granted", closed + workspace + path("Data") + match("**/.env"), []string{
			"-read Data/a", "-read dATA/a", "-create data", "-read .ENV", "-read a/.Env/b", "+read dat",
		}},
		{"a pattern that grants is exact", closed + path(".") + match("**/*.md", "read"), []string{"+read a.md", "-read a.MD", "-read a", "+read x.md/a"}},
		{"composed and decomposed letters", closed + workspace + match("**/caf\u00e9"), []string{
			"-read caf\u00e9", "-read cafe\u0301", "-read CAF\u00c9", "-read cafE\u0301/a", "+read cafe", "+read cafes",
		}},
		{"names with the characters of regular expressions", closed + workspace + match("**/a.b+(c|d)$^"), []string{"-read a.b+(c|d)$^", "+read axb+(c|d)$^", "+read a.bb"}},
		{"a line break in a name", closed + workspace + match("**/.env"), []string{"-read a\nb/.env", "+read .env\nb", "+read a\n.env"}},
		{"both spellings", closed + path("/tmp/b", "read") + path("/private/var/b", "read") + path("/etc/b", "read") + match("/tmp/b/**/k"), []string{
			"+read /tmp/b/a", "+read /private/tmp/b/a", "+read /var/b", "+read /private/var/b", "+read /etc/b", "+read /private/etc/b",
			"-read /tmp/b/k", "-read /private/tmp/b/x/k", "-read /private/b/a", "-read /tmp/a",
		}},
		{"the data volume", closed + path("/System/Volumes/Data/Users/me/d", "read"), []string{
			"+read /Users/me/d/a", "-read /System/Volumes/Data/Users/me/d/a",
		}},
		{"the data volume where everything is allowed", strings.Replace(closed, "[access]", "[access]\ndefault = 'allow'", 1) + path("~/p"), []string{
			"+read /Users/me/a", "-read /Users/me/p", "-read /System/Volumes/Data/Users/me/p", "-update /Users/ME/P/a", "+exec /x",
		}},
		{"both layers", closed + workspace + path("/opt", "read") + global(path(".", "read", "create")+path("/opt/a", "read")+match("**/.env")), []string{
			"+read a", "+create a", "-update a", "-read .env", "-read /opt/b", "+read /opt/a/b",
		}},
		{"patterns of both layers", closed + path(".") + match("**/*.md", "read") + global(match("**/docs", "read")), []string{
			"+read docs/a.md", "-read a.md", "-read docs/a", "+read a.md/docs",
		}},
		{"protect, and what lifts it", strings.Replace(closed, "protect = false", "protect = true", 1) + workspace +
			path(".vscode", "read", "write", "unprotect"), []string{
			"+read .git/config", "-update .git/config", "-create a/.git/hooks/x", "-create .vscodium/.vscode", "+create .vscode/a", "-update .VSCODE/a",
			"+create .vscode/.git/config", "-delete .vscode/d/", "+delete .vscode/d", "-create a/.git", "-delete a/.git/", "+create a/.git/info2",
		}},
		{"secrets, their exceptions, and what lifts them", strings.Replace(closed, "secrets = false", "secrets = true", 1) + workspace +
			path("fix", "read", "secret"), []string{
			"-read .env", "-read id_rsa", "+read id_rsa.pub", "-read a.pub/id_rsa", "+read .ssh/config", "-read .ssh/other", "+read fix/id_rsa", "+update .env",
			"-delete .env", "+delete a", "-link .env", "-clone .docker/", "-read Library/Keychains/login.keychain-db",
		}},
		{
			"a secret stays where it can't be executed", strings.Replace(closed, "secrets = false", "secrets = true", 1) + path(".", "create", "delete", "execute"),
			[]string{"-exec .env", "-delete .env", "+delete a", "+exec a"},
		},
		{"what can't be read stays", closed + workspace + path("drop", "create", "delete"), []string{"-delete drop/a", "+delete a", "-link drop/a", "+link a"}},
		{"a link needs what a new file can have", closed + workspace + path("ro", "read", "delete"), []string{"-link ro/a", "+delete ro/a", "+clone a"}},
		{"folders above a rule", closed + workspace + path("a/b/c", "read"), []string{
			"-delete a/", "-delete a/b/", "+delete a/d", "-create a", "-create A/B", "-clone a/b/", "-update a/b/c",
		}},
		{"folders above a rule that takes nothing away", closed + workspace + path("a/b", "read", "write", "execute"), []string{"+create a", "-delete a/"}},
		{"a pattern follows what can be moved", closed + workspace + path("/opt/w", "read", "write") + match("**/.env"), []string{"-read /opt/w/.env", "-create /opt/w/x/.env"}},
		{"toolguard's own files", strings.Replace(closed, "[access]", "[access]\ndefault = 'allow'", 1), []string{
			"-update /Users/me/p/policy.toml", "-delete /Users/me/p/", "-create /etc/toolguard/x", "-create /private/etc/toolguard/x", "+read /etc/toolguard/x",
			"-delete /Users/me/.config/toolguard/x", "-link /Users/me/p/policy.toml", "-connect /run/toolguard/toolguard.sock", "-update /USERS/me/p/POLICY.toml",
		}},
		{"unix sockets", closed + workspace + path("ro", "read"), []string{"+connect s", "+bind s", "+accept s", "-connect ro/s", "-bind ro/s", "-connect /var/run/docker.sock"}},
		{"programs", closed + path("/usr", "read", "execute") + path("/bin", "read") + "[access.commands.git]\n[access.commands.'/bin/sh']\n", []string{
			"+exec /usr/bin/git", "-exec /usr/bin/make", "-exec /bin/sh", "+map /usr/lib/a.dylib", "+script /usr/bin/python3",
		}},
		{"a program that one layer doesn't list", closed + path("/usr", "read", "execute") + "[access.commands.git]\n" + global(path("/", "read", "execute")) +
			"[authorities.global.access.commands.make]\n", []string{"-exec /usr/bin/git", "-exec /usr/bin/make"}},
		{"no network", closed, []string{"-connect tcp localhost:3128", "-connect tcp x:443", "-bind tcp localhost:1"}},
		{"a host", closed + "[[access.net]]\nhost = 'a.example'\nallow = true\n", []string{"+connect tcp localhost:3128", "-connect tcp localhost:80", "-connect tcp x:443", "-connect udp x:53"}},
		{"a port of loopback", closed + "[[access.net]]\nhost = 'localhost'\nport = 80\nallow = true\n", []string{
			"+connect tcp localhost:80", "-connect tcp localhost:3128", "-connect tcp x:80", "-connect udp localhost:80", "-bind tcp localhost:80",
		}},
		{"a server", closed + "[[access.net]]\nhost = 'localhost'\nport = 80\nlisten = true\nallow = true\n", []string{
			"+bind tcp localhost:80", "+accept tcp localhost:80", "-bind tcp x:80", "-connect tcp localhost:80",
		}},
		{"a port of the machine that is allowed all the same", strings.Replace(closed, "[access]", "[access]\ndefault = { net = 'allow' }", 1) + "[[access.net]]\nhost = 'localhost'\n[[access.net]]\nhost = 'localhost'\nport = 80\nallow = true\n", []string{
			"+connect tcp localhost:80", "-connect tcp localhost:81", "+connect tcp x:81",
		}},
		{"every host but the machine", strings.Replace(closed, "[access]", "[access]\ndefault = { net = 'allow' }", 1) + "[[access.net]]\nhost = 'localhost'\n", []string{
			"+connect tcp x:80", "+connect udp x:53", "-connect tcp localhost:80", "+bind tcp localhost:80", "+connect /private/var/run/mDNSResponder",
		}},
		{"every host but one, through egress", strings.Replace(closed, "[access]", "[access]\ndefault = { net = 'allow' }", 1) + "[[access.net]]\nhost = 'a.example'\n", []string{
			"-connect tcp x:80", "+connect tcp localhost:3128",
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			d := newDecider(t, render(t, compile(t, x.policy)))
			for _, w := range x.want {
				op, target, _ := strings.Cut(w[1:], " ")
				if target[0] != '/' && !strings.Contains(target, ":") {
					target = "/Users/me/ws/" + target
				}
				if got := d.allows(ops[op], target); got != (w[0] == '+') {
					t.Errorf("%s: %v", w, got)
				}
			}
		})
	}
}

// No path and no name of a policy is in the profile's text, and no rule of a policy is without a filter, or about a class of operations.
func TestText(t *testing.T) {
	c := compile(t, "version = 1\n"+workspace+path(`quo"te) (allow default) (x "`, "read")+match(`**/zz"pattern) (allow default`)+path("/opt/zz-top", "read"))
	p := render(t, c)
	for _, name := range []string{"/Users", "quo", "zz", "toolguard\"", "no-sandbox", "setugid"} {
		if strings.Contains(p.Text, name) {
			t.Errorf("the profile contains %q", name)
		}
	}
	for _, r := range parse(t, p.Text) {
		var words []string
		for _, e := range r.list {
			if e.list == nil {
				words = append(words, e.atom)
			}
		}
		alone := []string{
			"version 1", "deny default", "allow process-fork", "allow ipc-posix-sem", "allow pseudo-tty", "deny process-info*", "deny nvram*", "deny iokit-get-properties",
			"deny file-map-executable", "deny file-link", "deny file-clone", "deny fs-snapshot-mount",
		}
		if len(words) == len(r.list) && !slices.Contains(alone, strings.Join(words, " ")) {
			t.Errorf("a rule without a filter: %v", words)
		}
		for _, w := range words[1:] {
			if strings.HasSuffix(w, "*") && w != "process-info*" && w != "nvram*" {
				t.Errorf("a class of operations: %s", w)
			}
		}
	}
	names := map[string]bool{}
	for _, x := range p.Params {
		if names[x.Name] {
			t.Errorf("the parameter %s is there twice", x.Name)
		}
		names[x.Name] = true
	}
}

// The rules about toolguard's own files come after every rule of the policy.
func TestOwnFilesLast(t *testing.T) {
	text := render(t, compile(t, closed+workspace+path("a/b"))).Text
	own := strings.Index(text, "; toolguard's own files")
	if own < 0 || strings.Contains(text[own:], "(allow") {
		t.Errorf("something is allowed after toolguard's own files:\n%s", text[own:])
	}
}

// A row for each rule, in order, and for what else a policy asks for.
func TestReport(t *testing.T) {
	for _, x := range []struct {
		name, policy string
		row          string // "ID: status", and a part of why after a comma
	}{
		{"a rule", closed + workspace, "fs.1: enforced"},
		{"patterns that differ", closed + match("**/a", "read") + match("**/b", "update"), "fs.1: not enforceable, it and fs.2 differ in capabilities"},
		{"patterns that differ, elsewhere", closed + match("x/**/a", "read") + match("y/**/b", "update"), "fs.2: enforced"},
		{"patterns that are the same", closed + match("**/a", "read") + match("**/b", "read"), "fs.2: enforced"},
		{"arguments", closed + "[access.commands.git]\nargs = [['status']]\n", "commands.git: not enforceable, not its arguments"},
		{"variables of a program", closed + "[access.commands.git]\nenvs = ['A']\n", "commands.git: not enforceable, variables of a single program"},
		{"any arguments", closed + "[access.commands.git]\n", "commands.git: enforced"},
		{"a host", closed + "[[access.net]]\nhost = 'a.example'\nscheme = 'https'\nallow = true\n", "net.1: enforced, proxy variables"},
		{"raw TCP by name", closed + "[[access.net]]\nhost = 'a.example'\nport = 5432\nallow = true\n", "net.1: not enforceable, raw TCP by name"},
		{"UDP by name", closed + "[[access.net]]\nhost = 'a.example'\nport = 53\nprotocol = 'udp'\nallow = true\n", "net.1: not enforceable, TCP alone"},
		{"ssh by name", closed + "[[access.net]]\nhost = 'a.example'\nscheme = 'ssh'\nallow = true\n", "net.1: not enforceable, ssh by name"},
		{"an address", closed + "[[access.net]]\nhost = '10.0.0.0/8'\nport = 80\nallow = true\n", "net.1: not enforceable, name an address"},
		{"an address that is denied", strings.Replace(closed, "[access]", "[access]\ndefault = { net = 'allow' }", 1) + "[[access.net]]\nhost = '10.0.0.0/8'\n", "net.1: not enforceable, name an address"},
		{"loopback", closed + "[[access.net]]\nhost = 'localhost'\nport = 80\nallow = true\n", "net.1: enforced"},
		{"one address of loopback", closed + "[[access.net]]\nhost = '127.0.0.1'\nport = 80\nallow = true\n", "net.1: partly, ::1"},
		{"a UDP server", closed + "[[access.net]]\nhost = 'localhost'\nport = 80\nprotocol = 'udp'\nlisten = true\nallow = true\n", "net.1: not enforceable, UDP server"},
		{"a variable", closed + "[[access.env]]\nname = 'A'\nread = true\n", "env.1: enforced"},
		{"memory", closed + "[limits]\nmemory = '1GiB'\n", "limits.memory: not enforceable, control groups"},
		{"wall time", closed + "[limits]\nwall_time = '1m'\n", "limits.wall_time: enforced"},
		{"open files", closed + "[limits]\nopen_files = 9\n", "limits.open_files: enforced"},
		{"the audit", "audit = 'exec'\n" + closed, "audit: not enforceable, what is executed"},
		{"system calls", strings.Replace(closed, "[access]", "[access]\nsyscalls = 'strict'", 1), "syscalls: not enforceable, filter of system calls"},
		{"toolguard's own", closed, "toolguard.1: enforced"},
		{"protect", strings.Replace(closed, "protect = false", "protect = true", 1) + workspace, "protect.1: enforced, a part of it"},
		{"secrets", strings.Replace(closed, "secrets = false", "secrets = true", 1) + workspace, "secrets.1: enforced, deleted"},
		{
			"a folder that takes secrets in", strings.Replace(closed, "secrets = false", "secrets = true", 1) + workspace + path("x", "read", "create", "secret"),
			"fs.2: partly, moved here with secrets",
		},
		{
			"folders that could have been made where nothing is protected",
			strings.Replace(closed, "protect = false", "protect = true", 1) + path(".", "read", "write", "unprotect") + path("x", "read", "write"),
			"fs.2: enforced, folders in it can't be removed",
		},
		{"another layer", closed + workspace + global(path(".", "read")), "global.fs.1: enforced"},
		{"the tool layer", closed + "[gate]\nstrict = true\n", "gate.strict: not enforceable, calls of tools"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := compile(t, x.policy)
			p := render(t, c)
			want, why, _ := strings.Cut(x.row, ", ")
			i := slices.IndexFunc(p.Report, func(r policy.Enforceability) bool { return r.ID+": "+r.Status.String() == want })
			if i < 0 || !strings.Contains(p.Report[i].Why, why) {
				t.Errorf("no row %q in\n%s", x.row, golden(p, false))
			}
			if i >= 0 && p.Report[i].Status != policy.Enforced && p.Report[i].Why == "" {
				t.Error("the row doesn't say why")
			}
			for _, r := range c.Rules {
				if !slices.ContainsFunc(p.Report, func(row policy.Enforceability) bool { return row.Rule == r }) {
					t.Errorf("%s has no row", r.ID)
				}
			}
		})
	}
}

// Without egress no host is reached, and the report says so.
func TestNoEgress(t *testing.T) {
	c := compile(t, closed+"[[access.net]]\nhost = 'a.example'\nallow = true\n")
	p, err := darwin.Render(c, darwin.Options{})
	if err != nil || strings.Contains(p.Text, "localhost") {
		t.Errorf("%v\n%s", err, p.Text)
	}
	if !slices.ContainsFunc(p.Report, func(r policy.Enforceability) bool { return r.ID == "net.1" && r.Status == policy.NotEnforceable }) {
		t.Error("net.1 isn't reported")
	}
}

// Too many combinations of patterns are an error.
func TestTooManyPatterns(t *testing.T) {
	text := closed
	for i, name := range strings.Fields("a b c d e f g h i j k l m n o p q r") {
		var caps []string
		for bit, c := range []string{"read", "create", "update", "delete", "execute"} {
			if i>>bit&1 != 0 {
				caps = append(caps, c)
			}
		}
		text += match("**/"+name, caps...)
	}
	if _, err := darwin.Render(compile(t, text), darwin.Options{}); err == nil || !strings.Contains(err.Error(), "too many different patterns") {
		t.Errorf("%v", err)
	}
}
