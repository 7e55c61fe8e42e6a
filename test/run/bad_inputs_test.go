//go:build linux

package run

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The beginning of a row's set-up, which has its own home, workspace and mount namespace.
const (
	etc    = "mkdir -p /etc/toolguard; mount -t tmpfs -o mode=755 none /etc/toolguard; cd /etc/toolguard; "
	socket = emptyRun + "cd /run/toolguard; "
	own    = `AS "$tg" policy init >/dev/null 2>&1; f=$(echo "$HOME"/.config/toolguard/policies/*.toml); `
	asUser = `AS() { setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"; }; set -e; umask 022; `
)

// touch is the command that must not start; it creates a file.
const touch = " -- touch ran"

// badInput is an invalid input, with toolguard's message.
type badInput struct {
	name    string
	setUp   string // as root, in the workspace
	command string // of the user, run by a shell in the workspace; $tg is toolguard
	code    int    // 0: 125
	says    string // the beginning of the first line
	who     string // the users for whom toolguard fails: root, user; "": both
	more    bool   // another message may come first, such as one about the used policy
}

var badInputs = []badInput{
	// Policies; cmd/toolguard/testdata/bad-input.txt has the mistakes within one.
	{name: "a device", command: "$tg exec --policy /dev/zero" + touch, says: `/dev/zero: can't read policy .*: not a regular file`},
	{name: "a file of the kernel's", command: "$tg exec --policy /proc/self/status" + touch, says: `.*: it's empty, or not a file on a disk`},
	{name: "an unreadable file", setUp: "echo version = 1 >f; chmod 0 f", command: "$tg exec --policy f" + touch, says: `f: can't read policy "f": permission denied`, who: "user"},
	{name: "in an unreadable folder", setUp: "mkdir -m 0 d", command: "$tg exec --policy d/f" + touch, says: `d/f: can't read policy "d/f": permission denied`, who: "user"},
	{name: "an empty file", setUp: ": >f", command: "$tg exec --policy f" + touch, says: `f: can't read policy "f": it's empty`},
	{name: "100 MiB", setUp: "truncate -s 100M f", command: "$tg exec --policy f" + touch, says: `f:1:1: the file is larger than 1024 KiB`},
	{name: "a NUL byte", setUp: `printf 'version = 1\nname = "a\0b"\n' >f`, command: "$tg exec --policy f" + touch, says: `f:2:10: a NUL byte`},
	{name: "a byte order mark", setUp: `printf '\357\273\277version = 1\n' >f`, command: "$tg exec --policy f" + touch, says: `f:1:1: a byte order mark`},
	{name: "UTF-16", setUp: `printf 'v\0e\0' >f`, command: "$tg exec --policy f" + touch, says: `f:1:2: a NUL byte`},
	{name: "JSON", setUp: `echo '{"version": 1}' >f`, command: "$tg exec --policy f" + touch, says: `f:1:1: not valid TOML`},
	{name: "a string that doesn't end", setUp: `printf 'version = 1\nname = "a\n' >f`, command: "$tg exec --policy f" + touch, says: `f:2:10: not valid TOML`},
	{name: "a key twice", setUp: `printf 'version = 1\nversion = 1\n' >f`, command: "$tg exec --policy f" + touch, says: `f:2:1: key "version" is given twice`},
	{name: "no version", setUp: `echo 'name = "x"' >f`, command: "$tg exec --policy f" + touch, says: `f:1:1: version is missing`},
	{name: "symlinks in a circle", setUp: "ln -s a b; ln -s b a", command: "$tg exec --policy a" + touch, says: `a: can't read policy "a": too many levels of symbolic links`},
	{name: "a long name", command: "$tg exec --policy $(printf %05000d 0)" + touch, says: `0+: can't read policy .*: file name too long`},
	{
		name: "in the workspace", setUp: `printf 'version = 1\n[[access.fs]]\npath = "."\nread = true\nwrite = true\n' >f`, command: "$tg exec --backend landlock --policy f" + touch,
		says: `nothing was started: the command could change /.*/workspace/f, which toolguard goes by$`,
	},

	// The user's own policies, and the host's.
	{name: "own, unreadable folder", setUp: own + `chmod 0 "$HOME"/.config/toolguard`, command: "$tg exec" + touch, says: `the search for a policy of the user failed: .*: permission denied; correct that, or name a policy`, who: "user"},
	{name: "own, a file for a folder", setUp: `AS mkdir "$HOME"/.config; AS touch "$HOME"/.config/toolguard`, command: "$tg exec" + touch, says: `the search for a policy of the user failed: .*: not a directory`},
	{name: "own, of another user", setUp: own + `chown 54321 "$f"`, command: "$tg exec" + touch, says: `the policy for .* isn't used: .* is owned by user 54321`},
	{name: "own, writable by others", setUp: own + `chmod 666 "$f"`, command: "$tg exec" + touch, says: `the policy for .* isn't used: .* is writable by others than its owner \(mode 0666\): chmod go-w`},
	{name: "own, a symlink to nothing", setUp: own + `rm "$f"; AS ln -s /nowhere "$f"`, command: "$tg exec" + touch, says: `the policy for .* isn't used: .* is a symlink that leads nowhere; remove it`},
	{name: "own, a fifo", setUp: own + `rm "$f"; AS mkfifo "$f"`, command: "$tg exec" + touch, says: `.*: not a regular file`, more: true},
	{name: "own, broken", setUp: own + `echo bad >"$f"`, command: "$tg exec" + touch, says: `/.*\.toml:1:4: not valid TOML`, more: true},
	{name: "own, no space", setUp: `mkdir "$HOME"/.config; mount -t tmpfs -o nr_inodes=1,uid="$uid",mode=700 none "$HOME"/.config`, command: "$tg policy init", code: 2, says: `write the policy: mkdir .*: no space left on device`},
	{name: "host's, unreadable", setUp: etc + "mkdir -m 700 policy.d", command: "$tg exec" + touch, says: `/etc/toolguard/policy.d: the host's policies can't be used: permission denied`, who: "user"},
	{name: "host's, writable by others", setUp: etc + "mkdir policy.d; chmod 777 policy.d", command: "$tg exec" + touch, says: `/etc/toolguard/policy.d: .* is writable by users other than root`},
	{name: "host's, broken", setUp: etc + "mkdir policy.d; echo bad >policy.d/a.toml", command: "$tg exec" + touch, says: `/etc/toolguard/policy.d/a.toml:1:4: not valid TOML`},

	// Root's settings.
	{name: "settings, nonsense", setUp: etc + "echo nonsense >exec.toml", command: "$tg exec" + touch, says: `/etc/toolguard/exec.toml:1: unknown key "nonsense": there is only the key daemon`},
	{name: "settings, twice", setUp: etc + `printf 'daemon = "auto"\ndaemon = "auto"\n' >exec.toml`, command: "$tg exec" + touch, says: `/etc/toolguard/exec.toml:2: daemon is there twice`},
	{name: "settings, writable by others", setUp: etc + ": >exec.toml; chmod 666 exec.toml", command: "$tg exec" + touch, says: `/etc/toolguard/exec.toml must be a regular file that belongs to root and that no other user can write; as root: `},
	{name: "settings, not root's", setUp: etc + ": >exec.toml; chown 54321 exec.toml", command: "$tg exec" + touch, says: `/etc/toolguard/exec.toml must be a regular file that belongs to root`},
	{name: "settings, unreadable", setUp: etc + ": >exec.toml; chmod 0 exec.toml", command: "$tg exec" + touch, says: `root's settings for every session can't be read: open /etc/toolguard/exec.toml: permission denied; as root: `, who: "user"},
	{name: "settings, a folder", setUp: etc + "mkdir exec.toml", command: "$tg exec" + touch, says: `/etc/toolguard/exec.toml must be a regular file that belongs to root`},
	{name: "settings, a fifo", setUp: etc + "mkfifo exec.toml", command: "$tg exec" + touch, says: `/etc/toolguard/exec.toml must be a regular file that belongs to root`},
	{name: "settings, a symlink", setUp: etc + "ln -s /dev/null exec.toml", command: "$tg exec" + touch, says: `root's settings for every session can't be read: .*: too many levels of symbolic links`},
	{name: "settings, long", setUp: etc + "head -c 5000 /dev/zero >exec.toml", command: "$tg exec" + touch, says: `/etc/toolguard/exec.toml has more than 4095 bytes`},

	// The folder, and the process's descriptors and environment.
	{name: "workspace, a file", setUp: ": >f", command: "$tg exec --workspace f" + touch, says: `--workspace: the workspace ".*/f" can't be used: .* isn't a directory`},
	{name: "workspace, empty", command: `$tg exec --workspace ""` + touch, says: `--workspace needs a value, and this one is empty`},
	{name: "workspace, symlinks in a circle", setUp: "ln -s a b; ln -s b a", command: "$tg exec --workspace a" + touch, says: `--workspace: the workspace ".*" can't be used: too many symlinks in a row`},
	{name: "workspace, the home", command: `cd "$HOME"; $tg exec -- touch "$OLDPWD/ran"`, says: `/.*/home: this is the home, or contains it`},
	{name: "the folder is gone", command: `mkdir gone; cd gone; rmdir ../gone; $tg exec -- touch "$OLDPWD/ran"`, says: `the current folder was deleted: go to another one`},
	{name: "no /proc", setUp: "mount -t tmpfs none /proc", command: "$tg exec" + touch, says: `default: /proc isn't mounted here`},
	{name: "no /proc, check", setUp: "mount -t tmpfs none /proc", command: "$tg check fs read x", code: 2, says: `default: /proc isn't mounted here`},
	{name: "few open files", command: "prlimit --nofile=10 $tg exec" + touch, says: `the limit of open files \(ulimit -n\) is 10, and toolguard needs 160`},
	{name: "no space for temporary files", setUp: `mkdir ../t; mount -t tmpfs -o nr_inodes=1,mode=1777 none ../t`, command: `TMPDIR=$PWD/../t $tg exec` + touch, says: `the session's private TMPDIR can't be made: .*: no space left on device; set TMPDIR to a folder`},
	{name: "nothing can be written", setUp: "mount --bind -o ro / /", command: "$tg exec" + touch, says: `the session's private TMPDIR can't be made: .*: read-only file system`},
	{name: "a limit without a value", command: `$tg exec --limits ""` + touch, says: `--limits needs a value, and this one is empty`},

	// Events and answers.
	{name: "events, a folder", command: "$tg exec --events .." + touch, says: `--events \.\.: is a directory: name a file`},
	{name: "events, no folder", command: "$tg exec --events ../no/e" + touch, says: `--events \.\./no/e: no such file or directory`},
	{name: "events, an unreadable folder", setUp: "mkdir -m 0 ../d", command: "$tg exec --events ../d/e" + touch, says: `--events \.\./d/e: permission denied`, who: "user"},
	{name: "events, a device", command: "$tg exec --events /dev/full" + touch, says: `--events /dev/full: it isn't a regular file`},
	{name: "events, empty", command: `$tg exec --events ""` + touch, says: `--events needs a value, and this one is empty`},
	{name: "events, no number", command: "$tg exec --events fd:x" + touch, says: `--events fd:x: write fd: and a number`},
	{name: "events, nothing there", command: "$tg exec --events fd:9" + touch, says: `--events fd:9: this descriptor isn't open`},
	{name: "events, only to be read", command: "$tg exec --quiet --events fd:3" + touch + " 3</dev/null", says: `nothing was started, as the events can't be written: .*: bad file descriptor`, more: true},
	{name: "events, no space", setUp: "mkdir ../t; mount -t tmpfs -o size=4k,mode=777 none ../t; head -c 4096 /dev/zero >../t/x", command: "$tg exec --quiet --events ../t/e" + touch, says: `nothing was started, as the events can't be written: .*: no space left on device`, more: true},
	{name: "events, no size", command: "prlimit --fsize=0 $tg exec --quiet --events ../home/e" + touch, says: `nothing was started, as the events can't be written: .*: file too large`, more: true},
	{name: "events, nobody reads", setUp: "mkfifo -m 666 ../f", command: "sh -c ': <../f' & exec 3>../f; wait; $tg exec --quiet --events fd:3" + touch, says: `nothing was started, as the events can't be written: .*: broken pipe`, more: true},
	{name: "an answer without space", command: "$tg check fs read x >/dev/full", code: 2, says: `the answer couldn't be written to standard output: no space left on device`},
	{name: "JSON without space", command: "$tg doctor --json >/dev/full", code: 2, says: `the answer couldn't be written to standard output: no space left on device`},
	{name: "a report without space", command: "$tg exec --dry-run >/dev/full", says: `the answer couldn't be written to standard output: no space left on device`},

	// Commands.
	{name: "no command after --", command: "$tg exec --", says: `name the command to run`},
	{name: "an empty command", command: `$tg exec ""`, code: 127, says: `the name of the command is empty`},
	{name: "an empty PATH", command: "PATH= $tg exec" + touch, code: 127, says: `touch: no such command in PATH`},
	{name: "no such file", command: "$tg exec -- ./nothing", code: 127, says: `\./nothing: no such command`},
	{name: "a folder to be executed", setUp: "mkdir d", command: "$tg exec -- ./d", code: 126, says: `\./d may not be executed: it's a folder`},
	{name: "not executable", setUp: ": >f", command: "$tg exec -- ./f", code: 126, says: `\./f may not be executed: no user may execute it: chmod \+x \./f`},
	{name: "no program", setUp: "echo touch ran >f; chmod 755 f", command: "$tg exec --quiet -- ./f", code: 126, says: `\./f may not be executed: it isn't a program for this machine, and has no #! line`},
	{name: "no interpreter", setUp: "echo '#!/no/such' >f; chmod 755 f", command: "$tg exec --quiet -- ./f", code: 127, says: `\./f \(or its interpreter\): no such command`},
	{name: "symlinks in a circle to be executed", setUp: "ln -s a b; ln -s b a", command: "$tg exec -- ./a", code: 126, says: `\./a may not be executed: too many levels of symbolic links`},
	{name: "no such agent", command: "$tg agent nothing", says: `there is no preset for an agent "nothing"`},

	// Sockets that aren't toolguardd's.
	{name: "socket, a file", setUp: socket + ": >toolguard.sock; chmod 666 toolguard.sock", command: "$tg exec --daemon require" + touch, says: `--daemon require can't be met: toolguardd isn't running`},
	{name: "socket, nonsense", setUp: socket + `python3 "$imposter" toolguard.sock nonsense`, command: "$tg exec --daemon require" + touch, says: `--daemon require can't be met: ask toolguardd: the answer isn't HTTP`},
	{name: "socket, HTTP with nonsense", setUp: socket + `python3 "$imposter" toolguard.sock http`, command: "$tg exec --daemon require" + touch, says: `--daemon require can't be met: read toolguardd's answer: invalid character`},
	{name: "socket, the end", setUp: socket + `python3 "$imposter" toolguard.sock closes`, command: "$tg exec --daemon require" + touch, says: `--daemon require can't be met: ask toolguardd: unexpected EOF`},
	{name: "socket, no answer", setUp: socket + `python3 "$imposter" toolguard.sock waits`, command: "timeout --preserve-status -s INT 4.5 $tg exec" + touch, says: `toolguardd didn't answer, and the waiting for it was ended`, more: true},
	{name: "socket, no sessions to list", setUp: socket + `python3 "$imposter" toolguard.sock closes`, command: "$tg sessions list", code: 2, says: `ask toolguardd: unexpected EOF`},
}

