package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/tool/message"
)

const asked = `toolguard asks.*o allow once +a allow always +d deny`

func TestDecisions(t *testing.T) {
	for _, c := range []struct {
		keys []string
		want string // "": none
	}{
		{[]string{"o"}, "x allow-once terminal"},
		{[]string{"O"}, "x allow-once terminal"},
		{[]string{"a", "y"}, "x allow-always terminal"},
		{[]string{"d"}, "x deny terminal"},
		{[]string{"v", "v", "d"}, "x deny terminal"},
		{[]string{"a", "n", "d"}, "x deny terminal"},
		{[]string{"a", "\r", "n", "d"}, "x deny terminal"},
		{[]string{"l"}, ""},
		{[]string{"x"}, ""},
		{[]string{"\r", "\n", "y", "\x03", "\x1a", "q", "l"}, ""},
	} {
		t.Run(fmt.Sprintf("%q", c.keys), func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			w := relayed(t, s, "cat")
			w.types(t, "hello\n", "hello\r\nhello\r\n")
			s.asks("x", nil)
			w.shows(t, 0, `(?s)`+asked)
			for _, k := range c.keys {
				w.deliberate(t, k)
			}
			if c.want != "" {
				if got := s.decided(t, 1); got[0] != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			}
			at := w.shows(t, 0, `\x1b\[\?1049l`)
			w.types(t, "again\n", "again\r\nagain\r\n") // the keyboard is the command's again
			w.types(t, "\x04", "")
			if code := w.ends(t); code != 0 {
				t.Error(code)
			}
			if strings.Contains(w.text()[at:], "toolguard asks") {
				t.Error("it's asked again")
			}
			if c.want == "" && s.decisions() > 0 {
				t.Error("something was decided")
			}
		})
	}
}

// TestNotOffered: what isn't offered can't be chosen.
func TestNotOffered(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := relayed(t, s, "cat")
	s.asks("x", func(a *message.Approval) { a.Offers = []string{message.AllowOnce, message.Deny} })
	w.shows(t, 0, `(?s)toolguard asks.*o allow once +d deny`)
	w.deliberate(t, "a")
	w.shows(t, 0, `always isn't offered`)
	w.deliberate(t, "y")
	w.deliberate(t, "d")
	if got := s.decided(t, 1); !slices.Equal(got, []string{"x deny terminal"}) {
		t.Errorf("%q", got)
	}
}

// TestTypedForTheCommand: what is typed before the prompt is the command's, and typing on answers nothing.
func TestTypedForTheCommand(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := relayed(t, s, "sh", "-c", "stty -echo; echo ready; cat >typed")
	w.shows(t, 0, "ready")
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() { // types words for the command all the time
		defer close(done)
		for {
			for _, k := range "o foo day a y\nolay d\n" {
				select {
				case <-stop:
					return
				case <-time.After(70 * time.Millisecond):
					fmt.Fprint(w, string(k))
				}
			}
		}
	}()
	time.Sleep(time.Second)
	s.asks("x", nil)
	w.shows(t, 0, `(?s)`+asked)
	time.Sleep(4 * time.Second)
	close(stop)
	<-done
	if n := s.decisions(); n > 0 {
		t.Errorf("%d decisions", n)
	}
	w.deliberate(t, "d") // the positive control
	s.decided(t, 1)
	w.shows(t, 0, `\x1b\[\?1049l`)
	w.types(t, "after\n\x04", "")
	w.ends(t)
	got := childtest.ReadFile(t, filepath.Join(w.cmd.Dir, "typed"))
	if text := string(got); !strings.HasPrefix(text, "o foo day") || !strings.HasSuffix(text, "after\n") {
		t.Errorf("the command got %q", text)
	}
}

