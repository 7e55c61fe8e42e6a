//go:build linux

package run

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// toldEvent is what is counted of an event.
type toldEvent struct {
	Count    uint64
	Metadata struct{ Sequence int }
	Unmapped struct {
		Kind, Target string
		Extra        struct{ Why, Exact, Anyway string }
	}
}

// readEvents reads whole lines: what toolguard was writing when it ended may be cut off.
func readEvents(t *testing.T, from io.Reader) (events []toldEvent) {
	t.Helper()
	b, err := io.ReadAll(from)
	must(t, err)
	for line := range bytes.Lines(b) {
		var e toldEvent
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		e.Count = max(1, e.Count)
		if e.Metadata.Sequence != len(events)+1 {
			t.Fatalf("event %d has the number %d", len(events)+1, e.Metadata.Sequence)
		}
		events = append(events, e)
	}
	return events
}

// fullPipe is a pipe that has no room, with size bytes in it.
func fullPipe(t *testing.T) (in, out *os.File, size int64) {
	t.Helper()
	in, out, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { in.Close(); out.Close() })
	conn, err := out.SyscallConn()
	must(t, err)
	err = conn.Control(func(fd uintptr) {
		for n := 0; n >= 0; n, err = unix.Write(int(fd), make([]byte, 4096)) { // it doesn't block
			size += int64(n)
		}
	})
	if err != nil || size == 0 {
		t.Fatal(size, err)
	}
	return in, out, size
}

// Nobody reads the events: the command isn't held up, toolguard waits a little for the reader, says how much it didn't get and
// ends as the command did.
func TestNobodyReadsEvents(t *testing.T) {
	eachUser(t, func(t *testing.T, p place) {
		_, out, _ := fullPipe(t)
		cmd := p.guarded(append([]string{"--events", "fd:3"}, policy...), "sh", "-c", "echo ran; exit 3")
		cmd.ExtraFiles = []*os.File{out}
		got := run(t, cmd)
		if got.code != 3 || got.stdout != "ran\n" || !strings.Contains(got.stderr, "events didn't reach --events fd:3: none was read for 2s\n") {
			t.Errorf("%+v", got)
		}
	})
}

// A command can't get at the events through the descriptors that it has anyway; what can't be rewritten may be shared.
func TestEventsAreNotShared(t *testing.T) {
	p := newPlace(t, users()[0])
	log := filepath.Join(filepath.Dir(p.home), "log")
	toolguard := binary + " exec --policy preset:git "
	refused := " could rewrite the events: give them a file of their own"
	rows := []struct{ name, line, word string }{
		{"standard output", toolguard + `--events - -- sh -c ': > ran' > ` + log, "descriptor 1,"},
		{"descriptor 1", toolguard + `--events fd:1 -- sh -c ': > ran' > ` + log, "descriptor 1,"},
		{"errors", toolguard + `--events ` + log + ` -- sh -c ': > ran' 2>> ` + log, "descriptor 2,"},
		{"opened twice", toolguard + `--events fd:3 -- sh -c ': > ran' 3>> ` + log + ` >> ` + log, "descriptor 1,"},
		{"passed", toolguard + `--events fd:3 --pass-fd 4 -- sh -c ': > ran' 3>> ` + log + ` 4>> ` + log, "descriptor 4,"},
		{"only read", toolguard + `--events ` + log + ` -- sh -c ': > ran' < ` + log, ""},
		{"pipe", toolguard + `--events - -- sh -c ': > ran' | cat > ` + log, ""},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			must(t, os.WriteFile(log, nil, 0o600))
			_ = os.Remove(filepath.Join(p.workspace, "ran"))
			out := run(t, p.command("sh", "-c", r.line))
			_, err := os.Stat(filepath.Join(p.workspace, "ran"))
			ran := err == nil
			b, err := os.ReadFile(log)
			must(t, err)
			switch text := out.stderr + string(b); {
			case r.word != "" && (out.code != 125 || ran || !strings.Contains(text, r.word) || !strings.Contains(text, refused)):
				t.Errorf("ran: %v; %+v\n%s", ran, out, b)
			case r.word == "" && (out.code != 0 || !ran || strings.Count(text, `"kind":"session_end"`) != 1):
				t.Errorf("ran: %v; %+v\n%s", ran, out, b)
			}
		})
	}
}

