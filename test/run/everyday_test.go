//go:build linux

package run

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// everydayRow is a script in a workspace with files, after another one that is run without toolguard. Under bpf it's
// run under a policy where the built-in default isn't enough; else under that.
type everydayRow struct {
	name   string
	needs  string
	files  map[string]string
	before string
	script string
	policy string
}

// TestEveryday runs everyday commands under the built-in default policy: output and exit status are the same with and without toolguard. In
// the same session the user's key, a new ~/.bashrc, git's hooks (if the backend can) and the network are denied, which work
// without toolguard. Where denials are reported, each has its event.
func TestEveryday(t *testing.T) {
	p := ordinary(t)
	p.eachEveryday(t, inGuest, inGuest, func(policy string) []string {
		if !inGuest {
			policy = ""
		}
		return p.everyday(t, policy)
	})
}

// TestEverydayWrapped is TestEveryday within bubblewrap, which has a /proc of the session's own and protects the hooks that exist.
func TestEverydayWrapped(t *testing.T) {
	if inGuest {
		t.Skip("nothing of it depends on the kernel")
	}
	needs(t, "bwrap")
	p := ordinary(t)
	p.eachEveryday(t, true, false, func(string) []string {
		p.write(t, "../policy.toml", "version = 1\n[access]\nprotect = true\n")
		return []string{"--backend", "bwrap", "--quiet", "--allow-degraded", "protect", "--policy", filepath.Join(filepath.Dir(p.home), "policy.toml")}
	})
}

// eachEveryday runs the commands. protects says that git's hooks are protected, if their folder exists at the start, and reports that denials are.
func (p fixture) eachEveryday(t *testing.T, protects, reports bool, flags func(policy string) []string) {
	needs(t, "bash")
	port, connections := counted(t)
	for _, r := range everyday {
		t.Run(r.name, func(t *testing.T) {
			if program := absent(r.needs); program != "" {
				t.Skipf("needs %s", program)
			}
			var out [2]outcome
			for i, command := range []func(...string) outcome{
				func(argv ...string) outcome { return run(t, p.command(argv...)) },
				func(argv ...string) outcome { return run(t, p.confined(flags(r.policy), argv...)) },
			} {
				p.renew(t, r.files)
				if r.before != "" {
					must(t, p.command("bash", "-c", r.before).Run())
				}
				_, noHooks := os.Stat(filepath.Join(p.workspace, ".git/hooks"))
				before := connections()
				out[i] = command("bash", "-c", "("+r.script+"\n)\nstatus=$?\n"+strings.ReplaceAll(reach, "PORT", port)+"\nexit $status")
				p.reached(t, i == 0, connections() > before, protects && (inGuest || noHooks == nil))
			}
			if out[0] != out[1] || out[0].stdout == "" || out[0].code != 0 && r.name != "bash" {
				t.Errorf("bare:    %+v\nconfined: %+v", out[0], out[1])
			}
			if reports {
				p.events(t)
			}
		})
	}
}

// everyday are the flags for an everyday command: of the backend that this machine has for an ordinary user, and a policy where one is needed for
// what that enforces.
func (p fixture) everyday(t *testing.T, policy string) []string {
	t.Helper()
	flags := []string{"--backend", "landlock"}
	if inGuest {
		flags = []string{"--backend", "bpf", "--daemon", "require", "--report", "never", "--events", filepath.Join(filepath.Dir(p.home), "events")}
	}
	if policy == "" {
		return flags
	}
	p.write(t, "../policy.toml", policy)
	return append(flags, "--policy", filepath.Join(filepath.Dir(p.home), "policy.toml"))
}

// reach tries operations that no rule grants, after the script.
const reach = `{ cat ~/.ssh/id_ed25519; echo x > ~/.bashrc; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; (exec 3<> /dev/tcp/127.0.0.1/PORT); } > seen 2>&1`

// reached checks the results of reach: bare, everything succeeds; else only operations that the backend doesn't enforce.
func (p fixture) reached(t *testing.T, bare, connected, protected bool) {
	t.Helper()
	seen, err := os.ReadFile(filepath.Join(p.workspace, "seen"))
	must(t, err)
	_, noFile := os.Stat(filepath.Join(p.home, ".bashrc"))
	_, noHook := os.Stat(filepath.Join(p.workspace, ".git/hooks/pre-commit"))
	key, written, hook := strings.Contains(string(seen), "SECRET"), noFile == nil, noHook == nil
	if key != bare || written != bare || connected != bare || hook != (bare || !protected) {
		t.Errorf("bare %v: the key was read: %v, ~/.bashrc written: %v, a hook made: %v, a connection made: %v\n%s", bare, key, written, hook, connected, seen)
	}
}

// events makes sure that each denial of reach has an event.
func (p fixture) events(t *testing.T) {
	t.Helper()
	f, err := os.Open(filepath.Join(filepath.Dir(p.home), "events"))
	must(t, err)
	defer f.Close()
	var targets []string
	for _, e := range readEvents(t, f) {
		if e.Unmapped.Kind == "denial" {
			targets = append(targets, e.Unmapped.Target)
		}
		if e.Unmapped.Extra.Anyway != "" && strings.HasPrefix(e.Unmapped.Target, filepath.Dir(p.home)) { // of whose folders the user may make files
			t.Errorf("%s: %s", e.Unmapped.Target, e.Unmapped.Extra.Anyway)
		}
	}
	for _, want := range []string{p.home + "/.ssh/id_ed25519", p.home + "/.bashrc", p.workspace + "/.git/hooks", "socket"} {
		if !slices.ContainsFunc(targets, func(target string) bool { return strings.Contains(target, want) }) {
			t.Errorf("no denial of %s among %q", want, targets)
		}
	}
}

