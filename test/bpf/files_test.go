//go:build linux

package bpf

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The policy decides about the kernel's own files as about all others, for root, too.
func TestKernelFiles(t *testing.T) {
	const open = "exec 3>>/proc/sysrq-trigger && exec 3>>/proc/sys/kernel/core_pattern && echo open"
	for _, x := range []struct {
		policy string
		row
	}{
		{`default = { fs = "allow" }`, row{"where all files may be written", open, 0, ""}},
		{`default = { fs = "deny" }`, row{"where none may", open, 2, "outside_workspace update /proc/sysrq-trigger"}},
	} {
		x.run(t, workspace(t, "version = 1\n[access]\n"+x.policy+"\n[[access.env]]\nname = \"*\"\nread = true\n"))
	}
}

// A symlink's text may be read where its own path may, and where it leads to what a rule names by it, so that programs find a path's
// real name. Following one needs no capability.
func TestSymlinks(t *testing.T) {
	dir := workspace(t, "")
	way, other := dir+"-way", dir+"-other"
	for _, err := range []error{
		os.Mkdir(dir+"/sub", 0o755), os.WriteFile(dir+"/sub/file", []byte("text"), 0o644), os.Symlink("file", dir+"/sub/link"),
		os.Symlink(dir, way), os.Symlink(dir, other),
		os.WriteFile(dir+".toml", []byte("version = 1\n[access]\ndefault = { fs = \"deny\" }\n[[access.fs]]\npath = \""+way+"/sub\"\nread = true\n"), 0o644),
	} {
		must(t, err)
	}
	for _, x := range []row{
		{"the way to what may be read", "readlink -f " + way + "/sub/link", 0, ""},
		{"the system's", "readlink -f /bin/sh /etc/localtime /dev/stdin /dev/fd && readlink /proc/self/exe /proc/self/fd/1 /proc/mounts /proc/self", 0, ""},
		{"another to the same place", "readlink " + other, 1, "outside_workspace read WS-other"},
		{"through it", "cat " + other + "/sub/link", 0, ""},
	} {
		x.run(t, dir)
	}
}

// Opening an existing file with O_CREAT needs no create, and no denial of one is reported, even if the kernel calls the hook before it has
// looked the name up, as it does for a name that isn't in its cache. A missing file needs it.
func TestOpenedWithCreate(t *testing.T) {
	guest(t)
	dir := workspace(t, "version = 1\n[access]\ndefault = { fs = \"deny\" }\n[[access.fs]]\npath = \".\"\nread = true\nupdate = true\n")
	must(t, os.WriteFile(dir+"/there", nil, 0o644))
	for _, x := range []row{
		{"descriptors by their names", "echo x >/dev/stderr && echo x >>/dev/stderr && echo x >/proc/self/fd/1 && echo x >/dev/fd/2", 0, ""},
		{"a file", "echo x >>there && echo x >there", 0, ""},
		{"none", "echo x >absent", 2, "rule_denies create WS/absent fs.1 4:1"},
		{"none besides one", "echo x >there; echo x >>absent", 2, "rule_denies create WS/absent fs.1 4:1"},
	} {
		must(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0))
		x.run(t, dir)
	}
}