// needsDenials skips where this user can't see what the kernel denies.
func needsDenials(t *testing.T) {
	t.Helper()
	out, err := exec.Command(binary, "doctor", "--verbose").Output()
	must(t, err)
	if !regexp.MustCompile(`(?m)^( *yes +denial events|  bpf: usable)`).Match(out) {
		t.Skip("needs the kernel's word on denials")
	}
}

// A flood of the same denial is counted to the last one, in few events. What the kernel didn't tell is said to be missing.
func TestFloodIsCounted(t *testing.T) {
	needsDenials(t)
	const n = uint64(30000)
	p := newPlace(t, users()[0])
	secret := p.secret(t)
	events := filepath.Join(filepath.Dir(p.home), "events.jsonl")
	began := time.Now()
	out := run(t, p.guarded(append([]string{"--events", events}, policy...), p.compile(t, "flood"), secret, fmt.Sprint(n)))
	took := time.Since(began)
	if out.code != 0 || out.stdout != fmt.Sprintln(n) {
		t.Fatalf("%+v", out)
	}
	f, err := os.Open(events)
	must(t, err)
	defer f.Close()
	told, missing, exact, lines := uint64(0), uint64(0), true, 0
	for _, e := range readEvents(t, f) {
		switch {
		case e.Unmapped.Target == secret:
			told += e.Count
			lines++
		case e.Unmapped.Kind == "gap":
			missing, exact = missing+e.Count, exact && e.Unmapped.Extra.Exact == "true"
		}
	}
	if exact && told+missing != n || told > n {
		t.Errorf("%d were told of and %d are missing, of %d", told, missing, n)
	}
	if most := 3 + int(took/time.Second); lines > most {
		t.Errorf("%d events in %v", lines, took)
	}
	if told > 1 && !strings.Contains(out.stderr, fmt.Sprintf(" ×%d\n", told)) {
		t.Errorf("the report doesn't say %d: %q", told, out.stderr)
	}
}

// secret is a file that no policy of these tests grants.
func (p place) secret(t *testing.T) string {
	t.Helper()
	file := filepath.Join(p.home, "secret")
	must(t, os.WriteFile(file, []byte("s"), 0o600))
	return file
}

// The first of many equal denials is told at once, and while they go on, how many they are.
func TestRepeatsAreToldWhileTheyHappen(t *testing.T) {
	needsDenials(t)
	p := newPlace(t, users()[0])
	in, out, err := os.Pipe()
	must(t, err)
	defer in.Close()
	script := `i=0; until [ -e stop ]; do true < ` + p.secret(t) + `; i=$((i+1)); sleep 0.01; done 2>/dev/null; echo $i`
	cmd := p.guarded(append([]string{"--events", "fd:3"}, policy...), "sh", "-c", script)
	cmd.ExtraFiles = []*os.File{out}
	said := make(chan outcome, 1)
	go func() {
		said <- run(t, cmd)
		out.Close()
	}()
	var told []uint64
	var sum uint64
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var e toldEvent
		must(t, json.Unmarshal(lines.Bytes(), &e))
		if !strings.HasSuffix(e.Unmapped.Target, "/secret") {
			continue
		}
		told = append(told, max(1, e.Count))
		sum += told[len(told)-1]
		if len(told) == 3 { // it still runs
			must(t, os.WriteFile(filepath.Join(p.workspace, "stop"), nil, 0o600))
		}
	}
	got := <-said
	if len(told) < 3 || told[0] != 1 || slices.Max(told) < 2 || fmt.Sprintln(sum) != got.stdout {
		t.Errorf("%v were told, %d in all; %+v", told, sum, got)
	}
}
