//go:build linux

package bpf

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Rules about programs apply to the file that the kernel executes or maps as code, for every system call.
func TestExecute(t *testing.T) {
	guest(t)
	dir := workspace(t, `version = 1
[access]
protect = false
[[access.fs]]
path = "."
read = true
write = true
[[access.fs]]
path = "bin"
read = true
execute = true
[[access.env]]
name = "*"
read = true
`)
	code, err := os.ReadFile("/bin/true")
	must(t, err)
	for name, text := range map[string]string{
		"true": string(code), "bin/true": string(code), "script": "#!/bin/sh\nexit 3\n", "bin/script": "#!/bin/sh\nexit 3\n",
		"bin/interpreted": "#!" + dir + "/true\n",
	} {
		_ = os.Mkdir(dir+"/bin", 0o755)
		must(t, os.WriteFile(dir+"/"+name, []byte(text), 0o755))
	}
	const loader = "$(echo /lib64/ld-linux-x86-64.so.* /lib/ld-linux-aarch64.so.* | tr ' ' '\\n' | grep -v '*')"
	for _, r := range []row{
		{"a granted program", "bin/true", 0, ""},
		{"a program that isn't", "./true", 126, "rule_denies execute WS/true fs.1 4:1"},
		{"a granted script", "bin/script", 3, ""},
		{"a script that isn't", "./script", 126, "rule_denies execute WS/script fs.1 4:1"},
		{"a script that's read", ". ./script", 3, ""},
		{"a granted script's interpreter that isn't", "bin/interpreted", 126, "rule_denies execute WS/true fs.1 4:1"},
		{"a copy", "cp bin/true copy && ./copy", 126, "rule_denies execute WS/copy fs.1 4:1"},
		{"a granted program by the loader", loader + " ./bin/true", 0, ""},
		{"one that isn't by the loader", loader + " ./true", 127, "rule_denies execute WS/true fs.1 4:1"},
		{"a library that isn't granted", "LD_PRELOAD=$PWD/true bin/true; exit 0", 0, "rule_denies execute WS/true fs.1 4:1"},
		{"one that is, from the workspace", "cat bin/true >/dev/null", 0, ""},
		{"what isn't there", "./absent", 127, ""},
	} {
		r.run(t, dir)
	}
}

// Rules about commands apply to the resolved program and to the arguments that the kernel copied.
func TestCommands(t *testing.T) {
	guest(t)
	dir := workspace(t, `version = 1
[access.commands.sh]
[access.commands.echo]
args = [["-n", "yes"], ["all", "**"]]
[access.commands.env]
[access.commands.listed-script]
args = [["yes"]]
[[access.env]]
name = "*"
read = true
[access]
default = { fs = "allow", net = "allow" }
`)
	const script = "/usr/local/bin/listed-script"
	must(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	for _, r := range []row{
		{"a listed argument", "/bin/echo -n yes", 0, ""},
		{"one more than listed", "/bin/echo -n yes no", 126, "args_not_listed execute /usr/bin/echo commands.echo 3:1"},
		{"one less", "/bin/echo -n", 126, "args_not_listed execute /usr/bin/echo commands.echo 3:1"},
		{"another", "/bin/echo -n yet", 126, "args_not_listed execute /usr/bin/echo commands.echo 3:1"},
		{"what begins alike", "/bin/echo -n yesterday", 126, "args_not_listed execute /usr/bin/echo commands.echo 3:1"},
		{"any that follow", "/bin/echo all of them", 0, ""},
		{"none that follow", "/bin/echo all", 0, ""},
		{"a command that isn't listed", "/bin/ls", 126, "command_not_listed execute /usr/bin/ls"},
		{"by another program", "PATH=/usr/bin env ls", 126, "command_not_listed execute /usr/bin/ls"},
		{"a script's argument", "listed-script yes", 0, ""},
		{"one that isn't listed", "listed-script no", 126, "args_not_listed execute " + script + " commands.listed-script 6:1"},
		{
			"one that is looked at when its interpreter begins", "listed-script $(printf %01000d 0); exit $?", 137,
			"args_not_listed execute " + script + " commands.listed-script 6:1",
		},
		{"arguments by another program", "PATH=/usr/bin env echo no", 126, "args_not_listed execute /usr/bin/echo commands.echo 3:1"},
	} {
		r.run(t, dir)
	}
}

// Commands end as they would without toolguard, and work under the presets for them.
func TestWork(t *testing.T) {
	guest(t)
	dir := workspace(t, `version = 1
extends = ["preset:python", "preset:git"]
[[access.fs]]
path = "."
read = true
write = true
execute = true
[[access.env]]
name = "*"
read = true
`)
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil { // which writes protected files
		t.Fatalf("%v: %s", err, out)
	}
	first, err := os.ReadFile("/proc/1/comm") // init, or systemd
	must(t, err)
	module := "syscall_denied kernel loading a module"
	if os.Getenv("TOOLGUARD_VM") == "newest" {
		module = "" // since Linux 6.14 formats aren't looked for among modules
	}
	for _, r := range []row{
		{"its own exit status", "exit 7", 7, ""},
		{"a signal's", "kill -TERM $$", 128 + 15, ""},
		{"python", `python3 -B -c 'import subprocess, sys; sys.exit(subprocess.run(["sh", "-c", "exit 4"]).returncode)'`, 4, ""},
		{"git", "echo x >file && git add file && git -c user.name=a -c user.email=a@b commit -qm x && git log --oneline | wc -l >n && test $(cat n) = 1", 0, ""},
		{"a format that a module might know", `printf '\1\2\3\4' >odd && chmod +x odd && python3 -B -c 'import os; os.execv("odd", ["odd"])' 2>/dev/null`, 1, module},
		{"programs that are killed as they begin", "for i in $(seq 50); do sleep 1000 & kill $!; done", 0, ""}, // which the kernel treats as an unknown format
		{"a process's own entries", "sleep 1000 & read line </proc/$!/status; kill $!", 0, ""},
		{"another's", "read line </proc/1/status", 2, "outside_workspace read /proc/1/status"},
		{"a file outside", "echo >/root/outside", 2, "outside_workspace create /root/outside"},
		{"a signal to the outside", "kill -0 1", 1, "syscall_denied signal " + strings.TrimSpace(string(first))},
	} {
		r.run(t, dir)
	}
}
