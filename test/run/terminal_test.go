//go:build linux

package run

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"
)

// terminal is a shell with job control on a terminal of its own, with its output.
type terminal struct {
	master *os.File
	mu     sync.Mutex
	shown  strings.Builder
}

func open(t *testing.T, cmd *exec.Cmd) *terminal {
	t.Helper()
	master, slave, err := pty.Open()
	must(t, err)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, true
	must(t, cmd.Start())
	slave.Close()
	tty := &terminal{master: master}
	go tty.read()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		master.Close()
	})
	return tty
}

func (y *terminal) read() {
	buf := make([]byte, 4096)
	for {
		n, err := y.master.Read(buf)
		y.mu.Lock()
		y.shown.Write(buf[:n])
		y.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (y *terminal) text() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.shown.String()
}

// shows waits until the terminal shows something that matches, or has shown it.
func (y *terminal) shows(t *testing.T, want string) {
	t.Helper()
	y.showsAfter(t, 0, want)
}

// types types text and waits until the terminal shows something that matches, after what it has shown before.
func (y *terminal) types(t *testing.T, text, want string) {
	t.Helper()
	before := len(y.text())
	if _, err := y.master.WriteString(text); err != nil {
		t.Fatal(err)
	}
	y.showsAfter(t, before, want)
}

func (y *terminal) showsAfter(t *testing.T, before int, want string) {
	t.Helper()
	re := regexp.MustCompile(want)
	if !eventually(func() bool { return re.MatchString(y.text()[before:]) }) {
		t.Fatalf("waited for %q, saw %q", want, y.text()[before:])
	}
}

// Job control as in a shell without toolguard: suspend, background, foreground, interrupt; and a terminal of its own for a
// program that reads it.
func TestJobControl(t *testing.T) {
	needs(t, "bash", "stty")
	for what, prefix := range map[string]string{
		"unconfined": "", // the positive control
		"confined":   binary + " exec --policy preset:git -- ",
		"wrapped":    binary + " exec --quiet --backend bwrap --policy preset:git -- ",
	} {
		t.Run(what, func(t *testing.T) {
			if what == "wrapped" {
				needs(t, "bwrap")
			}
			p := newFixture(t, users()[0])
			cmd := p.command("bash", "--norc", "--noprofile", "-i")
			cmd.Env = append(cmd.Env, "PS1=prompt> ", "TERM=dumb")
			y := open(t, cmd)
			y.shows(t, "prompt> ")
			y.types(t, prefix+"sh -c 'echo up; exec cat'\n", "\nup\r\n") // the shell, not the terminal, echoes input before cat runs
			y.types(t, "hello\n", "hello\r\nhello\r\n")
			y.types(t, "\x1a", `Stopped[^\r]*cat`)
			y.types(t, "fg\n", "cat'\r\n") // the whole line: the echo of input would be within it
			y.types(t, "again\n", "again\r\nagain\r\n")
			y.types(t, "\x1a", `Stopped[^\r]*cat`)
			y.types(t, "bg; while [ -n \"$(jobs -r)\" ]; do sleep 0.1; done; jobs\n", `Stopped[^\r]*cat`) // it reads the terminal, so it stops again
			y.types(t, "fg\n", "cat'\r\n")
			y.types(t, "more\n", "more\r\nmore\r\n") // it has the terminal
			y.types(t, "\x03", "prompt> ")
			y.types(t, "echo status=$?\n", "status=130")
			y.types(t, prefix+`sh -c 'trap "echo int; exit 5" INT; echo up; while :; do sleep 0.1; done'`+"\n", "up\r\n")
			y.types(t, "\x03", "int\r\n")
			y.types(t, "echo status=$?\n", "status=5\r")
			y.types(t, "stty rows 33 cols 77; "+prefix+"stty size\n", "33 77")
			y.types(t, prefix+`bash --norc --noprofile -ic 'sleep 100 & jobs; kill %1; wait; echo inner done'`+"\n", "\ninner done\r\n")
			y.types(t, prefix+`sh -c 'sleep 100 & kill -TSTP $$; echo resumed'`+"\n", "Stopped")
			y.types(t, "fg\n", "resumed\r\n")
			y.types(t, "echo end\n", "\nend\r\n")
		})
	}
}

// A command that has the terminal stop its whole group doesn't stop toolguard where a clock runs.
func TestTerminalDoesNotStopClock(t *testing.T) {
	needs(t, "bash")
	p := newFixture(t, users()[0])
	program := p.compile(t, "background")
	cmd := p.command("bash", "--norc", "--noprofile", "-i")
	cmd.Env = append(cmd.Env, "PS1=prompt> ", "TERM=dumb")
	y := open(t, cmd)
	y.shows(t, "prompt> ")
	for _, how := range []string{"read", "set"} {
		y.types(t, program+" "+how+"; echo status=$?\n", "status=1(49|50)") // the positive control: stopped
		y.types(t, "kill -9 %%; wait; "+binary+" exec --policy preset:git --limits wall_time=2s -- "+program+" "+how+"; echo status=$?\n",
			"status=143")
	}
}

// The command has toolguard's standard descriptors and those of --pass-fd, and no others.
func TestDescriptors(t *testing.T) {
	p := newFixture(t, users()[0])
	list := `for f in 3 4 5 6 7 8 9; do if (: >&$f) 2>/dev/null || (: <&$f) 2>/dev/null; then echo $f; fi; done`
	give := func(flags ...string) outcome {
		f, err := os.Open("/etc/hostname")
		must(t, err)
		defer f.Close()
		cmd := p.confined(append(flags, policy...), "sh", "-c", list)
		cmd.ExtraFiles = []*os.File{f, f, f} // 3, 4 and 5
		return run(t, cmd)
	}
	if got := give(); got.stdout != "" || got.code != 0 {
		t.Errorf("inherited: %+v", got)
	}
	if got := give("--pass-fd", "4"); got.stdout != "4\n" {
		t.Errorf("control, with --pass-fd 4: %+v", got)
	}
	if got := give("--pass-fd", "6"); got.code != 125 || !strings.Contains(got.stderr, "descriptor 6 can't be passed on: it isn't open") {
		t.Errorf("one of toolguard's own, or none: %+v", got)
	}
}

// Closed standard descriptors don't make toolguard hand one of its own to the command, nor fail it.
func TestClosedDescriptors(t *testing.T) {
	p := newFixture(t, users()[0])
	out := run(t, p.command("sh", "-c", `exec 0<&- 2>&-; exec "$@"`, "sh", binary, "exec", "--quiet", "--policy", "preset:git", "--",
		"sh", "-c", "ls -l /proc/self/fd >/dev/null 2>&1; echo out"))
	if out.stdout != "out\n" || out.code != 0 {
		t.Errorf("%+v", out)
	}
}

// A reader that goes away ends the command as it would without toolguard.
func TestBrokenPipe(t *testing.T) {
	p := newFixture(t, users()[0])
	script := `set -o pipefail; $X yes | head -1; echo "${PIPESTATUS[0]}"`
	bare := run(t, p.command("bash", "-c", script))
	cmd := p.command("bash", "-c", strings.Replace(script, "$X", binary+" exec --quiet --policy preset:git --", 1))
	if got := run(t, cmd); got != bare || bare.stdout != "y\n141\n" {
		t.Errorf("bare %+v, confined %+v", bare, got)
	}
}

// The rules are enforced before the command starts: a program that tries from its first instruction on, in as many processes as it can
// make, never succeeds in an operation that isn't granted.
func TestConfinedFromTheFirstInstruction(t *testing.T) {
	times := 10
	if os.Getenv("TOOLGUARD_VM") != "" { // each takes seconds there
		times = 2
	}
	eachUser(t, func(t *testing.T, p fixture) {
		secret := p.home + "/secret"
		must(t, os.WriteFile(secret, []byte("secret\n"), 0o644))
		script := `i=0; while [ $i -lt 40 ]; do (cat ` + secret + ` 2>/dev/null &) & i=$((i+1)); done; cat ` + secret + ` 2>/dev/null; wait; echo over`
		for range times {
			if got := run(t, p.confined(append([]string{"--report", "never"}, policy...), "sh", "-c", script)); got.stdout != "over\n" {
				t.Fatalf("%+v", got)
			}
		}
		control := run(t, p.command("sh", "-c", script))
		if strings.Count(control.stdout, "secret") == 0 {
			t.Errorf("control: %+v", control)
		}
	})
}
