package policyfile

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// scene is a home, a workspace next to it and a TMPDIR, with a preset compiled for them.
type scene struct{ home, work, tmp string }

func newScene(t *testing.T) scene {
	t.Helper()
	dir := childtest.TempDir(t)
	s := scene{filepath.Join(dir, "home"), filepath.Join(dir, "work"), filepath.Join(dir, "tmp")}
	for _, d := range []string{".ssh", ".aws", ".config/git", ".config/go", ".cache/go-build", "go/pkg/mod", "go/bin", ".local/bin", ".pyenv/shims", ".nvm"} {
		childtest.Must(t, os.MkdirAll(filepath.Join(s.home, d), 0o755))
	}
	for _, f := range []string{".gitconfig", ".npmrc", ".netrc", ".git-credentials", ".config/git/config", ".config/git/credentials", ".bash_history"} {
		childtest.Must(t, os.WriteFile(filepath.Join(s.home, f), nil, 0o600))
	}
	for _, d := range []string{s.work, s.tmp} {
		childtest.Must(t, os.Mkdir(d, 0o755))
	}
	return s
}

func (s scene) compile(t *testing.T, policies ...string) *policy.Compiled {
	t.Helper()
	src, _, err := Load(Request{Policies: policies, Dir: s.work, Home: s.home, Path: "/usr/bin:/bin", TmpDir: s.tmp}, hostfs.Machine{})
	childtest.Must(t, err)
	return policytest.CompileSource(t, src, hostfs.Machine{})
}

func TestPresetsDecide(t *testing.T) {
	s := newScene(t)
	const rw = policy.Read | policy.Write
	secrets := []string{
		s.home, s.home + "/.ssh", s.home + "/.ssh/id_ed25519", s.home + "/.aws/credentials", s.home + "/.npmrc", s.home + "/.netrc",
		s.home + "/.git-credentials", s.home + "/.config/git/credentials", s.home + "/.bash_history", "/etc/shadow", "/etc/gshadow",
		"/etc/sudoers", "/etc/sudoers.d/x", "/etc/ssh/ssh_host_ed25519_key", "/etc/ssl/private/x.key", "/etc/pki/tls/private/x.key",
		"/etc/machine-id", "/proc/1/environ", "/proc/cmdline", "/proc/kallsyms", "/proc/kcore", "/dev/mem", "/dev/sda", "/dev/pts/0",
		"/var/lib/x", "/run/docker.sock", "/root/x", "/tmp/x", "/sys/kernel/debug/x",
	}
	program := map[string]policy.Caps{
		"/usr/bin/env": policy.Read | policy.Execute, "/etc/passwd": policy.Read, "/dev/null": policy.Read | policy.Update,
		"/proc/self/status": policy.Read, "/sys/devices/system/cpu/online": policy.Read,
	}
	const ru = policy.Read | policy.Update
	for _, c := range []struct {
		preset string
		caps   map[string]policy.Caps
	}{
		{"readonly", map[string]policy.Caps{s.work + "/x": policy.Read | policy.Execute, s.tmp + "/x": rw}},
		{"python", map[string]policy.Caps{s.work + "/x": policy.AllCaps, s.tmp + "/x": rw, s.home + "/.pyenv/shims/x": policy.Read | policy.Execute}},
		{"node", map[string]policy.Caps{s.work + "/x": policy.AllCaps, s.tmp + "/x": rw, s.home + "/.nvm/x": policy.Read | policy.Execute}},
		{"go", map[string]policy.Caps{
			s.work + "/x": policy.AllCaps, s.tmp + "/x": policy.AllCaps, s.home + "/.cache/go-build/x": policy.AllCaps,
			s.home + "/go/pkg/mod/x": policy.AllCaps, s.home + "/.config/go/env": policy.Read, s.home + "/.gitconfig": policy.Read,
		}},
		{"git", map[string]policy.Caps{
			s.work + "/.git/index": policy.AllCaps, s.tmp + "/x": rw, s.home + "/.gitconfig": policy.Read,
			s.home + "/.config/git/config": policy.Read,
		}},
		{"pty", map[string]policy.Caps{"/dev/ptmx": ru, "/dev/pts/0": ru, s.work + "/x": 0, s.tmp + "/x": rw}},
	} {
		compiled := s.compile(t, presetPrefix+c.preset)
		for _, path := range secrets {
			if _, expected := c.caps[path]; expected {
				continue
			}
			if got := compiled.Caps(path); got != 0 {
				t.Errorf("%s grants %s on %s", c.preset, got, path)
			}
		}
		for _, granted := range []map[string]policy.Caps{c.caps, program} {
			for path, want := range granted {
				if _, err := os.Lstat("/dev/ptmx"); err != nil && want == ru {
					continue // not on this machine
				}
				if got := compiled.Caps(path); got != want {
					t.Errorf("%s grants %s on %s, want %s", c.preset, got, path, want)
				}
			}
		}
	}
}

