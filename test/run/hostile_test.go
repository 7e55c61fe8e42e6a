//go:build linux

package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// compile builds one of testdata's programs into the workspace, or copies it there from the folder that TOOLGUARD_BUILT names.
func (p fixture) compile(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(p.workspace, name)
	cmd := exec.Command("gcc", "-O1", "-o", file, "testdata/"+name+".c")
	if dir := os.Getenv("TOOLGUARD_BUILT"); dir != "" {
		cmd = exec.Command("cp", filepath.Join(dir, "run", name), file)
	} else if cmd.Err != nil {
		t.Skip("needs gcc")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p.own(t)
	return file
}

// Processes that fork and exit faster than toolguard can look are killed, too.
func TestChainsAreEnded(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		mark := "1000.0501" + p.user.Name
		out := run(t, p.confined(policy, p.compile(t, "chains"), "5", mark))
		if out.code != 0 || !strings.HasPrefix(out.stdout, "started\n") {
			t.Fatalf("%+v", out)
		}
		for range 5 {
			if n := processes(t, mark); n != 0 {
				t.Fatalf("%d processes are left", n)
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// toolguard doesn't wait for unkillable processes; under the BPF programs there are none. Those of this test stay, so it needs a
// machine of its own.
func TestUnkillable(t *testing.T) {
	if os.Getenv("TOOLGUARD_VM") == "" {
		t.Skip("needs a virtual machine (make vm-test)")
	}
	for _, u := range users() {
		p := newFixture(t, u)
		argv := []string{p.compile(t, "mutual"), "1000.0601" + u.Name}
		confined := func(flags ...string) outcome {
			return run(t, p.confined(slices.Concat(flags, []string{"--limits", "wall_time=500ms"}, policy), argv...))
		}
		out := confined()
		if n := processes(t, argv[1]); n != 0 || strings.Contains(out.stderr, "don't end") {
			t.Errorf("%s, bpf: %d processes, %+v", u.Name, n, out)
		}
		out = confined("--daemon", "none", "--backend", "landlock")
		if n := processes(t, argv[1]); n != 2 || out.code != 137 || !strings.Contains(out.stderr, "2 processes of the session don't end") {
			t.Errorf("%s, landlock: %d processes, %+v", u.Name, n, out)
		}
	}
}

// The wall time ends a session whose first process can't be seen to end, one that has stopped itself, which stops toolguard
// without a wall time, and one that uses all processors.
func TestWallTimeCannotBeDelayed(t *testing.T) {
	others := "50"
	if os.Getenv("TOOLGUARD_VM") != "" { // on one processor, the process waits a time slice for each of the others
		others = "30"
	}
	for _, u := range users() {
		p := newFixture(t, u)
		rows := map[string][]string{
			"traced":  {p.compile(t, "traced"), "1000.0502"},
			"starved": {p.compile(t, "starve"), "1000.0504", others},
			"stopped": {"sh", "-c", `sleep 1000.0503 & kill -STOP $$`},
		}
		for name, argv := range rows {
			t.Run(u.Name+"/"+name, func(t *testing.T) {
				began := time.Now()
				out := run(t, p.confined(append([]string{"--limits", "wall_time=500ms"}, policy...), argv...))
				if took := time.Since(began); took > time.Minute || took < 400*time.Millisecond {
					t.Errorf("%v: %+v", took, out)
				}
				if n := processes(t, "1000.050"); n != 0 {
					t.Errorf("%d processes are left", n)
				}
			})
		}
	}
}

// A denial doesn't make toolguard read more of a process than fits in its memory.
func TestLongCommandLines(t *testing.T) {
	needsDenials(t)
	p := newFixture(t, users()[0])
	secret := p.secret(t)
	events := filepath.Join(filepath.Dir(p.home), "events.jsonl")
	cmd := p.confined(append([]string{"--events", events}, policy...), p.compile(t, "longargs"), secret)
	if out := run(t, cmd); out.code != 0 {
		t.Fatalf("%+v", out)
	}
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); !ok || used.Maxrss > 200<<10 { // KiB
		t.Errorf("toolguard or the command used %d KiB", used.Maxrss)
	}
	b, err := os.ReadFile(events)
	if err != nil || !strings.Contains(string(b), secret) || len(b) > 1<<20 {
		t.Errorf("%v, %d bytes of events, the denial among them: %v", err, len(b), strings.Contains(string(b), secret))
	}
}

// A session makes no setuid or setgid file, which other users would execute with its user's or group's rights.
func TestNoSetuidFiles(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		script := `: > f; for m in 4755 2755 u+s; do chmod $m f; stat -c %a f; done; chmod 755 f; stat -c %a f`
		bare := run(t, p.command("sh", "-c", script))
		if !strings.HasPrefix(bare.stdout, "4755\n2755\n") {
			t.Fatalf("control: %+v", bare)
		}
		got := run(t, p.confined(append([]string{"--report", "always"}, policy...), "sh", "-c", "rm f; umask 022; "+script))
		if got.stdout != "644\n644\n644\n755\n" {
			t.Errorf("%+v", got)
		}
		if p.user.ID == 0 && !strings.Contains(got.stderr, "no setuid and no setgid files") {
			t.Errorf("no report of the denial: %q", got.stderr)
		}
	})
}

// Nor by an access control list, which lets the group execute a setgid file that it may not.
func TestNoSetgidByACL(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		program := p.compile(t, "setgid")
		if made := run(t, p.command("sh", "-c", ": > bare; : > confined; chmod 2705 bare confined")); made.code != 0 {
			t.Fatalf("%+v", made)
		}
		bare := run(t, p.command(program, "bare"))
		if bare.stderr == "no lists\n" {
			t.Skip("needs a file system with access control lists")
		}
		if bare.stdout != "2755\n" {
			t.Fatalf("control: %+v", bare)
		}
		got := run(t, p.confined(policy, program, "confined"))
		want := "no lists\n" // by seccomp
		if os.Getenv("TOOLGUARD_VM") != "" {
			want = "refused\n" // by the bpf backend
		}
		if got.stdout != "2705\n" || !strings.HasPrefix(got.stderr, want) {
			t.Errorf("%+v", got)
		}
	})
}

