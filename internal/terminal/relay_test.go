package terminal

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

func TestExitStatuses(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]int{
		"exit 0": 0, "exit 7": 7, "kill -TERM $$": 143, "kill -KILL $$": 137, "exit 125": 125,
	} {
		w := relayed(t, nil, "sh", "-c", script)
		if got := w.ends(t); got != want {
			t.Errorf("%s: %d, want %d: %q", script, got, want, w.text())
		}
	}
}

// TestOutput: everything arrives, in order, also what is written last.
func TestOutput(t *testing.T) {
	t.Parallel()
	const lines = 200_000
	w := relayed(t, nil, "sh", "-c", fmt.Sprintf("seq -f 'line %%049.0f' 1 %d; printf end", lines))
	if code := w.ends(t); code != 0 {
		t.Fatal(code)
	}
	var b strings.Builder
	for i := 1; i <= lines; i++ {
		fmt.Fprintf(&b, "line %049d\r\n", i)
	}
	b.WriteString("end")
	if got := w.text(); got != b.String() {
		t.Errorf("%d bytes, want %d; the end is %q", len(got), b.Len(), got[max(0, len(got)-100):])
	}
}

// TestInput pastes more than every buffer takes, to a program that writes as much back.
func TestInput(t *testing.T) {
	t.Parallel()
	w := relayed(t, nil, "sh", "-c", "stty raw -echo; echo ready; head -c 3000000 | tee copy | tr a-z A-Z; stty sane; sha256sum copy")
	w.shows(t, 0, "ready")
	text := strings.Repeat("abcdefghijklmnopqrstuvwxyz01234567890123456789\n", 3000000/47+1)[:3000000]
	_, err := w.WriteString(text)
	childtest.Must(t, err)
	w.shows(t, 0, fmt.Sprintf("%x", sha256.Sum256([]byte(text))))
	w.ends(t)
	if !strings.Contains(w.text(), text2upper(text)) {
		t.Error("what was written isn't all there")
	}
}

func text2upper(s string) string { return strings.ToUpper(s) }

// TestRedirected: descriptors that aren't terminals are the caller's, and the others are a terminal of the command's own.
func TestRedirected(t *testing.T) {
	t.Parallel()
	w := open(t, nil, "sh", "-c", `echo from-pipe | $BINARY outer sh -c 'cat; test -t 1 && echo no; test -t 2 && echo tty >&2; tty </dev/tty >&2' >out; cat out; tty`)
	w.ends(t)
	got := w.text()
	lines := strings.Fields(got)
	if len(lines) != 4 || lines[0] != "tty" || lines[2] != "from-pipe" || lines[1] == lines[3] || !strings.HasPrefix(lines[1], "/dev/pts/") && lines[1] != "/dev/tty" {
		t.Errorf("%q", got)
	}
}