// TestWithheld: what the command writes while a prompt stands appears afterwards, all of it, and a lot of it makes the command wait.
func TestWithheld(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := relayed(t, s, "sh", "-c", "while ! test -e go; do sleep 0.1; done; seq -f 'late %06g' 1 300000 | tee copy; echo complete")
	s.asks("x", nil)
	at := w.shows(t, 0, `(?s)`+asked)
	s.asks("y", nil)
	w.shows(t, at, "1 of 2")
	w.deliberate(t, "l")
	w.shows(t, at, `git push y`)
	w.deliberate(t, "l")
	w.shows(t, at, `approval y: left open`)
	s.asks("z", nil)
	at = w.shows(t, at, `git push z`)
	w.shows(t, at, `(?s)`+asked)
	childtest.Must(t, os.WriteFile(filepath.Join(w.cmd.Dir, "go"), nil, 0o600))
	written := func() int64 {
		info, err := os.Stat(filepath.Join(w.cmd.Dir, "copy"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	eventually(t, "what fits", func() bool { return written() > maxWithheld*9/10 })
	time.Sleep(time.Second)
	if strings.Contains(w.text()[at:], "late 0") {
		t.Error("the command wrote over the prompt")
	}
	if n := written(); n >= 300000*12 {
		t.Errorf("the command isn't made to wait: it has written %d bytes", n)
	}
	w.deliberate(t, "d")
	w.shows(t, at, "complete")
	w.ends(t)
	text := w.text()
	for i := 1; i <= 300000; i += 999 {
		if line := fmt.Sprintf("late %06d\r\n", i); !strings.Contains(text, line) {
			t.Fatalf("%q is missing", line)
		}
	}
}

// TestElsewhere: a prompt whose approval ends disappears, with one line.
func TestElsewhere(t *testing.T) {
	deny := message.Deny
	for what, c := range map[string]struct {
		change func(s *server)
		want   string
	}{
		"decided": {func(s *server) {
			s.list[0].Decision, s.list[0].ResolvedBy = &deny, &message.By{UID: 1000, PID: 7, Exe: "/usr/bin/toolguard", Via: "command"}
		}, `approval x: deny, by user 1000 \(process 7, /usr/bin/toolguard, command\)`},
		"withdrawn": {func(s *server) { s.list = nil }, `approval x: withdrawn`},
		"expired":   {func(s *server) { s.list[0].Expires = time.Now().UnixMilli() - 1 }, `approval x: expired`},
		"replaced":  {func(s *server) { s.list[0].Created++; s.list[0].Argv = []string{"rm", "-rf"} }, `(?s)approval x: withdrawn, and requested again.*rm -rf`},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			w := relayed(t, s, "cat")
			s.asks("x", nil)
			at := w.shows(t, 0, `(?s)`+asked)
			s.change(func() { c.change(s) })
			w.shows(t, at, `\x1b\[\?1049l(?s:.)*`+c.want)
			if s.decisions() > 0 {
				t.Error("it was decided")
			}
		})
	}
}

// TestExpiry: nobody has to be there.
func TestExpiry(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := relayed(t, s, "cat")
	s.asks("x", func(a *message.Approval) { a.Expires = time.Now().Add(1500 * time.Millisecond).UnixMilli() })
	w.shows(t, 0, `toolguard asks, 1s left`)
	w.shows(t, 0, `approval x: expired: nobody answered in time`)
	w.types(t, "hello\n", "hello\r\nhello\r\n")
}

// TestEndsWhilePromptStands: the command's end is the prompt's end, too.
func TestEndsWhilePromptStands(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := relayed(t, s, "sh", "-c", "while ! test -e go; do sleep 0.1; done; echo last words; exit 9")
	s.asks("x", nil)
	w.shows(t, 0, `(?s)`+asked)
	childtest.Must(t, os.WriteFile(filepath.Join(w.cmd.Dir, "go"), nil, 0o600))
	if code := w.ends(t); code != 9 || !strings.HasSuffix(w.text(), "last words\r\n") {
		t.Errorf("%d, %q", code, w.text())
	}
}

// TestAnswersOfTheTerminal: a command can make a terminal send input. It answers no prompt, whole or in pieces.
func TestAnswersOfTheTerminal(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := relayed(t, s, "sh", "-c", `printf '\033[c\033]10;?\033\\\033[21t\005'; cat`)
	s.asks("x", nil)
	w.shows(t, 0, `(?s)`+asked)
	time.Sleep(quiet + 100*time.Millisecond)
	for _, pieces := range [][]string{
		{"\x1b[?62;4c"}, {"\x1b]", "l", "o", "\x1b\\"}, {"\x1bP1$r", "d", "\x1b", "\\"}, {"\x1b[M", "o", "d", "o"}, {"o", "\r"}, {"\x1b[200~", "o", "\x1b[201~"},
	} {
		for _, p := range pieces {
			fmt.Fprint(w, p)
			time.Sleep(30 * time.Millisecond)
		}
		time.Sleep(quiet + settle)
	}
	if n := s.decisions(); n > 0 {
		t.Errorf("%d decisions", n)
	}
	w.deliberate(t, "o")
	s.decided(t, 1)
}

// TestHostileOutput: the prompt ends every mode in which the command has left the terminal, and sets it again afterwards.
func TestHostileOutput(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := relayed(t, s, "sh", "-c", `printf '\033[?1000h\033[?1006h\033[?2004h\033[?25l\033(0\016\033[8m\033[5;6r\033[4h\033]0;title'; cat`)
	w.shows(t, 0, "title")
	before := len(w.text())
	s.asks("x", func(a *message.Approval) { a.Reason, a.Argv[1] = "\x1b[2J\x1b[H\u202eo allow once", "pu\x1b]0;x\ash" })
	w.shows(t, before, `(?s)`+asked)
	shown := w.text()[before:]
	begin := strings.Index(shown, "toolguard asks")
	for _, want := range []string{"\x18\x1b\\", "\x1b[?1000l", "\x1b[?1006l", "\x1b(B\x0f", "\x1b[0m", "\x1b[r", "\x1b[4l", "\x1b[?7l"} {
		if at := strings.Index(shown, want); at < 0 || at > begin {
			t.Errorf("no %q before the prompt: %q", want, shown[:begin])
		}
	}
	if !strings.HasPrefix(shown, "\x18\x1b\\") {
		t.Errorf("%q", shown)
	}
	if body := shown[begin:]; strings.Contains(body, "\x1b[2J") || strings.Contains(body, "\x1b]") || strings.Contains(body, "\u202e") || !strings.Contains(body, `$'pu\x1b]0;x\ash'`) {
		t.Errorf("%q", body)
	}
	w.deliberate(t, "l")
	at := w.shows(t, before, `approval x: left open`)
	end := w.text()[before+begin : at]
	end = end[strings.Index(end, "\x1b[?1049l"):]
	for _, want := range []string{"\x1b[?1000h", "\x1b[?1006h", "\x1b[?2004h"} {
		if !strings.Contains(end, want) {
			t.Errorf("no %q after the prompt: %q", want, end)
		}
	}
	if strings.Contains(end, "\x1b[?25h") {
		t.Error("the hidden cursor is shown")
	}
}

// TestFlood: many approvals are asked one after the other, and one key leaves them all.
func TestFlood(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := relayed(t, s, "cat")
	s.change(func() {
		for i := range 500 {
			s.list = append(s.list, message.Approval{ID: fmt.Sprint("id", i), Tool: "T", Argv: []string{fmt.Sprint("cmd", i)}, Created: int64(i + 1), Offers: []string{message.AllowOnce, message.Deny}})
		}
	})
	w.shows(t, 0, `1 of 500`)
	w.shows(t, 0, `cmd0`)
	w.deliberate(t, "d")
	s.decided(t, 1)
	w.shows(t, 0, `cmd1`)
	w.deliberate(t, "l")
	w.shows(t, 0, `cmd2`)
	w.deliberate(t, "x")
	at := w.shows(t, 0, `left open, with all others`)
	w.types(t, "hello\n", "hello\r\nhello\r\n")
	s.asks("new", nil) // a new one is asked all the same
	w.shows(t, at, `git push new`)
}

// TestSuspended: a prompt doesn't stand in the way of job control.
func TestSuspended(t *testing.T) {
	t.Parallel()
	needs(t, "bash")
	s := serve(t)
	w := open(t, s, "bash", "--norc", "--noprofile", "-i")
	w.shows(t, 0, "prompt> ")
	w.types(t, "$BINARY outer sh -c 'echo up $$; exec cat'\n", "[\r\n]up ")
	s.asks("x", nil)
	w.shows(t, 0, `(?s)`+asked)
	at := len(w.text())
	pid := regexp.MustCompile(`up (\d+)`).FindStringSubmatch(w.text())[1]
	childtest.Must(t, exec.Command("kill", "-STOP", pid).Run())
	at = w.shows(t, at, `Stopped`)
	w.types(t, "echo shell has it\n", "[\r\n]shell has it")
	w.types(t, "fg\n", `(?s)`+asked)
	w.deliberate(t, "o")
	s.decided(t, 1)
	w.shows(t, at, `\x1b\[\?1049l`)
	w.types(t, "hello\n", "hello\r\nhello\r\n")
}

// TestResize draws the prompt for the new size.
func TestResize(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := relayed(t, s, "cat")
	s.asks("x", nil)
	w.shows(t, 0, `(?s)`+asked)
	at := len(w.text())
	childtest.Must(t, pty.Setsize(w.File, &pty.Winsize{Rows: 9, Cols: 30}))
	w.shows(t, at, `\d+ more lines: v`)
}
