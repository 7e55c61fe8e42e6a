//go:build linux

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"golang.org/x/sys/unix"
)

// opens has eight processes open a file that is denied and one that is granted, and counts how often each could be opened. A fork may be
// denied like a granted open, and is then tried again.
const opens = `exec python3 -c '
import os, sys
def fork():
    while True:
        try: return os.fork()
        except PermissionError: pass
read, write = os.pipe()
for _ in range(8):
    if fork(): continue
    done = [0, 0]
    for _ in range(3000):
        for i, file in enumerate(sys.argv[1:]):
            try:
                os.close(os.open(file, os.O_RDONLY)); done[i] += 1
            except PermissionError: pass
    os.write(write, ("%%d %%d\n" %% tuple(done)).encode()); os._exit(0)
os.close(write)
done = [sum(map(int, column)) for column in zip(*(line.split() for line in os.fdopen(read)))]
print("denied", done[0], "granted", done[1])' %s granted`

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
		s := g.session(t, "", script)
		s.Args = append([]string{s.Args[0], "exec", "--backend", "bpf"}, s.Args[2:]...)
		return s
	}
	if s := bpf("true"); s.finish() != 0 { // afterwards the programs are there, and nobody asks what the kernel is like
		t.Fatal(s.stderr.String())
	}
	must(t, os.WriteFile(mode, []byte("full"), 0o644))
	t.Cleanup(func() { must(t, os.WriteFile(mode, now[1], 0o644)) })

	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("x"), 0o644))
	s := bpf(fmt.Sprintf(opens, secret))
	must(t, os.WriteFile(filepath.Join(s.workspace, "granted"), nil, 0o644))
	code := s.finish()
	var denied, granted int
	if _, err := fmt.Sscanf(s.stdout.String(), "denied %d granted %d", &denied, &granted); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s%s", code, err, s.stdout.String(), s.stderr.String())
	}
	t.Logf("of 24000 denied opens %d succeeded, of as many granted ones %d", denied, granted)
	if denied > 0 || granted == 0 {
		t.Errorf("of 24000 denied opens %d succeeded, of as many granted ones %d", denied, granted)
	}
}