// TestTmux does the same with tmux. Before Landlock ABI 9 it can't make its socket, and toolguard reports that.
func TestTmux(t *testing.T) {
	needs(t, "bash", "tmux")
	p := ordinary(t)
	const script = `export SHELL=/bin/bash; : ${TMUX_TMPDIR:=$HOME}; export TMUX_TMPDIR
		tmux -f /dev/null new -d -s work 'tty | tr -d 0-9 > typed; tmux wait -S done; cat' && tmux wait done && cat typed &&
		tmux ls -F '#{session_name} #{session_windows}' && tmux kill-server`
	flags := p.everyday(t, "version = 1\nextends = [\"preset:git\", \"preset:pty\"]\n")
	bare, got := run(t, p.command("bash", "-c", script)), run(t, p.confined(flags, "bash", "-c", script))
	if bare != (outcome{"/dev/pts/\nwork 1\n", "", 0}) {
		t.Fatalf("bare: %+v", bare)
	}
	abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if inGuest || abi >= 9 {
		if got.stdout != bare.stdout || got.code != 0 { // that its server is still about to end may be reported
			t.Errorf("confined: %+v", got)
		}
		return
	}
	const line = "\n  no unix socket can be made here, which tmux, screen and ssh-agent need: "
	got = run(t, p.command(binary, "exec", "--backend", "landlock", "--", "bash", "-c", script))
	if got.code != 1 || !strings.Contains(got.stderr, "\nerror connecting to /tmp/toolguard-") || !strings.Contains(got.stderr, line) {
		t.Errorf("confined: %+v", got)
	}
}

// ordinary returns a fixture of an ordinary user, if the kernel has Landlock.
func ordinary(t *testing.T) fixture {
	t.Helper()
	u := users()
	p := newFixture(t, u[len(u)-1])
	if out := run(t, p.confined([]string{"--backend", "landlock"}, "true")); out.code == 125 || p.user.ID == 0 {
		t.Skipf("needs Landlock, and an ordinary user: %s", out.stderr)
	}
	return p
}

// That Landlock grants all of /proc for the session's own entries is reported on request, and not at each start; a rule that denies /proc
// applies.
func TestOpenProcIsReported(t *testing.T) {
	p := ordinary(t)
	p.write(t, "open.toml", "version = 1\nextends = [\"preset:readonly\"]\n[access]\nsecrets = false\n")
	p.write(t, "closed.toml", "version = 1\n[[access.fs]]\npath = \"/proc\"\n")
	for _, row := range []struct {
		command string
		code    int
		want    string // in the output; "": no output
	}{
		{"check --backend landlock fs read /proc/1/cmdline", 1, "here only partly enforced by landlock: runtime."},
		{"check --backend landlock fs read /proc/self/maps", 0, "here enforced by landlock"},
		{"check --backend landlock fs read /etc/shadow", 1, "here enforced by landlock"},
		{"check --backend landlock --policy closed.toml fs read /proc/1/cmdline", 1, "here enforced by landlock"},
		{"exec --backend landlock --policy preset:readonly --dry-run -- true", 0, "partly (allowed)"},
		{"exec --backend landlock --policy open.toml -- true", 0, ""},
		{"exec --backend landlock --policy preset:readonly -- head -c 5 /proc/self/status", 0, "Name:"},
		{"exec --backend landlock --policy closed.toml -- head -c 5 /proc/self/status", 1, "Permission denied"},
		{"exec --backend landlock --policy closed.toml -- ls /proc", 2, "Permission denied"},
	} {
		out := run(t, p.command(append([]string{binary}, strings.Fields(row.command)...)...))
		if text := strings.Join(strings.Fields(out.stdout+out.stderr), " "); out.code != row.code || !strings.Contains(text, row.want) || row.want == "" && text != "" {
			t.Errorf("%s: exit status %d, %q, want %d and %q", row.command, out.code, text, row.code, row.want)
		}
	}
}

// renew empties the home and the workspace, except the caches.
func (p fixture) renew(t *testing.T, files map[string]string) {
	t.Helper()
	for _, dir := range []string{p.home, p.workspace} {
		entries, err := os.ReadDir(dir)
		must(t, err)
		for _, e := range entries {
			if e.Name() != ".cache" {
				must(t, os.RemoveAll(filepath.Join(dir, e.Name())))
			}
		}
	}
	must(t, os.RemoveAll(filepath.Join(filepath.Dir(p.home), "events")))
	p.write(t, "../home/.ssh/id_ed25519", "SECRET\n")
	p.write(t, "../home/.gitconfig", "[user]\n\tname = A\n\temail = a@example.com\n")
	for name, text := range files {
		p.write(t, name, text)
	}
}

// counted returns a port that accepts connections, and a function with their number.
func counted(t *testing.T) (port string, connections func() int) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	taken := make(chan string, 1000)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taken <- c.RemoteAddr().String()
			c.Close()
		}
	}()
	others := 0
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), func() int {
		c, err := net.Dial("tcp4", l.Addr().String()) // taken after those that wait
		must(t, err)
		defer c.Close()
		for <-taken != c.LocalAddr().String() {
			others++
		}
		return others
	}
}

// absent returns the first of some programs and files that doesn't exist.
func absent(programs string) string {
	for _, p := range strings.Fields(programs) {
		if files, err := filepath.Glob(p); find(p) == p && (err != nil || files == nil) {
			return p
		}
	}
	return ""
}
