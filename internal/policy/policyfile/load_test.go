package policyfile

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// tree is a file system in memory: text by absolute path.
type tree map[string]string

func (t tree) Read(path string, limit int) ([]byte, error) {
	s, ok := t[path]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(s)[:min(len(s), limit)], nil
}

func (t tree) ReadTrusted(path string, limit int) ([]byte, error) {
	if strings.Contains(path, "untrusted") {
		return nil, errors.New(path + " is writable by users other than root (mode 0666)")
	}
	return t.Read(path, limit)
}

func (t tree) List(dir string) ([]string, error) {
	var names []string
	for path := range t {
		if filepath.Dir(path) == dir {
			names = append(names, filepath.Base(path))
		}
	}
	if names == nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	slices.Sort(names)
	return names, nil
}

func (t tree) Real(path string) (string, error) { return path, nil }

func (t tree) Exists(path string) bool {
	for p := range t {
		if p == path || strings.HasPrefix(p, path+"/") {
			return true
		}
	}
	return false
}

// request is a Request in /w, as the tests need it.
func request(policies ...string) Request {
	return Request{Policies: policies, Dir: "/w", Home: "/home/u", Path: "/usr/bin", TmpDir: "/tmp/session"}
}

// load loads p.toml and whatever else is in the tree.
func load(t *testing.T, req Request, files tree) *policy.Source {
	t.Helper()
	src, _, err := Load(req, files)
	childtest.Must(t, err)
	return src
}

// layerOf is the layer of an authority; a missing one is a failure.
func layerOf(t *testing.T, src *policy.Source, who policy.Authority) *policy.SourceLayer {
	t.Helper()
	for i := range src.Layers {
		if src.Layers[i].Authority == who {
			return &src.Layers[i]
		}
	}
	t.Fatalf("no layer of %s", who)
	return nil
}

func TestEveryKeyArrives(t *testing.T) {
	src := load(t, request("p.toml"), tree{"/w/p.toml": `
version = 1
name = "scraper"
workspace = "sub"

[access]
default = { fs = "deny", net = "deny", env = "allow", commands = "allow" }
runtime = false
protect = true
secrets = true
namespaces = true
syscalls = { profile = "strict", allow = ["io_uring_setup"], deny = ["acct"] }
capabilities = ["CAP_NET_BIND_SERVICE"]
tls_intercept = true
allow_degraded = ["fs.2"]

[[access.fs]]
path = "."
read = true
write = true
delete = false

[[access.fs]]
match = "**/.env"
unprotect = true
secret = true

[[access.net]]
host = "api.example.com"
scheme = "https"
port = 8443
path_prefix = "/v1"
methods = ["GET"]
protocol = "tcp"
allow = true

[[access.net]]
host = "127.0.0.1"
port = 80
listen = true
allow = true

[[access.env]]
name = "AWS_*"
read = true

[access.commands.git]
args = [["status", "**"], ["diff", ""]]
envs = ["HOME"]
match = [["git", "status"]]
not_match = [["git", "push"]]

[limits]
memory = "1.5GiB"
pids = 256
cpu = "150%"
io = "10MB/s"
wall_time = "10m"
open_files = 64
file_size = 1000
`})
	if src.Name != "scraper" || src.Workspace != "/w/sub" || src.Home != "/home/u" || !slices.Equal(src.Files, []string{"/w/p.toml"}) {
		t.Errorf("source: %+v", src)
	}
	l := layerOf(t, src, policy.Session)
	if l.Defaults != [...]policy.DefaultAction{policy.Deny, policy.Deny, policy.Allow, policy.Allow} {
		t.Errorf("defaults: %v", l.Defaults)
	}
	if l.Runtime != nil || l.Protect != policy.ProtectOn || len(l.Protected) == 0 || l.Secrets != policy.ProtectOn || len(l.SecretFiles) == 0 || !l.Namespaces || !l.TLSIntercept {
		t.Errorf("switches: %+v", l)
	}
	if l.Syscalls.Profile != "strict" || !slices.Equal(l.Syscalls.Allow, []string{"io_uring_setup"}) || !slices.Equal(l.Syscalls.Deny, []string{"acct"}) {
		t.Errorf("syscalls: %+v", l.Syscalls)
	}
	if !slices.Equal(l.Capabilities, []string{"CAP_NET_BIND_SERVICE"}) || l.Degraded[0].ID != "fs.2" || l.Degraded[0].Position.Line != 15 {
		t.Errorf("lists: %v %v", l.Capabilities, l.Degraded)
	}
	if f := l.FS[0]; f.Path != "." || f.Caps != policy.Read|policy.Create|policy.Update || f.Position.String() != "p.toml:17:1" {
		t.Errorf("fs.1: %+v at %s", f, f.Position)
	}
	if f := l.FS[1]; f.Match != "**/.env" || f.Caps != 0 || !f.Unprotect || !f.Secret {
		t.Errorf("fs.2: %+v", f)
	}
	n := l.Net[0]
	if n.Host != "api.example.com" || n.Scheme != "https" || n.Port != 8443 || n.PathPrefix != "/v1" || n.Methods[0] != "GET" ||
		n.Protocol != "tcp" || n.Listen || !n.Allow || !l.Net[1].Listen {
		t.Errorf("net: %+v", l.Net)
	}
	if e := l.Env[0]; e.Name != "AWS_*" || !e.Read {
		t.Errorf("env: %+v", e)
	}
	c := l.Commands[0]
	if c.Name != "git" || !c.HasArgs || c.Args[1][1] != "" || !c.HasEnvs || c.Match[0].Argv[1] != "status" || c.NotMatch[0].Argv[1] != "push" {
		t.Errorf("command: %+v", c)
	}
	m := src.Limits
	if m.Memory.N != 3<<29 || m.Pids.N != 256 || m.CPU.N != 150 || m.IO.N != 10e6 || m.WallTime.D.Minutes() != 10 || m.OpenFiles.N != 64 || m.FileSize.N != 1000 {
		t.Errorf("limits: %+v", m)
	}
}

