package oslog

import (
	"io"
	"strings"
	"testing"
	"time"
)

// The lines are as public reports show them: of --style compact, of --style syslog, and of the default style.
func TestParse(t *testing.T) {
	at := time.Date(2026, 9, 18, 6, 19, 41, 380e6, time.Local)
	const tag = "toolguard-session-00000000deadbeef"
	for _, x := range []struct {
		line string
		want Denial
	}{
		{
			"2026-09-18 06:19:41.380 E  kernel[0:5f489] (Sandbox) Sandbox: Stickies(41548) deny(1) file-read-data /Volumes/hano/sandbox-test/com.apple.Stickies/Library-Stickies/.SavedStickiesState",
			Denial{Time: at, Comm: "Stickies", PID: 41548, Operation: "file-read-data", Target: "/Volumes/hano/sandbox-test/com.apple.Stickies/Library-Stickies/.SavedStickiesState", Count: 1},
		},
		{
			"   Error 0x0 0 0 kernel: (Sandbox) 1 duplicate report for Sandbox: ollama-sandbox(4615) deny(1) mach-lookup com.apple.diagnosticd",
			Denial{Comm: "ollama-sandbox", PID: 4615, Operation: "mach-lookup", Target: "com.apple.diagnosticd", Count: 1},
		},
		{
			"2026-09-18 06:19:41.380 E  kernel[0:1] (Sandbox) 17 duplicate reports for Sandbox: git(1) deny(1) file-read-metadata /Users/u",
			Denial{Time: at, Comm: "git", PID: 1, Operation: "file-read-metadata", Target: "/Users/u", Count: 17},
		},
		{
			"2023-05-26 13:42:44.136082+0200  localhost kernel[0]: (Sandbox) Sandbox: sandbox-exec(41398) deny(1) process-exec* /usr/bin/touch",
			Denial{Time: time.Date(2023, 5, 26, 13, 42, 44, 136e6, time.Local), Comm: "sandbox-exec", PID: 41398, Operation: "process-exec*", Target: "/usr/bin/touch", Count: 1},
		},
		{
			"Aug 24 15:01:56 localhost kernel[0]: Sandbox: launchd(1) System Policy: deny(1) file-write-flags /private/var/run/dyld_shared_cache_x86_64h",
			Denial{Comm: "launchd", PID: 1, Operation: "file-write-flags", Target: "/private/var/run/dyld_shared_cache_x86_64h", Count: 1, System: true},
		},
		{
			"kernel[0] (Sandbox) Sandbox: bat(1) deny(1) file-read-data /Users/me/My Documents/the file.txt",
			Denial{Comm: "bat", PID: 1, Operation: "file-read-data", Target: "/Users/me/My Documents/the file.txt", Count: 1},
		},
		{
			"kernel[0] (Sandbox) Sandbox: Google Chrome He(77) deny(1) network-outbound", // a name with spaces, no target
			Denial{Comm: "Google Chrome He", PID: 77, Operation: "network-outbound", Count: 1},
		},
		{
			"kernel[0] (Sandbox) Sandbox: a (b)(78) deny(1) network-outbound 10.0.0.1:443", // a name with brackets
			Denial{Comm: "a (b)", PID: 78, Operation: "network-outbound", Target: "10.0.0.1:443", Count: 1},
		},
		{
			"kernel[0] (Sandbox) Sandbox: cat(9) deny(1) file-read-data /etc/a b " + tag,
			Denial{Comm: "cat", PID: 9, Operation: "file-read-data", Target: "/etc/a b", Count: 1, Tag: tag},
		},
		{
			"kernel[0] (Sandbox) Sandbox: cat(9) deny(1) network-outbound " + tag,
			Denial{Comm: "cat", PID: 9, Operation: "network-outbound", Count: 1, Tag: tag},
		},
		{"kernel[0] (Sandbox) Sandbox: cat(9) allow(1) file-read-data /etc/hosts", Denial{}},
		{"Filtering the log data using \"sender == \"Sandbox\" AND eventMessage CONTAINS \"deny(\"\"", Denial{}},
		{"Timestamp               Ty Process[PID:TID]", Denial{}},
		{"kernel[0] (Sandbox) Sandbox: cat(99999999999) deny(1) file-read-data /x", Denial{}},
		{"Sandbox: cat(9) deny(1) file-read-data /" + strings.Repeat("x", maxLine), Denial{}},
		{"", Denial{}},
	} {
		got, ok := Parse(x.line)
		if got != x.want || ok != (x.want != Denial{}) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", x.line, got, ok, x.want)
		}
	}
}