// A mechanism that can only add grants, such as Landlock, can't take anything away beneath one. So no preset, nor all of
// them together, may ask for that: not even where the system's own symlinks put two rules beneath each other.
func TestPresetsRemoveNothing(t *testing.T) {
	s := newScene(t)
	sets := [][]string{nil}
	var all []string
	for _, p := range Presets() {
		sets = append(sets, []string{p.Name})
		all = append(all, p.Name)
	}
	for _, set := range append(sets, all) {
		for _, l := range s.compile(t, set...).Layers {
			if l.Authority != policy.Session {
				continue
			}
			for _, r := range l.FS.Literals() {
				if over := l.FS.ParentRule(r.FS.Path); over != nil && over.FS.Caps&^r.FS.Caps != 0 {
					t.Errorf("%v: %s (%s) takes %s away from %s (%s)", set, r.FS.Path, r.Position, over.FS.Caps&^r.FS.Caps, over.FS.Path, over.Position)
				}
			}
		}
	}
}

// The rules of `protect` compile, and deny where they should.
func TestProtected(t *testing.T) {
	s := newScene(t)
	c := s.compile(t, "preset:git")
	for path, want := range map[string]bool{
		".git/hooks/pre-commit": false, ".git/config": false, "sub/.git/hooks": false, ".gitmodules": false, ".envrc": false, ".bashrc": false,
		".husky/pre-commit": false, ".pre-commit-config.yaml": false, ".github/hooks/x": false, ".devcontainer/devcontainer.json": false, ".devcontainer.json": false,
		".zed/tasks.json": false, "sub/.husky": false, ".github/workflows/x": true, ".vscode/tasks.json": false, ".idea/x": false, ".mcp.json": false, ".claude/settings.json": false, ".aider.conf.yml": false, ".config/fish/config.fish": false,
		".git/index": true, ".git/hooksx": true, "git/hooks": true, "config": true, ".aide": true, "vscode": true,
	} {
		if got := c.CheckFS(filepath.Join(s.work, path), policy.Create).Allow; got != want {
			t.Errorf("create %s: %v", path, got)
		}
		if got := c.CheckFS(filepath.Join(s.work, path), policy.Read).Allow; got != (path != ".envrc") { // a secret
			t.Errorf("read %s: %v", path, got)
		}
	}
}