func TestBuiltinFiles(t *testing.T) {
	for _, name := range []string{"runtime", "protect", "secrets", "default", "tools"} {
		builtinPolicy(name)
	}
	for i, p := range Presets() {
		src := load(t, request(p.Name), tree{"/w/go.mod": ""})
		agents := i >= slices.Index(presets, "dns") // they have hosts, and rules that not every mechanism can distinguish
		l := layerOf(t, src, policy.Session)
		if p.Doc == "" || src.Workspace != "/w" || src.Name != p.Name || len(src.Files) != 0 {
			t.Errorf("%s: %q %+v", p.Name, p.Doc, src)
		}
		if l.Defaults[policy.Net] != policy.Deny || !agents && len(l.Net) > 0 {
			t.Errorf("%s grants network", p.Name)
		}
		if a := builtinPolicy("preset_" + strings.TrimPrefix(p.Name, presetPrefix)).Access; a.Default[policy.Commands] != policy.Undeclared || a.Commands.Given {
			t.Errorf("%s declares commands: a list of a policy that extends it wouldn't restrict", p.Name)
		}
		for _, r := range slices.Concat(l.FS, l.Runtime) {
			if r.Match != "" && !agents || !r.Optional {
				t.Errorf("%s: rule %s%s isn't one that every mechanism can enforce", p.Name, r.Path, r.Match)
			}
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	files := tree{"/w/p.toml": "version = 1\nextends = [\"preset:python\"]\n[[access.fs]]\npath = \".\"\nread = true\n"}
	for b.Loop() {
		parsed.Clear()
		if _, _, err := Load(request("p.toml"), files); err != nil {
			b.Fatal(err)
		}
	}
}

// What looks like a variable or a pattern can be a name, with literal = true.
func TestLiteral(t *testing.T) {
	src := load(t, request("p.toml"), tree{"/w/p.toml": policyText("[access]\nfs = [{ path = \"$HOME\", literal = true }, { path = \"*.pem\", literal = true }, { path = \"a*\", read = true }]\n" +
		"[access.commands.\"[\"]\n[access.commands.\"/opt/My App/run\"]\n")})
	if got := rules(layerOf(t, src, policy.Session)); got != `fs $HOME none | fs *.pem none | fs a* read | command [ [] | command /opt/My App/run []` {
		t.Error(got)
	}
}