// An invalid input ends toolguard within seconds, with the documented exit status and one message, and starts nothing.
func TestBadInputs(t *testing.T) {
	needsNamespaces(t)
	for _, x := range badInputs {
		for _, who := range []user{{Name: "root"}, {Name: "user", ID: 54320}} {
			if x.who != "" && x.who != who.Name {
				continue
			}
			t.Run(x.name+"/"+who.Name, func(t *testing.T) {
				p := newFixture(t, who)
				start := time.Now()
				out := p.inNamespace(t, x.setUp, x.command)
				if took := time.Since(start); took > 10*time.Second {
					t.Errorf("it took %v", took)
				}
				if want := cmp.Or(x.code, 125); out.code != want || out.stdout != "" {
					t.Errorf("exit status %d instead of %d: %+v", out.code, want, out)
				}
				if _, err := os.Lstat(filepath.Join(p.workspace, "ran")); err == nil {
					t.Error("the command was started")
				}
				x.check(t, out.stderr)
			})
		}
	}
}

// check checks the message, the exit status and that nothing was started.
func (x *badInput) check(t *testing.T, output string) {
	t.Helper()
	most := 1
	if x.more {
		most = 2
	}
	messages := regexp.MustCompile(`(?m)^toolguard: .*$`).FindAllString(output, -1)
	if n := len(messages); n == 0 || n > most || !regexp.MustCompile("^toolguard: "+x.says).MatchString(messages[n-1]) {
		t.Errorf("the message is %q instead of %q", output, x.says)
	}
	if strings.Contains(output, "goroutine ") || strings.Contains(output, "%!") {
		t.Errorf("no message: %q", output)
	}
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "toolguard: ") && !strings.HasPrefix(line, "  ") {
			t.Errorf("a line that belongs to no message: %q", line)
		}
	}
}