// toolguard removes the TMPDIR, whatever the command did to it.
func TestTmpIsRemoved(t *testing.T) {
	for _, u := range users() {
		p := newFixture(t, u)
		script := `mkdir -p $TMPDIR/a/b; : > $TMPDIR/a/b/c; ln -s / $TMPDIR/a/root; chmod 0 $TMPDIR/a/b $TMPDIR/a; echo $TMPDIR`
		out := run(t, p.confined(policy, "sh", "-c", script))
		dir := strings.TrimSuffix(out.stdout, "\n")
		if out.code != 0 || !filepath.IsAbs(dir) {
			t.Fatalf("%s: %+v", u.Name, out)
		}
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: %s is still there: %v", u.Name, dir, err)
		}
	}
}

// A reader that goes away doesn't end toolguard before the session: the exit status is the command's and nothing is left.
func TestReaderGoesAway(t *testing.T) {
	needs(t, "bash")
	p := newFixture(t, users()[0])
	script := binary + ` exec --report always --policy preset:git -- sh -c 'cat ` + p.home + `/x; echo $TMPDIR > tmp; exit 3' 2>&1 | true; echo ${PIPESTATUS[0]}`
	must(t, os.WriteFile(filepath.Join(p.home, "x"), nil, 0o600))
	out := run(t, p.command("bash", "-c", script))
	if out.stdout != "3\n" {
		t.Errorf("%+v", out)
	}
	b, err := os.ReadFile(filepath.Join(p.workspace, "tmp"))
	must(t, err)
	if _, err := os.Lstat(strings.TrimSpace(string(b))); !os.IsNotExist(err) {
		t.Errorf("the TMPDIR is still there: %v", err)
	}
}