func TestTag(t *testing.T) {
	const tag = "toolguard-session-00000000deadbeef"
	if got := TagOf("00000000deadbeef"); got != tag {
		t.Error(got)
	}
	const plain = "(version 1)\n(deny default)\n(allow process-fork)\n"
	tagged := Tag(plain, tag)
	if want := "(version 1)\n(deny default (with message \"" + tag + "\"))\n(allow process-fork)\n"; tagged != want {
		t.Error(tagged)
	}
	if got := Tag("(version 1)(allow default)", tag); got != "(version 1)(allow default)" {
		t.Error(got)
	}
}

// The lines reach the reader one by one, with tags on lines of their own.
func TestRead(t *testing.T) {
	const tag = "toolguard-session-00000000deadbeef"
	text := "Filtering the log data using \"…\"\nTimestamp               Ty Process[PID:TID]\n" +
		"2026-09-18 06:19:41.380 E  kernel[0:1] (Sandbox) Sandbox: a(1) deny(1) file-read-data /a\n" + tag + "\n" +
		"2026-09-18 06:19:41.380 E  kernel[0:1] (Sandbox) Sandbox: b(2) deny(1) file-read-data /b\n" +
		"2026-09-18 06:19:41.380 E  kernel[0:1] (Sandbox) Sandbox: c(3) deny(1) file-read-data /c " + tag + "\n" +
		"something else\n" + tag + "\n"
	begun := 0
	var got []Denial
	if err := Read(strings.NewReader(text), nil, func() { begun++ }, func(d Denial) { got = append(got, d) }); err != nil {
		t.Fatal(err)
	}
	if begun != 1 || len(got) != 3 {
		t.Fatalf("begun %d times, %+v", begun, got)
	}
	for i, want := range []string{tag, "", tag} {
		if got[i].Tag != want || got[i].PID != i+1 {
			t.Errorf("%+v", got[i])
		}
	}
}

// A tick between a denial and its tag doesn't separate them, and the second one reports the denial although no line follows.
func TestReadIdle(t *testing.T) {
	const denial, tag = "Sandbox: a(1) deny(1) file-read-data /a\n", "toolguard-session-00000000deadbeef"
	for _, x := range []struct {
		ticks      int
		more, want string
	}{{1, tag + "\n", tag}, {2, "", ""}} {
		in, out := io.Pipe()
		idle, begun, reported := make(chan time.Time), make(chan bool), make(chan Denial, 1)
		go Read(in, idle, func() { close(begun) }, func(d Denial) { reported <- d })
		io.WriteString(out, denial)
		<-begun // the line was received
		for range x.ticks {
			idle <- time.Time{}
		}
		io.WriteString(out, x.more)
		if d := <-reported; d.Tag != x.want || d.PID != 1 {
			t.Errorf("after %d ticks: %+v", x.ticks, d)
		}
		out.Close()
	}
}

// What was parsed never has more than the line has, and a hostile line is parsed in time.
func FuzzParse(f *testing.F) {
	f.Add("2026-09-18 06:19:41.380 E  kernel[0:5f489] (Sandbox) Sandbox: Stickies(41548) deny(1) file-read-data /Volumes/x y")
	f.Add("3 duplicate reports for Sandbox: a(1)(2) System Policy: deny(1) file-write* ")
	f.Add("Sandbox: a(1) deny(1) x toolguard-session-00000000deadbeef")
	f.Fuzz(func(t *testing.T, line string) {
		d, ok := Parse(line)
		if !ok {
			if d != (Denial{}) {
				t.Errorf("%q: %+v", line, d)
			}
			return
		}
		if d.Count == 0 || d.PID < 0 || d.Comm == "" || d.Operation == "" || tagLine().MatchString(" "+d.Target) && d.Tag == "" {
			t.Errorf("%q: %+v", line, d)
		}
		if !strings.Contains(line, d.Comm) || !strings.Contains(line, d.Target) || !strings.Contains(line, d.Operation) {
			t.Errorf("%q: %+v has more than the line", line, d)
		}
	})
}
