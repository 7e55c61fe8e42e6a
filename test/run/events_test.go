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

// countedEvent has the fields of an event that the tests count.
type countedEvent struct {
	Count    uint64
	Metadata struct{ Sequence int }
	Unmapped struct {
		Kind, Target string
		Extra        struct{ Why, Exact, Anyway string }
	}
}

// readEvents reads whole lines: the last one may be truncated if toolguard was killed.
func readEvents(t *testing.T, from io.Reader) (events []countedEvent) {
	t.Helper()
	b, err := io.ReadAll(from)
	must(t, err)
	for line := range bytes.Lines(b) {
		var e countedEvent
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

// fullPipe is a full pipe, with size bytes in it.
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

// A reader that doesn't read the events: the command isn't delayed, toolguard waits a little, reports the number of lost events and
// ends as the command did.
func TestUnreadEvents(t *testing.T) {
	eachUser(t, func(t *testing.T, p fixture) {
		_, out, _ := fullPipe(t)
		cmd := p.confined(append([]string{"--events", "fd:3"}, policy...), "sh", "-c", "echo ran; exit 3")
		cmd.ExtraFiles = []*os.File{out}
		got := run(t, cmd)
		if got.code != 3 || got.stdout != "ran\n" || !strings.Contains(got.stderr, "events didn't reach --events fd:3: none was read for 2s\n") {
			t.Errorf("%+v", got)
		}
	})
}

// A command can't access the events through its inherited descriptors; a pipe, which can't be rewritten, may be shared.
func TestEventsAreNotShared(t *testing.T) {
	p := newFixture(t, users()[0])
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

// needsDenials skips where this user can't see the kernel's denials.
func needsDenials(t *testing.T) {
	t.Helper()
	out, err := exec.Command(binary, "doctor", "--verbose").Output()
	must(t, err)
	if !regexp.MustCompile(`(?m)^( *yes +denial events|  bpf: usable)`).Match(out) {
		t.Skip("needs the kernel's word on denials")
	}
}

// A flood of the same denial is counted exactly, in few events. Denials that the kernel didn't report are reported as missing.
func TestFloodIsCounted(t *testing.T) {
	needsDenials(t)
	const n = uint64(30000)
	p := newFixture(t, users()[0])
	secret := p.secret(t)
	events := filepath.Join(filepath.Dir(p.home), "events.jsonl")
	began := time.Now()
	out := run(t, p.confined(append([]string{"--events", events}, policy...), p.compile(t, "flood"), secret, fmt.Sprint(n)))
	took := time.Since(began)
	if out.code != 0 || out.stdout != fmt.Sprintln(n) {
		t.Fatalf("%+v", out)
	}
	f, err := os.Open(events)
	must(t, err)
	defer f.Close()
	reported, missing, exact, lines := uint64(0), uint64(0), true, 0
	for _, e := range readEvents(t, f) {
		switch {
		case e.Unmapped.Target == secret:
			reported += e.Count
			lines++
		case e.Unmapped.Kind == "gap":
			missing, exact = missing+e.Count, exact && e.Unmapped.Extra.Exact == "true"
		}
	}
	if exact && reported+missing != n || reported > n {
		t.Errorf("%d were reported and %d are missing, of %d", reported, missing, n)
	}
	if most := 3 + int(took/time.Second); lines > most {
		t.Errorf("%d events in %v", lines, took)
	}
	if reported > 1 && !strings.Contains(out.stderr, fmt.Sprintf(" ×%d\n", reported)) {
		t.Errorf("the report doesn't have %d: %q", reported, out.stderr)
	}
}

// secret is a file that no policy of these tests grants.
func (p fixture) secret(t *testing.T) string {
	t.Helper()
	file := filepath.Join(p.home, "secret")
	must(t, os.WriteFile(file, []byte("s"), 0o600))
	return file
}

// The first of many equal denials is reported at once, and their count while they continue.
func TestRepeatsAreReportedDuringRun(t *testing.T) {
	needsDenials(t)
	p := newFixture(t, users()[0])
	in, out, err := os.Pipe()
	must(t, err)
	defer in.Close()
	script := `i=0; until [ -e stop ]; do true < ` + p.secret(t) + `; i=$((i+1)); sleep 0.01; done 2>/dev/null; echo $i`
	cmd := p.confined(append([]string{"--events", "fd:3"}, policy...), "sh", "-c", script)
	cmd.ExtraFiles = []*os.File{out}
	done := make(chan outcome, 1)
	go func() {
		done <- run(t, cmd)
		out.Close()
	}()
	var reported []uint64
	var sum uint64
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var e countedEvent
		must(t, json.Unmarshal(lines.Bytes(), &e))
		if !strings.HasSuffix(e.Unmapped.Target, "/secret") {
			continue
		}
		reported = append(reported, max(1, e.Count))
		sum += reported[len(reported)-1]
		if len(reported) == 3 { // it still runs
			must(t, os.WriteFile(filepath.Join(p.workspace, "stop"), nil, 0o600))
		}
	}
	got := <-done
	if len(reported) < 3 || reported[0] != 1 || slices.Max(reported) < 2 || fmt.Sprintln(sum) != got.stdout {
		t.Errorf("%v were reported, %d in total; %+v", reported, sum, got)
	}
}
