package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/version"
)

// TestEventsDocument runs the example of docs/events.md and compares its events with the page, except what differs from run to
// run. Where denials aren't reported it compares the others.
func TestEventsDocument(t *testing.T) {
	if !hasLandlock() {
		t.Skip("needs landlock")
	}
	shown := map[string]string{}
	for _, b := range blocks(t, "docs/events.md") {
		shown[b.lang] += b.text
	}
	home, bin := t.TempDir(), toolguard(t)
	project := filepath.Join(home, "project")
	must(t, os.Mkdir(project, 0o755))
	must(t, os.WriteFile(filepath.Join(home, "demo.toml"), []byte(shown["toml"]), 0o644))
	command, lines, _ := strings.Cut(shown["console"], "\n$ cat ../events.txt\n")
	command, ok := strings.CutPrefix(command, "$ ")
	if !ok {
		t.Fatalf("not a command and its events: %q", shown["console"])
	}
	doctor, _ := run(t, home, bin, "doctor", "--verbose")
	denials := regexp.MustCompile(`(?m)^ *yes +denial events`).MatchString(doctor)

	var want []string
	for line := range strings.Lines(strings.ReplaceAll(lines, "/home/ann", home)) {
		if denials || !strings.Contains(line, "/etc/shadow") {
			want = append(want, alike(line, denials))
		}
	}
	var got []string
	for line := range strings.Lines(example(t, bin, project, command)) {
		got = append(got, alike(line, denials))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, ""), strings.Join(want, ""))
	}

	records := strings.Split(example(t, bin, project, strings.Replace(command, "--format text", "--format ocsf", 1)), "\n")
	if !denials {
		t.Skip("needs denial events")
	}
	release := strings.Replace(records[2], version.Release()+"+devel", version.Release(), 1)
	if got, want := record(t, release), record(t, shown["json"]); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}

// example runs a command of the page and returns its events.
func example(t *testing.T, bin, project, command string) string {
	t.Helper()
	file := filepath.Join(filepath.Dir(project), "events.txt")
	must(t, os.RemoveAll(file))
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir = project
	cmd.Env = []string{"PATH=" + filepath.Dir(bin) + ":/usr/bin:/bin", "HOME=" + filepath.Dir(project), "AWS_SECRET_ACCESS_KEY=x"}
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 3 {
		t.Fatalf("exit %d: %s", cmd.ProcessState.ExitCode(), out)
	}
	text, err := os.ReadFile(file)
	must(t, err)
	return string(text)
}

// alike removes from a line of text what differs from run to run.
func alike(line string, denials bool) string {
	for pattern, same := range map[string]string{
		`^\S+Z `: "TIME ", `\b[0-9a-f]{16}\b`: "SESSION", `\[\d+\]`: "[PID]", `\d[0-9.]*m?s, `: "WALL, ",
	} {
		line = regexp.MustCompile(pattern).ReplaceAllString(line, same)
	}
	if !denials {
		line = strings.Replace(line, "5 denials", "0 denials", 1)
	}
	return line
}

// record parses an event in JSON and removes what differs from run to run.
func record(t *testing.T, line string) map[string]any {
	t.Helper()
	var e map[string]any
	if err := json.Unmarshal([]byte(line), &e); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	same(e)
	return e
}

var differs = regexp.MustCompile(`^(time|start_time|end_time|uid|pid|correlation_uid|boot|session|digest|hostname)$`)

func same(o map[string]any) {
	for k, v := range o {
		if in, ok := v.(map[string]any); ok {
			same(in)
		} else if differs.MatchString(k) {
			o[k] = "…"
		}
	}
}
