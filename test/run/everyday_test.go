//go:build linux

package run

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// everyday is what people type all day: a script of bash's in a workspace with some files.
var everyday = []struct {
	name   string
	needs  string
	files  map[string]string
	script string
}{
	{"git", "git", nil, `export GIT_AUTHOR_DATE=2000-01-01T00:00:00Z GIT_COMMITTER_DATE=2000-01-01T00:00:00Z
		git init -q -b main . && echo a > f && git add -A && git commit -qm one && echo b >> f && git diff && git commit -qam two &&
		git status && git log --format=%H%n%s && git worktree add -q side && git -C side status && git clone -q . copy && git -C copy log --oneline`},
	{"make", "make gcc", map[string]string{"Makefile": "run: hello\n\t./hello\nhello: hello.c\n\tgcc -o $@ $<\n", "hello.c": helloC}, "make && make run"},
	{"leaks", "gcc", map[string]string{"leak.c": leakC}, `gcc -fsanitize=address -o leak.out leak.c && ./leak.out 2> said; echo $?; grep -o "detected memory leaks" said`},
	{"go", "go", map[string]string{"go.mod": "module x\n\ngo 1.20\n", "main.go": goWork, "main_test.go": goTest}, `export CGO_ENABLED=0
		go build -o x . && ./x && go run . && go vet . && go test . > tested && cut -f 1,2 tested`},
	{"python", "/usr/bin/python3", map[string]string{"requirements.txt": "", "pool.py": poolPy}, `/usr/bin/python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix)' && v/bin/python pool.py`},
	{"npm", "npm node", map[string]string{"package.json": `{"name":"x","version":"1.0.0","scripts":{"start":"node -p 6*7"}}`}, "export npm_config_update_notifier=false; npm start && npm pack"},
	{"bash", "bash", nil, bashWork},
	{"jobs", "bash", nil, "set -m; sleep 0.1 & jobs %1 > /dev/null && fg > /dev/null; echo $?; cat <<< here | tr a-z A-Z"},
	{"ps", "ps", nil, "ps -o comm= -p $$ && ps aux > all && head -1 all && grep -c ' all' all > /dev/null; echo $?"},
	{"top", "top", nil, "top -bn1 > all; echo $?; grep PID all"},
	{"df", "df", nil, "df > all; echo $?; head -1 all; df -P . | wc -l"},
	{"id", "id", nil, "id"},
	{"man", "man", nil, "MANPAGER=cat man ls > page; echo $?; grep -c . page"},
	{"less", "less", nil, "less /etc/passwd < /dev/null | head -2"},
	{"vim", "vim", map[string]string{"text": "one\n"}, "vim -es -c 's/one/two/' -c wq text; echo $?; cat text; vim -u /etc/vim/vimrc -es -c q text; echo $?"},
	{"ssh-keygen", "ssh-keygen", nil, "ssh-keygen -q -t ed25519 -N '' -f k && ssh-keygen -y -P '' -f k | cut -d ' ' -f 1"},
	{"sqlite3", "sqlite3", nil, "sqlite3 x.db 'create table t(a); insert into t values (3); select a from t'"},
	{"jq", "jq", nil, `echo '{"a": [1, 2]}' | jq .a`},
	{"curl", "curl", map[string]string{"text": "one\n"}, `curl -s "file://$PWD/text"; curl -s file:///etc/passwd | head -1`},
	{"node", "node", nil, `node -p 'require("fs").readFileSync("/proc/self/maps").length > 0'`},
	{"java", "java", map[string]string{"pom.xml": "", "P.java": procJava}, "java P.java"},
}