// The files of `secrets` can't be read where everything is granted, and files that only look like them can. Each line of the list decides somewhere.
func TestSecretFiles(t *testing.T) {
	s := newScene(t)
	file := filepath.Join(s.work, "all.toml")
	childtest.Must(t, os.WriteFile(file, []byte("version = 1\n[access]\nprotect = false\n[[access.fs]]\npath = \"/\"\nread = true\nwrite = true\nexecute = true\n"), 0o644))
	c := s.compile(t, file)
	session := c.Layers[len(c.Layers)-1]
	unused := map[string]bool{}
	for _, r := range session.Secrets.Rules() {
		unused[r.FS.Written] = true
	}
	try := func(want bool, dir, names string) {
		for name := range strings.FieldsSeq(names) {
			path := name
			if dir != "" {
				path = filepath.Join(dir, name)
			}
			if got := c.CheckFS(path, policy.Read).Allow; got != want || c.CheckFS(path, policy.Execute).Allow != want || !c.CheckFS(path, policy.Update).Allow {
				t.Errorf("read %s: %v", path, got)
			}
			if r := session.Secrets.Deciding(path); r != nil {
				delete(unused, r.FS.Written)
			}
		}
	}
	for _, dir := range []string{s.work, filepath.Join(s.work, "a/b"), s.home, "/srv"} {
		try(false, dir, ".ssh .ssh/id_ed25519 .ssh/new .ssh/agent/x id_rsa id_rsa.bak id_dsa id_ecdsa id_ecdsa_sk id_ed25519 id_ed25519_sk ssh_host_rsa_key x.ppk "+
			"tls.key privkey.pem privkey1.pem home.ovpn .gnupg/private-keys-v1.d/x .aws/credentials .azure/x .config/gcloud/access_tokens.db .kube/config "+
			".docker/config.json .config/containers/auth.json .oci/config .config/doctl/x .config/hcloud/x .fly/config.yml .boto .s3cfg .config/rclone/rclone.conf "+
			".terraformrc .terraform.d/credentials.tfrc.json .pulumi/credentials.json .vault-token .databrickscfg .config/sops/age/keys.txt .config/op/config "+
			".netrc _netrc .git-credentials .config/git/credentials .config/gh/hosts.yml .config/hub .config/glab-cli/config.yml .pgpass .my.cnf .mylogin.cnf "+
			".pypirc .config/pypoetry/auth.toml .cargo/credentials .cargo/credentials.toml .gem/credentials .m2/settings.xml .m2/settings-security.xml "+
			".gradle/gradle.properties .composer/auth.json .config/composer/auth.json .env .env.local .env.production .envrc "+
			".local/share/keyrings/login.keyring .local/share/kwalletd/x .password-store/x.gpg x.kdbx .mozilla/firefox/x/logins.json .librewolf/x .thunderbird/x "+
			".config/google-chrome/Default/Cookies .config/chromium/x .config/BraveSoftware/x .config/microsoft-edge/x .config/vivaldi/x .config/opera/x "+
			".bash_history .zsh_history .zhistory .histfile .sh_history .local/share/fish/fish_history .python_history .node_repl_history .psql_history "+
			".mysql_history .sqlite_history .rediscli_history .claude/.credentials.json .claude.json .codex/auth.json .gemini/oauth_creds.json .qwen/oauth_creds.json "+
			".local/share/opencode/auth.json .aider/oauth-keys.env .config/cursor/auth.json .config/goose/secrets.yaml .config/github-copilot/hosts.json "+
			".cache/huggingface/token .kaggle/kaggle.json")
		try(true, dir, "id_rsa.pub .ssh/id_ed25519.pub .ssh/config .ssh/known_hosts .env.example .env.sample .env.template .env.dist .env/bin/python .env/lib/x "+
			".env/lib64/x .env/pyvenv.cfg cert.pem localhost-key.pem node_modules/x/test/server.pem site-packages/certifi/cacert.pem keystore.p12 truststore.jks "+
			".git/config .gitconfig .config/git/config .docker/daemon.json .yarnrc .cargo/config.toml .m2/repository/x .gradle/caches/x .terraform.d/plugin-cache/x "+
			"env .environment key keys.go monkey x.keys history order_history id_map.go ssh/x aws/credentials auth.json token credentials credentials.go settings.xml "+
			".config .local/share .claude/settings.json .codex/config.toml .gemini/settings.json")
	}
	try(true, "", s.work+"/.npmrc "+s.work+"/.yarnrc.yml "+s.tmp+"/.ssh/id_rsa "+s.tmp+"/x.key /usr/share/dns/root.key /etc/ssl/certs/x.pem /etc/passwd /etc/ssh/ssh_config")
	try(false, "", s.home+"/.npmrc "+s.home+"/.yarnrc.yml /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d/x /etc/security/opasswd "+
		"/etc/ssl/private/x /etc/pki/tls/private/x /etc/letsencrypt/live/x /etc/wireguard/wg0.conf /etc/ipsec.secrets /etc/ppp/chap-secrets "+
		"/etc/NetworkManager/system-connections/x /etc/krb5.keytab /etc/kubernetes/admin.conf /etc/rancher/k3s/k3s.yaml /run/secrets/kubernetes.io/x /etc/ssh/ssh_host_rsa_key")
	if len(unused) > 0 {
		t.Errorf("nothing tries %v", slices.Sorted(maps.Keys(unused)))
	}
}