// Unusual inputs that are valid.
func TestOddStarts(t *testing.T) {
	needsNamespaces(t)
	for _, x := range []struct{ name, setUp, command string }{
		{"nothing odd", "", "$tg exec --quiet" + touch},
		{"no standard input", "", "$tg exec --quiet" + touch + " <&-"},
		{"no standard output", "", "$tg exec --quiet" + touch + " >&-"},
		{"no standard error", "", "$tg exec --quiet" + touch + " 2>&-"},
		{"none of them", "", "$tg exec --quiet" + touch + " <&- >&- 2>&-"},
		{"standard output is full", "", "$tg exec --quiet" + touch + " >/dev/full"},
		{"events nobody gets", "", "$tg exec --events - --report never --quiet --backend landlock" + touch + " >/dev/null 2>&1"},
		{"no HOME", "", "env -u HOME $tg exec --quiet" + touch},
		{"an empty HOME", "", "HOME= $tg exec --quiet" + touch},
		{"a relative HOME", "", "HOME=home $tg exec --quiet" + touch},
		{"a HOME that isn't there", "", "HOME=/nowhere $tg exec --quiet" + touch},
		{"no environment", "", "env -i $tg exec --quiet -- /usr/bin/touch ran"},
		{"a TMPDIR that isn't there", "", "TMPDIR=/nowhere $tg exec --quiet" + touch},
		{"a TMPDIR that is a file", ": >../f", "TMPDIR=$PWD/../f $tg exec --quiet" + touch},
		{"a TMPDIR for reading", "mkdir ../t; mount -t tmpfs -o ro none ../t", "TMPDIR=$PWD/../t $tg exec --quiet" + touch},
		{"other users' processes are hidden", "mount -t proc -o hidepid=2 none /proc", "$tg exec --quiet" + touch},
		{"no /sys", "mount -t tmpfs none /sys", "$tg exec --quiet" + touch},
		{"no files may be written", "", "prlimit --fsize=0 $tg exec --quiet" + touch},
		{"2 MB of arguments", "", `$tg exec --quiet -- sh -c ': >ran' $(seq -f %0100g 15000)`},
		{"no space for the state", `mkdir "$HOME"/.local; mount -t tmpfs -o nr_inodes=1 none "$HOME"/.local`, "$tg exec --quiet" + touch},
		{"a folder that can't be read", "mkdir -p d/e; chmod 777 d/e; chmod 711 d", `cd d/e; $tg exec --quiet -- touch ran; mv ran ../..`},
		{"toolguardd is gone", socket + `python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("toolguard.sock")'`, "$tg exec --quiet" + touch},
	} {
		for _, who := range []user{{Name: "root"}, {Name: "user", ID: 54320}} {
			t.Run(x.name+"/"+who.Name, func(t *testing.T) {
				p := newFixture(t, who)
				out := p.inNamespace(t, x.setUp, x.command)
				if _, err := os.Lstat(filepath.Join(p.workspace, "ran")); err != nil || out != (outcome{}) {
					t.Errorf("%v, %+v", err, out)
				}
			})
		}
	}
}

