//go:build linux

package run

// everyday is an everyday command: a bash script in a workspace with some files.
var everyday = []everydayRow{
	{"git", "git", nil, gitDates + `git init -q -b main . && echo a > f && git add -A && git commit -qm one`, gitDates + `
		echo b >> f && git diff && git commit -qam two && git status && git log --format=%H%n%s && git worktree add -q side && git -C side status`, ""},
	{"clone", "git", nil, "", gitDates + `git init -q -b main new && cd new && git commit -q --allow-empty -m one && git clone -q . ../copy &&
		git -C ../copy log --oneline && git -C ../copy status`, gitPolicy + unprotected("new") + unprotected("copy")},
	{"make", "make gcc", map[string]string{"Makefile": "run: hello\n\t./hello\nhello: hello.c\n\tgcc -o $@ $<\n", "hello.c": helloC}, "", "make && make run", ""},
	{"leaks", "gcc", map[string]string{"leak.c": leakC}, "", `gcc -fsanitize=address -o leak.out leak.c && ./leak.out 2> said; echo $?; grep -o "detected memory leaks" said`, ""},
	{"go", "go", map[string]string{"go.mod": "module x\n\ngo 1.19\n", "main.go": goWork, "main_test.go": goTest}, "", `export CGO_ENABLED=0
		go build -o x . && ./x && go run . && go vet . && go test . > tested && cut -f 1,2 tested`, ""},
	{"cargo", "cargo", map[string]string{"Cargo.toml": cargoToml, "src/main.rs": mainRs}, "", `cargo build -q && target/debug/x && cargo test -q | grep 'test result' | cut -d ';' -f 1`, ""},
	{"python", "/usr/bin/python3", map[string]string{"requirements.txt": "", "pool.py": poolPy}, "", `/usr/bin/python3 -m venv --without-pip v &&
		v/bin/python -c 'import sys; print(sys.prefix)' && v/bin/python pool.py`, ""},
	{"pip", "/usr/bin/python3 /usr/lib/python3*/ensurepip", map[string]string{"requirements.txt": "", "wheel.py": wheelPy}, "", `/usr/bin/python3 wheel.py &&
		/usr/bin/python3 -m venv v && v/bin/pip install --no-index ./hello*.whl && v/bin/python -c 'import hello; print(hello.word)'`, ""},
	{"pytest", "pytest", map[string]string{"setup.cfg": "", "test_x.py": "def test_x(tmp_path):\n    (tmp_path / 'f').write_text('x')\n"}, "", `pytest -q > said; echo $?; grep -o '1 passed' said`, ""},
	{"npm", "npm node", map[string]string{"package.json": `{"name":"x","version":"1.0.0","scripts":{"start":"node -p 6*7"}}`}, "", npmSettings + "npm start && npm pack", ""},
	{"npm-ci", "npm node", map[string]string{
		"package.json": `{"name":"x","version":"1.0.0"}`, "dep/package.json": `{"name":"dep","version":"1.0.0","bin":{"dep":"cli.js"}}`,
		"dep/cli.js": "#!/usr/bin/env node\nconsole.log('dep', process.argv[2])\n",
	}, "", npmSettings + `npm pack --silent ./dep && npm install --silent --offline ./dep-1.0.0.tgz && rm -r node_modules &&
		npm ci --silent --offline && ls node_modules && npx --offline dep one`, ""},
	{"bash", "bash", nil, "", bashWork, ""},
	{"jobs", "bash", nil, "", "set -m; sleep 0.1 & jobs %1 > /dev/null && fg > /dev/null; echo $?; cat <<< here | tr a-z A-Z", ""},
	{"ps", "ps", nil, "", "ps -o comm= -p $$ && ps aux > all && head -1 all | tr -s ' ' && grep -c ' all' all > /dev/null; echo $?", listsProc},
	{"top", "top", nil, "", "top -bn1 > all; echo $?; grep PID all | tr -s ' '", listsProc},
	{"df", "df", nil, "", "df > all; echo $?; head -1 all; df -P . | wc -l", ""},
	{"id", "id", nil, "", "id", ""},
	{"man", "man /usr/share/man/man1/ls.1.gz", nil, "", "MANPAGER=cat man ls > page; echo $?; grep -c . page; man -f ls > page; echo $?; grep -c . page", ""},
	{"less", "less", nil, "", "less /etc/passwd < /dev/null | head -2", ""},
	{"vim", "vim", map[string]string{"text": "one\n"}, "", "vim -es -c 's/one/two/' -c wq text; echo $?; cat text; vim -u /etc/vim/vimrc -es -c q text; echo $?", ""},
	{"ssh-keygen", "ssh-keygen", nil, "", "ssh-keygen -q -t ed25519 -N '' -f k && ssh-keygen -y -P '' -f k | cut -d ' ' -f 1", ""},
	{"sqlite3", "sqlite3", nil, "", "sqlite3 x.db 'create table t(a); insert into t values (3); select a from t'", ""},
	{"jq", "jq", nil, "", `echo '{"a": [1, 2]}' | jq .a`, ""},
	{"curl", "curl", map[string]string{"text": "one\n"}, "", `curl -s "file://$PWD/text"; curl -s file:///etc/passwd | head -1`, ""},
	{"node", "node", nil, "", `node -p 'require("fs").readFileSync("/proc/self/maps").length > 0'`, ""},
	{"java", "java", map[string]string{"pom.xml": "", "P.java": procJava}, "", "java P.java", ""},
}

const gitPolicy = "version = 1\nextends = [\"preset:git\"]\n"

// listsProc is the rule of docs/BACKENDS.md for programs that list processes.
const listsProc = gitPolicy + "[[access.fs]]\npath = \"/proc\"\nread = true\n"

// unprotected is the rule of docs/git.md for a folder that git is to make a repository in.
func unprotected(dir string) string {
	return "[[access.fs]]\npath = \"" + dir + "\"\nread = true\nwrite = true\nexecute = true\nunprotect = true\n"
}

const gitDates = "export GIT_AUTHOR_DATE=2000-01-01T00:00:00Z GIT_COMMITTER_DATE=2000-01-01T00:00:00Z\n"

// npmSettings stop npm from asking its registry for updates.
const npmSettings = "export npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false\n"

const cargoToml = `[package]
name = "x"
version = "1.0.0"
edition = "2018"
`

const mainRs = `fn main() { println!("built"); }
#[test]
fn x() {}
`

// wheelPy makes a package as `pip wheel` does.
const wheelPy = `import zipfile
info = "hello-1.0.dist-info/"
with zipfile.ZipFile("hello-1.0-py3-none-any.whl", "w") as w:
    w.writestr("hello.py", "word = 'installed'\n")
    w.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n")
    w.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    w.writestr(info + "RECORD", "")
`

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