// TestNoTerminal has a positive control: the same process with a terminal, in all other tests.
func TestNoTerminal(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(binary(t), "outer", "true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 125 || !strings.Contains(string(out), "'toolguard approvals watch' in another terminal") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestWindowSize(t *testing.T) {
	t.Parallel()
	w := relayed(t, nil, "sh", "-c", "trap 'stty size' WINCH; stty size; while :; do sleep 0.1; done")
	w.shows(t, 0, "24 80\r\n")
	childtest.Must(t, pty.Setsize(w.File, &pty.Winsize{Rows: 33, Cols: 77}))
	w.shows(t, 0, "33 77\r\n")
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	w := relayed(t, nil, "sh", "-c", `trap 'echo int; exit 5' INT; echo up; while :; do sleep 0.1; done`)
	w.shows(t, 0, "up")
	w.types(t, "\x03", "int\r\n")
	if got := w.ends(t); got != 5 {
		t.Error(got)
	}
	w = relayed(t, nil, "cat")
	w.types(t, "hello\n", "hello\r\nhello\r\n")
	w.types(t, "\x04", "")
	if got := w.ends(t); got != 0 {
		t.Error("end of input: ", got)
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		w = relayed(t, nil, "sh", "-c", fmt.Sprintf(`trap 'echo got; exit 6' %d; echo up; while :; do sleep 0.1; done`, s))
		w.shows(t, 0, "up")
		childtest.Must(t, w.cmd.Process.Signal(s))
		if got := w.ends(t); got != 6 || !strings.Contains(w.text(), "got") {
			t.Errorf("%v: %d, %q", s, got, w.text())
		}
	}
}

// TestTerminalIsRestored: the settings after a run are those before it, whatever its end.
func TestTerminalIsRestored(t *testing.T) {
	t.Parallel()
	for _, run := range []string{"true", "sh -c 'stty raw -echo; exit 3'", "sh -c 'kill -9 $PPID'", "sh -c 'printf \"\\033[?1000h\\033[?25l\\033[?1049h\"'"} {
		w := open(t, nil, "bash", "-c", `stty -g; $BINARY outer `+run+`; stty -g`)
		w.ends(t)
		got := strings.Fields(strings.ReplaceAll(w.text(), "\x1b[?25h", " "))
		if len(got) < 2 || got[0] != got[len(got)-1] {
			t.Errorf("%s: %q", run, w.text())
		}
		if strings.Contains(run, "1049") {
			for _, want := range []string{"\x1b[?1000l", "\x1b[?25h", "\x1b[?1049l"} {
				if !strings.Contains(w.text(), want) {
					t.Errorf("no %q in %q", want, w.text())
				}
			}
		}
	}
}

// TestJobControl suspends, continues and moves the relay as a shell does; bare is the positive control.
func TestJobControl(t *testing.T) {
	t.Parallel()
	needs(t, "bash")
	for what, prefix := range map[string]string{"bare": "", "relayed": "$BINARY outer "} {
		t.Run(what, func(t *testing.T) {
			w := open(t, nil, "bash", "--norc", "--noprofile", "-i")
			w.shows(t, 0, "prompt> ")
			w.types(t, prefix+"sh -c 'echo up; exec cat'\n", "[\n\r]up\r\n")
			w.types(t, "hello\n", "hello\r\nhello\r\n")
			w.types(t, "\x1a", `Stopped`)
			w.types(t, "echo shell has it\n", "[\r\n]shell has it\r\n")
			w.types(t, "fg\n", "cat'?\r\n")
			w.types(t, "again\n", "again\r\nagain\r\n")
			w.types(t, "\x1a", `Stopped`)
			w.types(t, "bg; sleep 0.3; echo after bg\n", "[\r\n]after bg\r\n")
			w.types(t, "fg\n", "cat'?\r\n")
			time.Sleep(1200 * time.Millisecond) // a running job gets no signal
			w.types(t, "more\n", "more\r\nmore\r\n")
			w.types(t, "\x03", "prompt> ")
			w.types(t, "echo status=$?\n", "status=130")
			w.types(t, prefix+"sh -c 'kill -STOP $$; echo resumed'\n", "Stopped")
			w.types(t, "fg\n", "resumed\r\n")
			w.types(t, prefix+"bash --norc --noprofile -i\n", "prompt> ")
			w.types(t, "sh -c 'echo asleep; exec sleep 1000'\n", "[\n\r]asleep\r\n")
			w.types(t, "\x1a", "Stopped +sh -c 'echo asleep; exec sleep")
			w.types(t, "kill -9 %1; wait; exit\n", "(?s)exit.*prompt> ")
			w.types(t, "echo end\n", "[\r\n]end\r\n")
		})
	}
}

// TestPrograms are programs that fill a screen.
func TestPrograms(t *testing.T) {
	t.Parallel()
	t.Run("vim", func(t *testing.T) {
		needs(t, "vim")
		w := relayed(t, nil, "vim", "-u", "NONE", "-i", "NONE", "-n", "file")
		w.shows(t, 0, "file")
		w.types(t, "ihello from vim\x1b", "hello from vim")
		w.types(t, ":wq\r", "written")
		if code := w.ends(t); code != 0 {
			t.Error(code)
		}
		got, err := os.ReadFile(filepath.Join(w.cmd.Dir, "file"))
		if err != nil || string(got) != "hello from vim\n" {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("vim -es", func(t *testing.T) {
		needs(t, "vim")
		w := relayed(t, nil, "vim", "-u", "NONE", "-i", "NONE", "-n", "-es", "+norm ihello", "+wq", "file")
		if code := w.ends(t); code != 0 {
			t.Error(code)
		}
		if got, err := os.ReadFile(filepath.Join(w.cmd.Dir, "file")); err != nil || string(got) != "hello\n" {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("less", func(t *testing.T) {
		needs(t, "less")
		w := relayed(t, nil, "sh", "-c", "seq -f 'row %g' 1 1000 | less")
		w.shows(t, 0, "row 23")
		w.types(t, "G", "row 1000")
		w.types(t, "q", "")
		if code := w.ends(t); code != 0 {
			t.Error(code)
		}
	})
}

// TestTmux runs the relay in tmux, whose screen shows what a person sees.
func TestTmux(t *testing.T) {
	t.Parallel()
	needs(t, "tmux", "vim")
	s := serve(t)
	socket := filepath.Join(t.TempDir(), "tmux")
	tmux := func(args ...string) string {
		out, err := exec.Command("tmux", append([]string{"-f", "/dev/null", "-S", socket}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	sees := func(want string) {
		t.Helper()
		eventually(t, want, func() bool { return strings.Contains(tmux("capture-pane", "-p"), want) })
	}
	text := filepath.Join(t.TempDir(), "text")
	childtest.Must(t, os.WriteFile(text, []byte("what vim shows\n"), 0o600))
	tmux("new-session", "-d", "-x", "80", "-y", "24", "-e", addressVar+"="+s.address, binary(t), "outer", "vim", "-u", "NONE", "-i", "NONE", "-n", text)
	defer tmux("kill-server")
	sees("what vim shows")
	s.asks("one", nil)
	sees("o allow once")
	if screen := tmux("capture-pane", "-p"); strings.Contains(screen, "what vim") || !strings.Contains(screen, "git push one") {
		t.Errorf("%s", screen)
	}
	time.Sleep(quiet + 100*time.Millisecond)
	tmux("send-keys", "o")
	if got := s.decided(t, 1); got[0] != "one allow-once terminal" {
		t.Error(got)
	}
	sees("what vim shows") // drawn again
	tmux("send-keys", "ityped", "Escape")
	sees("typedwhat vim shows")
}

// TestOuterKilled: without the relay, the session ends as when a terminal goes away.
func TestOuterKilled(t *testing.T) {
	t.Parallel()
	w := relayed(t, nil, "sh", "-c", `echo pid $$ end; trap 'echo hup >hup; exit' HUP; while :; do sleep 0.1; done`)
	at := w.shows(t, 0, `pid \d+ end`)
	var pid int
	_, err := fmt.Sscanf(w.text()[strings.Index(w.text()[:at], "pid"):], "pid %d end", &pid)
	childtest.Must(t, err)
	childtest.Must(t, w.cmd.Process.Kill())
	eventually(t, "the end of the command", func() bool {
		_, err := os.Stat(filepath.Join(w.cmd.Dir, "hup"))
		return err == nil && unix.Kill(pid, 0) != nil
	})
}