// TestEveryday holds the built-in default policy to what an ordinary user does all day: with toolguard it's said and ends as without. In
// the same session his key, a new ~/.bashrc and the network stay out of reach, which are in reach without.
func TestEveryday(t *testing.T) {
	needs(t, "bash")
	port, connections := counted(t)
	p := ordinary(t)
	var missing []string
	for _, r := range everyday {
		if without := absent(r.needs); without != "" {
			missing = append(missing, without)
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			var out [2]outcome
			for i, command := range []func(...string) outcome{
				func(argv ...string) outcome { return run(t, p.command(argv...)) },
				func(argv ...string) outcome { return run(t, p.guarded([]string{"--backend", "landlock"}, argv...)) },
			} {
				p.renew(t, r.files)
				before := connections()
				out[i] = command("bash", "-c", "("+r.script+"\n)\nstatus=$?\n"+strings.ReplaceAll(reach, "PORT", port)+"\nexit $status")
				seen, err := os.ReadFile(filepath.Join(p.workspace, "seen"))
				must(t, err)
				_, absent := os.Stat(filepath.Join(p.home, ".bashrc"))
				key, written, connected := strings.Contains(string(seen), "SECRET"), absent == nil, connections() > before
				if bare := i == 0; key != bare || written != bare || connected != bare {
					t.Errorf("bare %v: the key was read: %v, ~/.bashrc written: %v, a connection made: %v\n%s", bare, key, written, connected, seen)
				}
			}
			if out[0] != out[1] || out[0].stdout == "" || out[0].code != 0 && r.name != "bash" {
				t.Errorf("bare:    %+v\nguarded: %+v", out[0], out[1])
			}
		})
	}
	t.Logf("%d of %d rows: not installed are %q", len(everyday)-len(missing), len(everyday), missing)
}

// ordinary is a place of an ordinary user's, where Landlock is to be had.
func ordinary(t *testing.T) place {
	t.Helper()
	u := users()
	p := newPlace(t, u[len(u)-1])
	if out := run(t, p.guarded([]string{"--backend", "landlock"}, "true")); out.code == 125 || p.user.id == 0 {
		t.Skipf("needs Landlock, and an ordinary user: %s", out.stderr)
	}
	return p
}

// That Landlock opens /proc for the sake of the session's own entries is said where somebody asks, and not at each start; a rule that
// takes it away counts.
func TestOpenProcIsReported(t *testing.T) {
	p := ordinary(t)
	p.write(t, "open.toml", "version = 1\nextends = [\"preset:readonly\"]\n[access]\nsecrets = false\n")
	p.write(t, "closed.toml", "version = 1\n[[access.fs]]\npath = \"/proc\"\n")
	for _, row := range []struct {
		command string
		code    int
		want    string // of what is printed; "": nothing is
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

// reach tries what nobody granted, after the script.
const reach = `{ cat ~/.ssh/id_ed25519; echo x > ~/.bashrc; (exec 3<> /dev/tcp/127.0.0.1/PORT); } > seen 2>&1`

// renew makes the home and the workspace new, but for the caches.
func (p place) renew(t *testing.T, files map[string]string) {
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
	p.write(t, "../home/.ssh/id_ed25519", "SECRET\n")
	p.write(t, "../home/.gitconfig", "[user]\n\tname = A\n\temail = a@example.com\n")
	for name, text := range files {
		p.write(t, name, text)
	}
}

// counted is a port on which connections are taken, and how many there were.
func counted(t *testing.T) (port string, connections func() int) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	taken := make(chan struct{}, 1000)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			taken <- struct{}{}
			c.Close()
		}
	}()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), func() int { return len(taken) }
}

// absent is the first of some programs that isn't there.
func absent(programs string) string {
	for _, p := range strings.Fields(programs) {
		if file := find(p); file == p {
			if _, err := os.Stat(file); err != nil {
				return p
			}
		}
	}
	return ""
}

const helloC = `#include <stdio.h>
int main(void) { return puts("built") < 0; }
`

const leakC = `#include <stdlib.h>
int main(void) { volatile char *p = malloc(7); p[0] = 1; p = 0; return 0; }
`

// goWork imports nothing: its cache is empty, and the standard library would take minutes.
const goWork = `package main

func main() { println("built") }
`

const goTest = `package main

import "testing"

func TestX(*testing.T) {}
`

const poolPy = `import multiprocessing
if __name__ == "__main__":
    with multiprocessing.Pool(2) as p: print(p.map(abs, [1, -2]))
`

const procJava = `import java.nio.file.*;
public class P {
	public static void main(String[] args) throws Exception {
		System.out.println(Files.readAllLines(Path.of("/proc/self/status")).get(0) + new java.security.SecureRandom().getAlgorithm().length());
	}
}
`