// Where the Go runtime itself lacks a resource, it ends with its own message, and nothing is started.
func TestTooLittleForTheRuntime(t *testing.T) {
	needsNamespaces(t)
	p := newFixture(t, user{Name: "user", ID: 54320})
	out := p.inNamespace(t, "", "prlimit --as=100000000 $tg exec"+touch)
	if _, err := os.Lstat(filepath.Join(p.workspace, "ran")); err == nil || out.code != 2 || !strings.HasPrefix(out.stderr, "fatal error: ") {
		t.Errorf("%v, %+v", err, out)
	}
}

func needsNamespaces(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 || os.Getenv("TOOLGUARD_VM") != "" {
		t.Skip("needs root, and a machine without toolguardd")
	}
	needs(t, "unshare", "mount", "python3", "setpriv", "prlimit")
}

// inNamespace runs a command of the user's after a set-up by root, in the workspace and in a mount namespace of their own.
func (p fixture) inNamespace(t *testing.T, setUp, command string) outcome {
	t.Helper()
	imposter, err := filepath.Abs("testdata/imposter.py")
	must(t, err)
	if setUp == "" {
		setUp = ":"
	}
	script := asUser + "\n(" + setUp + ")\n" + `AS sh -c "$command"`
	cmd := (fixture{user{Name: "root"}, p.home, p.workspace}).command("unshare", "--mount", "sh", "-c", script)
	cmd.Env = append(cmd.Env, "tg="+binary, "imposter="+imposter, "command="+command, "uid="+fmt.Sprint(p.user.ID))
	return run(t, cmd)
}
