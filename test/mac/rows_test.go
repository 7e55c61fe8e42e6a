package mac

// attack is a script that must fail under a policy, and succeed under its control. In the texts {ws} is the workspace, {home} the home, {out} a folder
// outside of both, {port} the port of an HTTP server on this machine, and {pid} a process outside of the session.
type attack struct {
	name    string
	access  string // keys of [access]; "": protect and secrets are off
	rules   string
	control string // rules that grant it; "-": nothing grants it, and the control runs without toolguard
	denied  string // a question that the rules deny and the control allows; "": it's always denied
	before  string // a script in the workspace, without toolguard
	script  string
	mac     bool // it needs what only macOS has
}

const (
	off  = "protect = false\nsecrets = false\n"
	key  = "[[access.fs]]\npath = \"key.txt\"\n"
	read = "[[access.fs]]\npath = \"ro.txt\"\nread = true\n"

	writeKey  = "echo content >key.txt"
	writeRead = "echo content >ro.txt"
)

// base is a part of every policy.
const base = `
[[access.fs]]
path = "."
read = true
write = true
execute = true
`

var attacks = []attack{
	{name: "read a denied file", rules: key, denied: "fs read key.txt", before: writeKey, script: "cat key.txt"},
	{name: "rename a denied file and read it", rules: key, denied: "fs delete key.txt", before: writeKey, script: "mv key.txt other.txt && cat other.txt"},
	{name: "rename the folder of a denied file", rules: "[[access.fs]]\npath = \"vault/key.txt\"\n", denied: "fs read vault/key.txt", before: "mkdir vault; echo content >vault/key.txt", script: "mv vault away && cat away/key.txt"},
	{name: "rename a folder above a denied file", rules: "[[access.fs]]\npath = \"a/b/key.txt\"\n", denied: "fs read a/b/key.txt", before: "mkdir -p a/b; echo content >a/b/key.txt", script: "mv a c && cat c/b/key.txt"},
	{name: "read a denied file by a hard link", rules: key, denied: "fs read key.txt", before: writeKey, script: "ln key.txt link && cat link"},
	{name: "read a denied file by a symlink", rules: key, denied: "fs read key.txt", before: writeKey, script: "ln -s key.txt link && cat link"},
	{name: "read a denied file by a clone", rules: key, denied: "fs read key.txt", before: writeKey, script: "cp -c key.txt clone && cat clone", mac: true},
	{name: "read a denied file in another case", rules: key, denied: "fs read key.txt", before: writeKey, script: "cat KEY.TXT", mac: true},
	{name: "read a denied file on the data volume", rules: key, control: "-", denied: "fs read key.txt", before: writeKey, script: "cat /System/Volumes/Data{ws}/key.txt", mac: true},
	{name: "read a denied file by the other spelling of /private", rules: key, denied: "fs read key.txt", before: writeKey, script: `here=$(pwd -P); cat "${here#/private}/key.txt"`, mac: true},
	{name: "read a denied file by tar", rules: key, denied: "fs read key.txt", before: writeKey, script: "tar cf - key.txt | tar xOf - key.txt | grep content"},

	{name: "create a file of a denied name", rules: "[[access.fs]]\nmatch = \"**/.env\"\n", denied: "fs create sub/.env", before: "mkdir sub", script: "echo x >sub/.env"},
	{name: "create a file of a denied name in another case", rules: "[[access.fs]]\nmatch = \"**/.env\"\n", denied: "fs create sub/.env", before: "mkdir sub", script: "echo x >sub/.ENV", mac: true},
	{name: "rename a file to a denied name", rules: "[[access.fs]]\nmatch = \"**/.env\"\n", denied: "fs create sub/.env", before: "mkdir sub", script: "echo x >x && mv x sub/.env"},
	{name: "write a denied file that doesn't exist yet", rules: "[[access.fs]]\npath = \"later.txt\"\n", denied: "fs create later.txt", script: "echo x >later.txt"},
	{name: "link to a denied name", rules: "[[access.fs]]\nmatch = \"**/.env\"\n", denied: "fs create sub/.env", before: "mkdir sub", script: "echo x >x && ln x sub/.env"},

	{name: "truncate a read-only file", rules: read, denied: "fs update ro.txt", before: writeRead, script: ": >ro.txt && test ! -s ro.txt"},
	{name: "append to a read-only file", rules: read, denied: "fs update ro.txt", before: writeRead, script: "echo x >>ro.txt"},
	{name: "remove a read-only file", rules: read, denied: "fs delete ro.txt", before: writeRead, script: "rm -f ro.txt && test ! -e ro.txt"},
	{name: "replace a read-only file", rules: read, denied: "fs delete ro.txt", before: writeRead, script: "echo x >x && mv -f x ro.txt && grep x ro.txt"},
	{name: "change the mode of a read-only file", rules: read, denied: "fs update ro.txt", before: writeRead, script: "chmod 777 ro.txt"},
	{name: "change the times of a read-only file", rules: read, denied: "fs update ro.txt", before: writeRead, script: "touch -t 200001010000 ro.txt"},
	{name: "change an attribute of a read-only file", rules: read, denied: "fs update ro.txt", before: writeRead, script: "xattr -w user.x y ro.txt", mac: true},
	{name: "write a read-only file by a hard link", rules: read, denied: "fs update ro.txt", before: writeRead, script: "ln ro.txt link && echo x >link && grep x ro.txt"},

	{name: "add a git hook", access: "protect = true\nsecrets = false\n", control: "[[access.fs]]\npath = \".git/hooks\"\nread = true\nwrite = true\nunprotect = true\n", denied: "fs create .git/hooks/pre-commit", before: "mkdir -p .git/hooks", script: "echo x >.git/hooks/pre-commit"},
	{name: "rename a folder to git's hooks", access: "protect = true\nsecrets = false\n", control: "-", denied: "fs create .git/hooks/pre-commit", before: "mkdir .git", script: "mkdir h && echo x >h/pre-commit && mv h .git/hooks && test -e .git/hooks/pre-commit"},
	{name: "read a secret file", access: "protect = false\nsecrets = true\n", control: "[[access.fs]]\npath = \".env\"\nread = true\nsecret = true\n", denied: "fs read .env", before: "echo content >.env", script: "cat .env"},
	{name: "write the policy", control: "-", before: "cp policy.toml saved.toml", script: "echo >>policy.toml && ! cmp -s policy.toml saved.toml"},

	{name: "write in the home", control: "[[access.fs]]\npath = \"~\"\nread = true\nwrite = true\n", denied: "fs create {home}/.zshrc", script: `echo x >>"{home}/.zshrc"`},
	{name: "write in /tmp", control: "[[access.fs]]\npath = \"/tmp\"\nread = true\nwrite = true\n", denied: "fs create /private/tmp/x", script: `f=/tmp/toolguard-attack-$$; echo x >$f && rm $f`},
	{name: "read outside of the workspace", control: "[[access.fs]]\npath = \"{out}\"\nread = true\n", denied: "fs read {out}/file", before: "echo content >{out}/file", script: "cat {out}/file"},

	{name: "execute what may only be read", rules: "[[access.fs]]\npath = \"tool.sh\"\nread = true\n", denied: "fs execute tool.sh", before: `printf '#!/bin/sh\nexit 0\n' >tool.sh; chmod +x tool.sh`, script: "./tool.sh"},
	{name: "set the set-user-ID bit", control: "-", before: "echo x >f", script: "chmod u+s f && test -u f"},

	{name: "connect to a server of this machine", control: "[[access.net]]\nhost = \"127.0.0.1\"\nport = {port}\nallow = true\n", denied: "net connect tcp://127.0.0.1:{port}", script: "curl -sf --noproxy '*' --max-time 10 http://127.0.0.1:{port}/"},
	{name: "ask egress for another host", rules: "[[access.net]]\nhost = \"other.test\"\nscheme = \"http\"\nallow = true\n", control: "[[access.net]]\nhost = \"localhost\"\nscheme = \"http\"\nport = {port}\nallow = true\n", denied: "net connect http://localhost:{port}/", script: "curl -sf --max-time 10 http://localhost:{port}/"},
	{name: "connect to a unix socket", control: "[[access.fs]]\npath = \"{out}\"\nread = true\nwrite = true\n", denied: "fs update {out}/socket", script: "echo x | nc -U -w 2 {out}/socket | grep answer", mac: true},

	{name: "read a variable", access: off + "default = { env = \"deny\" }\n", control: "[[access.env]]\nname = \"SECRET_TOKEN\"\nread = true\n", denied: "env read SECRET_TOKEN", script: `test -n "$SECRET_TOKEN"`},
	{name: "signal a process outside", control: "-", script: "kill -0 {pid}"},
	{name: "begin a service of launchd", control: "-", script: "launchctl submit -l toolguard.attack -- /usr/bin/touch {out}/marker; for i in 1 2 3 4 5 6; do test -e {out}/marker && break; sleep 0.5; done; launchctl remove toolguard.attack; test -e {out}/marker", mac: true},
	{name: "begin another sandbox", control: "-", script: "/usr/bin/sandbox-exec -p '(version 1)(allow default)' /usr/bin/true", mac: true},
	{name: "read the unified log", control: "-", script: "/usr/bin/log show --last 1s", mac: true},
}
