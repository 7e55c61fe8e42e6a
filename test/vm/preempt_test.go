//go:build linux

package vm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
)

// tries makes eight processes repeat denied operations, one for each file of bpf/ with such hooks (file.c, exec.c, directory.c, task.c),
// and less often a granted one of the same kind. It counts the successes of each. A fork may be denied like what is granted, and
// is then tried again.
const tries = `exec python3 -c '
import json, os, sys
secret, outside = sys.argv[1], int(sys.argv[2])
def fork():
    while True:
        try: return os.fork()
        except PermissionError: pass
def start(program): os.waitpid(os.posix_spawn(program, [program], {}), 0)
rows = [
    ("open", 1000, lambda: os.close(os.open(secret, os.O_RDONLY)), lambda: os.close(os.open("program", os.O_RDONLY))),
    ("execute", 60, lambda: start("./program"), lambda: start("/usr/bin/true")),
    ("rename", 1000, lambda: os.rename(secret, secret), lambda: os.rename("program", "program")),
    ("signal", 1000, lambda: os.kill(outside, 0), lambda: os.kill(os.getpid(), 0)),
]
read, write = os.pipe()
for k in range(8):
    if fork(): continue
    done = {}
    for name, n, denied, granted in rows[k %% 4:] + rows[:k %% 4]:
        count = done[name] = [n, 0, n // 10, 0]
        for i in range(n):
            for at, do in enumerate((denied, granted) if i %% 10 == 0 else (denied,)):
                try:
                    do(); count[2 * at + 1] += 1
                except PermissionError: pass
    os.write(write, (json.dumps(done) + "\n").encode()); os._exit(0)
os.close(write)
total = {}
for line in os.fdopen(read):
    for name, count in json.loads(line).items(): total[name] = [a + b for a, b in zip(total.get(name, [0] * 4), count)]
print(json.dumps(total))' %s %d`

// Where the kernel may preempt itself a session's task may get no label (Linux before 6.2). Nothing is allowed to it then.
func TestPreempted(t *testing.T) {
	g := inGuest(t)
	const debug, mode = "/sys/kernel/debug", "/sys/kernel/debug/sched/preempt"
	if _, err := os.Stat(mode); err != nil {
		must(t, unix.Mount("debugfs", debug, "debugfs", 0, ""))
		t.Cleanup(func() { _ = unix.Unmount(debug, 0) })
	}
	modes, err := os.ReadFile(mode)
	must(t, err)
	now := regexp.MustCompile(`\((\w+)\)`).FindSubmatch(modes)
	if now == nil {
		t.Fatalf("%s: %q", mode, modes)
	}
	bpf := func(script string) *session {
		s := g.session(t, "[[access.fs]]\npath = \".\"\nread = true\nwrite = true", script)
		s.Args = append([]string{s.Args[0], "exec", "--backend", "bpf"}, s.Args[2:]...)
		return s
	}
	if s := bpf("true"); s.finish() != 0 { // afterwards the programs are loaded, and toolguard doesn't check the kernel again
		t.Fatal(s.stderr.String())
	}
	must(t, os.WriteFile(mode, []byte("full"), 0o644))
	t.Cleanup(func() { must(t, os.WriteFile(mode, now[1], 0o644)) })

	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("x"), 0o644))
	s := bpf(fmt.Sprintf(tries, secret, os.Getpid()))
	program, err := os.ReadFile("/usr/bin/true")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(s.workspace, "program"), program, 0o755))
	code := s.finish()
	var done map[string][4]int
	if err := json.Unmarshal(s.stdout.Bytes(), &done); err != nil || code != 0 || len(done) != 4 {
		t.Fatalf("exit %d, %v: %s%s", code, err, s.stdout.String(), s.stderr.String())
	}
	for what, n := range done {
		if n[1] > 0 || n[3] == 0 {
			t.Errorf("%s: of %d denied operations %d succeeded, of %d granted ones %d", what, n[0], n[1], n[2], n[3])
		}
	}
}
