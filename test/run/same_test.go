//go:build linux

package run

import (
	"testing"
)

// Ordinary work under the policies that come with toolguard: output, errors and exit status are those of the bare command,
// and so are the files it leaves.
func TestSameAsBare(t *testing.T) {
	rows := []struct {
		name   string
		policy string
		needs  []string
		files  map[string]string
		argv   []string
	}{
		{"python", "preset:python", []string{"python3"}, map[string]string{"w.py": pythonWork}, []string{"python3", "-B", "w.py", "3"}},
		{"python fails", "preset:python", []string{"python3"}, nil, []string{"python3", "-c", "import sys; sys.exit(41)"}},
		{"python subprocess", "preset:python", []string{"python3"}, nil, []string{
			"python3", "-c", "import subprocess as s; print(s.run(['sh','-c','echo hi; exit 3'], capture_output=True))",
		}},
		{"git", "preset:git", []string{"git"}, map[string]string{"before.sh": gitBefore, "w.sh": gitWork}, []string{"sh", "w.sh"}},
		{"node", "preset:node", []string{"node"}, map[string]string{"w.js": nodeWork}, []string{"node", "w.js"}},
		{"node throws", "preset:node", []string{"node"}, nil, []string{"node", "-e", "process.exitCode = 5; console.error('bad')"}},
		{"curl", "preset:readonly", []string{"curl"}, nil, []string{"curl", "--version"}},
		{"bash pipeline", "preset:git", []string{"bash"}, map[string]string{"w.sh": bashWork}, []string{"bash", "w.sh"}},
		{"here document", "preset:git", []string{"bash"}, nil, []string{"bash", "-c", "cat <<< one; cat <(echo two) <(echo three)"}},
		{
			"make", "preset:git",
			[]string{"make"},
			map[string]string{"Makefile": ".PHONY: a b\na b:\n\t@echo $@ > $@; cat $@\n"},
			[]string{"make", "a", "b"},
		},
		{
			"tar", "preset:git",
			[]string{"tar"},
			map[string]string{"d/f": "x\n"},
			[]string{"sh", "-c", "tar czf a.tgz d && rm -r d && tar xzf a.tgz && cat d/f && rm a.tgz"},
		},
		{"sort and find", "preset:git", nil, map[string]string{"b": "2\n", "a": "1\n"}, []string{"sh", "-c", "find . -type f | sort | xargs cat"}},
		{"killed", "preset:git", nil, nil, []string{"sh", "-c", "echo before; kill -9 $$"}},
	}
	for _, r := range rows {
		for _, u := range users() {
			t.Run(u.Name+"/"+r.name, func(t *testing.T) {
				needs(t, r.needs...)
				p := newFixture(t, u)
				for name, text := range r.files {
					p.write(t, name, text)
				}
				before := func() {
					if out := run(t, p.command("sh", "-c", "[ ! -e before.sh ] || sh before.sh")); out != (outcome{}) {
						t.Fatalf("before: %+v", out)
					}
				}
				before()
				bare := run(t, p.command(r.argv...))
				if bare.code == -1 {
					bare.code = 128 + 9
				}
				before()
				got := run(t, p.confined([]string{"--policy", r.policy}, r.argv...))
				if got != bare {
					t.Errorf("bare:    %+v\nconfined: %+v", bare, got)
				}
				if bare.stdout == "" && bare.stderr == "" && bare.code == 0 {
					t.Error("the command prints nothing: there is nothing to compare")
				}
			})
		}
	}
}

const pythonWork = `import sys, json, os, tempfile, hashlib, threading, sqlite3, concurrent.futures as f
with f.ThreadPoolExecutor(2) as ex:
    print(list(ex.map(lambda n: n * n, range(int(sys.argv[1])))))
with tempfile.NamedTemporaryFile() as t:
    t.write(b"x"); t.flush(); print(os.path.getsize(t.name))
with open("out.json", "w") as o:
    json.dump({"sha": hashlib.sha256(b"x").hexdigest()}, o)
db = sqlite3.connect("w.db"); db.execute("create table if not exists a(b)"); db.execute("insert into a values (1)")
db.rollback(); db.close()
print(open("out.json").read(), file=sys.stderr)
`

// Within a session the configuration and the hooks are protected where the backend can (policy.md), so making a repository is not
// for a confined git.
const gitBefore = `set -e
rm -rf repo; git init -q -b main repo; cd repo
git config user.email a@example.com; git config user.name A
`

const gitWork = `set -e
export GIT_AUTHOR_DATE=2000-01-01T00:00:00Z GIT_COMMITTER_DATE=2000-01-01T00:00:00Z
cd repo
echo one > f; git add f
git commit -qm one
echo two >> f; git diff; git status --short; git log --format=%H%n%s; git stash -q; git stash pop
git checkout -q -b other; git gc -q; git fsck; git branch
! git show nothing
`

const nodeWork = `const fs = require('fs'), cp = require('child_process'), path = require('path'), os = require('os');
fs.writeFileSync('n.txt', 'x'.repeat(10)); console.log(fs.statSync('n.txt').size, fs.readFileSync('n.txt', 'utf8'));
console.log(cp.execFileSync('sh', ['-c', 'echo child; exit 0']).toString().trim());
fs.promises.readdir('.').then(l => {
  console.log(l.sort().join(' '));
  const w = new (require('worker_threads').Worker)('require("worker_threads").parentPort.postMessage(42)', {eval: true});
  w.on('message', m => setTimeout(() => { console.log('worker', m); fs.unlinkSync('n.txt'); process.exit(4); }, 1));
});
`

const bashWork = `set -u
seq 1 1000 | sort -rn | head -3 | tee out | wc -l
mkfifo turn; (read x < turn; echo background) & echo foreground; echo > turn; wait; echo "job $?"; rm turn
false | true; echo "${PIPESTATUS[@]}"
trap 'echo bye' EXIT
for i in 1 2 3; do echo $i; done | while read n; do echo "n$n"; done
mkfifo ff; cat ff & echo through > ff; wait; rm ff
cat < /etc/hostname > /dev/null && echo "read $?" >&2
exit 9
`