// Files with credentials can't be read or executed, under any name, beneath a grant of everything.
func TestSecrets(t *testing.T) {
	dir := workspace(t, `version = 1
[[access.fs]]
path = "/"
read = true
write = true
execute = true
[[access.fs]]
path = "given/.env"
read = true
secret = true
`)
	for name, text := range map[string]string{
		".env": "TOKEN=x\n", ".env.example": "TOKEN=\n", "given/.env": "TOKEN=y\n", "id_rsa": "#!/bin/sh\nexit 3\n", "id_rsa.pub": "ssh-rsa\n", "cert.pem": "public\n",
		".ssh/id_ed25519": "a key\n", ".ssh/config": "Host *\n", "link": "", ".venv/.env/bin/sh": "#!/bin/sh\nexit 4\n",
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	must(t, os.Remove(dir+"/link"))
	must(t, os.Symlink(".env", dir+"/link"))
	rule := func(r string) string { return secretRule(t, r) }
	for _, r := range []row{
		{"read", "cat .env", 1, "protected read WS/.env " + rule("/**/.env")},
		{"by a symlink", "cat link", 1, "protected read WS/.env " + rule("/**/.env")},
		{"to write and read", "exec 3<>.env", 2, "protected read+update WS/.env " + rule("/**/.env")},
		{"to write", "echo TOKEN=z >.env", 0, ""},
		{"a folder", "ls .ssh", 2, "protected read WS/.ssh " + rule("/**/.ssh")},
		{"beneath it", "cat .ssh/id_ed25519", 1, "protected read WS/.ssh/id_ed25519 " + rule("/**/id_ed25519*")},
		{"execute", "./id_rsa", 126, "protected execute WS/id_rsa " + rule("/**/id_rsa*")},
		{"a hard link", "ln .env x", 1, "protected read WS/.env " + rule("/**/.env")},
		{"exceptions", "cat id_rsa.pub .env.example .ssh/config >/dev/null; .venv/.env/bin/sh", 4, ""},
		{"what isn't listed", "cat cert.pem >/dev/null", 0, ""},
		{"granted with secret = true", "cat given/.env", 0, ""},
		{"a file of that name beneath", "mkdir -p a/b && echo x >a/b/.env && mv a/b a/c && cat a/c/.env", 1, "protected read WS/a/c/.env " + rule("/**/.env")},
	} {
		r.run(t, dir)
	}
	row{"another name", "mv .env x; test ! -s x", 0, "no_gain rename WS/.env " + rule("/**/.env") + "; protected read WS/.env " + rule("/**/.env")}.run(t, dir)
}

// Missing files that a submodule's repository would obey can't be created: its hooks, and files that lead to other settings.
func TestSubmoduleHooks(t *testing.T) {
	dir := workspace(t, "version = 1\nextends = [\"preset:git\"]\n")
	repository := filepath.Join(filepath.Dir(dir), "main/.git/modules/sub")
	for name, text := range map[string]string{
		dir + "/.git": "gitdir: " + repository + "\n", repository + "/config": "[core]\n\tworktree = " + dir + "\n", repository + "/HEAD": "ref: refs/heads/main\n",
		repository + "/objects/x": "", repository + "/refs/x": "",
	} {
		must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	for _, r := range []row{
		{"hooks", "mkdir $G/hooks", 1, "protected create " + repository + "/hooks "},
		{"hooks by another name", "mkdir $G/h && mv $G/h $G/hooks", 1, "protected create " + repository + "/hooks "},
		{"another common folder", "echo /tmp >$G/commondir", 2, "protected create " + repository + "/commondir "},
		{"what a commit writes", "echo x >$G/index.lock && mv $G/index.lock $G/index && echo x >$G/objects/y", 0, ""},
	} {
		r.command = "G=" + repository + "; " + r.command
		if r.event != "" {
			r.event += shownRule(t, dir, strings.Fields(r.event)[2])
		}
		r.run(t, dir)
	}
	if entries, err := filepath.Glob(repository + "/*o*k*"); err != nil || len(entries) != 0 {
		t.Errorf("there are %v, %v", entries, err)
	}
}

// shownRule is the id and the line of the rule of protect for a path, in a workspace.
func shownRule(t *testing.T, dir, path string) string {
	t.Helper()
	show := exec.Command(guest(t), "policy", "show", dir+".toml")
	show.Dir = dir
	return ruleIn(t, show, `{ path = "`+path+`" }`, "builtin:protect:")
}

// secretRule is the id and the line of a rule of secrets.
func secretRule(t *testing.T, match string) string {
	t.Helper()
	return ruleIn(t, exec.Command(guest(t), "policy", "show", "preset:git"), `{ match = "`+match+`" }`, "builtin:secrets:")
}

// ruleIn is the id and the line of the last such rule of a built-in file, as policy show prints it.
func ruleIn(t *testing.T, show *exec.Cmd, rule, file string) string {
	t.Helper()
	out, err := show.Output()
	must(t, err)
	for _, line := range slices.Backward(strings.Split(string(out), "\n")) {
		if strings.Contains(line, rule) && strings.Contains(line, file) {
			_, place, _ := strings.Cut(strings.TrimSpace(line), file)
			return strings.Fields(line)[0] + " " + strings.TrimPrefix(file, "builtin:") + place
		}
	}
	t.Fatalf("no %s in\n%s", rule, out)
	return ""
}
