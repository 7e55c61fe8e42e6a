package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// toolguard builds the real binary for a test.
func toolguard(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "toolguard")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", bin, "./cmd/toolguard")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build toolguard: %v\n%s", err, out)
	}
	return bin
}

// block is a fenced block of a document.
type block struct {
	line       int
	lang, text string
}

func blocks(t *testing.T, name string) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	must(t, err)
	var all []block
	var in *block
	for i, line := range strings.Split(string(text), "\n") {
		switch lang, fence := strings.CutPrefix(line, "```"); {
		case fence && in == nil:
			in = &block{line: i + 1, lang: lang}
		case fence:
			all, in = append(all, *in), nil
		case in != nil:
			in.text += line + "\n"
		}
	}
	return all
}

// TestPolicyDocument runs the examples of the pages about policies: their files are written, must have no errors, and every question
// in them must get the answer that the page gives.
func TestPolicyDocument(t *testing.T) {
	for page, questions := range map[string]int{"docs/policy.md": 20, "docs/git.md": 7} {
		t.Run(page, func(t *testing.T) { checkExamples(t, page, questions) })
	}
}

// TestToolDocument runs the examples of the page about tools: their files are written, must have no errors, and each call in them must get
// the answer that the page gives.
func TestToolDocument(t *testing.T) {
	bin, dir := toolguard(t), t.TempDir()
	for _, name := range []string{".git", "src"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	calls := 0
	for _, b := range blocks(t, "docs/tools.md") {
		switch b.lang {
		case "toml":
			name, _, _ := strings.Cut(strings.TrimPrefix(b.text, "# file: "), "\n")
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(b.text), 0o644))
			if out, code := run(t, dir, bin, "policy", "lint", name); code != 0 {
				t.Errorf("line %d: %s:\n%s", b.line, name, out)
			}
		case "calls":
			calls += gateCalls(t, b, dir, bin)
		}
	}
	if calls < 20 {
		t.Errorf("only %d calls found", calls)
	}
}

// gateCalls makes the calls of a block: a command, then lines with the expected answer and the call.
func gateCalls(t *testing.T, b block, dir, bin string) (n int) {
	lines := strings.Split(strings.TrimSpace(b.text), "\n")
	for i, line := range lines[1:] {
		want, call, _ := strings.Cut(line, " {")
		cmd := exec.Command(bin, strings.Fields(lines[0])...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader("{"+call)
		out, _ := cmd.Output()
		var answer struct {
			Decision, Reason string
			Ended            bool
		}
		if err := json.Unmarshal(out, &answer); err != nil {
			t.Errorf("line %d: %s: %v", b.line+2+i, out, err)
		}
		got := answer.Decision + " " + answer.Reason
		if answer.Ended {
			got = "ended"
		}
		if got != want {
			t.Errorf("line %d: %s\nwant %s, got %s", b.line+2+i, line, want, out)
		}
		n++
	}
	return n
}

func checkExamples(t *testing.T, page string, least int) {
	bin := toolguard(t)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o755); err != nil { // the marker of a workspace
		t.Fatal(err)
	}
	named := regexp.MustCompile(`^# file: (\S+)\n`)
	asked := 0
	for _, b := range blocks(t, page) {
		switch b.lang {
		case "toml":
			m := named.FindStringSubmatch(b.text)
			if m == nil {
				t.Fatalf("line %d: no file name", b.line)
			}
			must(t, os.WriteFile(filepath.Join(dir, m[1]), []byte(b.text), 0o644))
			if out, code := run(t, dir, bin, "policy", "lint", m[1]); code != 0 {
				t.Errorf("line %d: %s:\n%s", b.line, m[1], out)
			}
		case "console":
			asked += ask(t, b, dir, bin)
		}
	}
	if asked < least {
		t.Errorf("only %d questions found", asked)
	}
}

// ask runs "$ toolguard …" lines, each followed by the decision and, for a denial, its reason.
func ask(t *testing.T, b block, dir, bin string) (asked int) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(b.text), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		command, ok := strings.CutPrefix(lines[i], "$ toolguard ")
		if !ok {
			t.Fatalf("line %d: %q isn't a question", b.line+1+i, lines[i])
		}
		out, _ := run(t, dir, bin, strings.Fields(command)...)
		decision, reason, _ := strings.Cut(lines[i+1], " ")
		if !strings.HasPrefix(out, decision+" ") || reason != "" && !strings.Contains(out, "("+reason+")") {
			t.Errorf("line %d: %s\nwant %s, got\n%s", b.line+1+i, command, lines[i+1], out)
		}
		asked++
	}
	return asked
}

func run(t *testing.T, dir, bin string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(bin, args...)
	cmd.Dir = dir
	var b bytes.Buffer
	cmd.Stdout, cmd.Stderr = &b, &b
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return b.String(), cmd.ProcessState.ExitCode()
}

// TestReasons checks that docs/policy.md has all reasons of the code.
func TestReasons(t *testing.T) {
	code, err := os.ReadFile(filepath.Join(root, "internal/policy/vocabulary.go"))
	must(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs/policy.md"))
	must(t, err)
	reasons := regexp.MustCompile(`Reason\s+= "([a-z_]+)"|\s+Reason = "([a-z_]+)"`).FindAllStringSubmatch(string(code), -1)
	if len(reasons) < 20 {
		t.Fatalf("only %d reasons found", len(reasons))
	}
	for _, r := range reasons {
		if name := r[1] + r[2]; !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/policy.md doesn't explain %s", name)
		}
	}
}

// TestExamples runs lint on every policy in examples/, and a dry run, which must promise to start.
func TestExamples(t *testing.T) {
	bin := toolguard(t)
	files, err := filepath.Glob(filepath.Join(root, "examples/*.toml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, f := range files {
		f, err := filepath.Abs(f)
		must(t, err)
		t.Run(filepath.Base(f), func(t *testing.T) {
			dir := t.TempDir()
			if out, code := run(t, dir, bin, "policy", "lint", f); code != 0 {
				t.Errorf("lint: %s", out)
			}
			if !hasLandlock() {
				t.Skip("needs landlock")
			}
			if out, code := run(t, dir, bin, "exec", "--policy", f, "--workspace", dir, "--dry-run"); code != 0 {
				t.Errorf("dry run: exit %d\n%s", code, out)
			}
		})
	}
}

func hasLandlock() bool {
	if runtime.GOOS != "linux" {
		return false
	}
	const createRuleset, askVersion = 444, 1 // landlock_create_ruleset(2), the same number everywhere
	abi, _, err := syscall.Syscall(createRuleset, 0, 0, askVersion)
	return err == 0 && abi >= 1
}