// The session's TMPDIR and the system's programs are lifted, whatever the policy grants around them; a key there is read.
func TestNothingSecretOfTheSystem(t *testing.T) {
	s := newScene(t)
	for _, name := range []string{"default", "preset:go", "preset:python"} {
		policies := []string{name}
		if name == "default" {
			policies = nil
		}
		c := s.compile(t, policies...)
		for path, want := range map[string]bool{
			s.tmp + "/home/.ssh/id_rsa": true, "/usr/share/x/tls.key": true, s.work + "/.env": false, s.work + "/a/id_rsa": false, s.work + "/cert.pem": true, s.work + "/.npmrc": true,
		} {
			if got := c.CheckFS(path, policy.Read).Allow; got != want {
				t.Errorf("%s: read %s: %v", name, path, got)
			}
		}
	}
}

// An agent reads its own credentials, and no others.
func TestAgentsReadTheirOwn(t *testing.T) {
	s := newScene(t)
	own := map[string]string{
		"claude-code": ".claude/.credentials.json .claude.json", "codex": ".codex/auth.json", "gemini": ".gemini/oauth_creds.json",
		"cursor-agent": ".config/cursor/auth.json", "opencode": ".local/share/opencode/auth.json", "aider": ".aider/oauth-keys.env",
	}
	for preset := range own {
		c := s.compile(t, presetPrefix+preset)
		for whose, files := range own {
			for file := range strings.FieldsSeq(files) {
				if got := c.CheckFS(filepath.Join(s.home, file), policy.Read).Allow; got != (whose == preset) {
					t.Errorf("%s: read %s: %v", preset, file, got)
				}
			}
		}
	}
}

func TestPresetNames(t *testing.T) {
	var names []string
	for _, p := range Presets() {
		names = append(names, p.Name)
	}
	if !slices.Equal(names, []string{"preset:readonly", "preset:python", "preset:node", "preset:go", "preset:rust", "preset:java", "preset:c", "preset:git", "preset:pty", "preset:dns", "preset:claude-code", "preset:codex", "preset:gemini", "preset:cursor-agent", "preset:opencode", "preset:aider"}) {
		t.Error(names)
	}
}

// A built-in rule has the same id with and without a TMPDIR and a terminal: ids that check shows are those of exec.
func TestIDsAreTheSame(t *testing.T) {
	s := newScene(t)
	ids := func(tmp, terminal string) map[string]string {
		t.Helper()
		src, _, err := Load(Request{Policies: []string{"preset:go"}, Dir: s.work, Home: s.home, Path: "/usr/bin:/bin", TmpDir: tmp, Terminal: terminal, HideTTY: terminal == ""}, hostfs.Machine{})
		childtest.Must(t, err)
		c := policytest.CompileSource(t, src, hostfs.Machine{})
		out := map[string]string{}
		for _, r := range c.Rules {
			if r.FS != nil {
				out[r.ID] = r.FS.Written
			}
		}
		return out
	}
	without, with := ids("", ""), ids(s.tmp, s.home+"/.netrc")
	if len(with) != len(without)+4 { // the terminal and /dev/tty, and TMPDIR in both files
		t.Errorf("%d rules with, %d without", len(with), len(without))
	}
	for id, path := range without {
		if with[id] != path {
			t.Errorf("%s is %q, and %q with TMPDIR and a terminal", id, path, with[id])
		}
	}
}
