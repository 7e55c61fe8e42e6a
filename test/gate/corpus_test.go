//go:build linux

package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// corpus is what the files in testdata have: policies, and rows under them.
type corpus struct {
	policies map[string]string
	sections []section
}

// section has the rows of one file that are judged by one process.
type section struct {
	file, policy string
	flags        []string
	matrix       bool // each row is a path, by each of the section's tools
	rows         []row
}

// row is a call with its right answer.
type row struct {
	line             int
	decision, reason string
	capability, path string
	risk, declared   string
	texts            []string // one of them is in the message
	tool             string
	arguments        json.RawMessage
	more             map[string]json.RawMessage
	command          string // of a call of Bash
}

// readCorpus reads all files but the one of everyday commands, which has no answers.
func readCorpus(t testing.TB, s *scene) *corpus {
	t.Helper()
	c := &corpus{policies: map[string]string{}}
	files, err := filepath.Glob("testdata/*.txt")
	must(t, err)
	for _, file := range files {
		if filepath.Base(file) != "everyday.txt" {
			must(t, c.read(s, file))
		}
	}
	for name, text := range c.policies {
		s.write(t, name, text)
	}
	return c
}

func (c *corpus) read(s *scene, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	policy := ""
	var in *section
	var tools []matrixTool
	for i, line := range strings.Split(string(text), "\n") {
		head := strings.Fields(line)
		switch {
		case len(head) >= 3 && head[0] == "==" && head[1] == "policy":
			policy, in = head[2], nil
			if c.policies[policy] != "" {
				return fmt.Errorf("%s:%d: another policy is named %s", file, i+1, policy)
			}
		case len(head) >= 3 && head[0] == "==" && head[1] == "calls":
			c.sections = append(c.sections, section{file: strings.TrimSuffix(filepath.Base(file), ".txt"), policy: head[2], flags: head[3:]})
			policy, in, tools = "", &c.sections[len(c.sections)-1], nil
		case len(head) >= 3 && head[0] == "==" && head[1] == "matrix":
			c.sections = append(c.sections, section{file: strings.TrimSuffix(filepath.Base(file), ".txt"), policy: head[2], matrix: true})
			policy, in, tools = "", &c.sections[len(c.sections)-1], nil
		case policy != "":
			c.policies[policy] += line + "\n"
		case line == "" || line[0] == '#':
		case in == nil:
			return fmt.Errorf("%s:%d: a row without a policy", file, i+1)
		case in.matrix && head[0] == "tool":
			tools = append(tools, parseMatrixTool(line))
		default:
			if in.matrix {
				rows, err := parseForm(s.expand(line), tools)
				if err != nil {
					return fmt.Errorf("%s:%d: %w", file, i+1, err)
				}
				for j := range rows {
					rows[j].line = i + 1
				}
				in.rows = append(in.rows, rows...)
				continue
			}
			r, err := parseRow(s.expand(line))
			if err != nil {
				return fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
			r.line = i + 1
			in.rows = append(in.rows, r)
		}
	}
	return nil
}

func parseRow(line string) (r row, err error) {
	head, rest, ok := strings.Cut(line, " | ")
	if !ok {
		return r, fmt.Errorf("no call in %q", line)
	}
	if err := r.parseHead(head); err != nil {
		return r, err
	}
	if command, ok := strings.CutPrefix(rest, "$ "); ok {
		r.command = strings.NewReplacer("↵", "\n", "␠", " ").Replace(command)
		r.tool = "Bash"
		r.arguments, err = json.Marshal(map[string]string{"command": r.command})
		return r, err
	}
	if r.tool, rest, ok = strings.Cut(rest, " | "); !ok {
		return r, fmt.Errorf("no arguments in %q", line)
	}
	rest = strings.ReplaceAll(rest, "␠", " ")
	d := json.NewDecoder(strings.NewReader(rest))
	if err := d.Decode(&r.arguments); err != nil {
		return r, err
	}
	if rest = strings.TrimSpace(rest[d.InputOffset():]); rest != "" {
		return r, json.Unmarshal([]byte(strings.TrimPrefix(rest, "| ")), &r.more)
	}
	return r, nil
}

func (r *row) parseHead(head string) error {
	for first := true; ; first = false {
		if head = strings.TrimSpace(head); head == "" {
			break
		}
		if head[0] == '"' {
			quoted, err := strconv.QuotedPrefix(head)
			if err != nil {
				return err
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return err
			}
			r.texts = append(r.texts, text)
			head = head[len(quoted):]
			continue
		}
		var word string
		word, head, _ = strings.Cut(head, " ")
		switch {
		case first:
			r.decision = word
		case strings.HasPrefix(word, "cap="):
			r.capability = word[4:]
		case strings.HasPrefix(word, "path="):
			r.path = word[5:]
		case strings.HasPrefix(word, "risk="):
			r.risk = word[5:]
		case strings.HasPrefix(word, "declared="):
			r.declared = word[9:]
		default:
			r.reason = word
		}
	}
	if !slices.Contains([]string{"allow", "deny", "ask", "!allow"}, r.decision) {
		return fmt.Errorf("%q is no decision", r.decision)
	}
	if r.decision == "ask" && r.reason != "approval_required" && r.texts == nil {
		return fmt.Errorf("a row with ask names the word that was not understood, unless a rule asks")
	}
	return nil
}

// call is the row's call as JSON.
func (r *row) call(id string) []byte {
	call := map[string]any{"id": id, "tool": r.tool, "arguments": r.arguments}
	for key, value := range r.more {
		call[key] = value
	}
	text, err := json.Marshal(call)
	if err != nil {
		panic(err)
	}
	return text
}

// TestCorpus: each call gets the answer that its row names.
func TestCorpus(t *testing.T) {
	s := newScene(t)
	c := readCorpus(t, s)
	count := 0
	for _, sec := range c.sections {
		count += len(sec.rows)
		t.Run(sec.file+"/"+strings.Join(append([]string{sec.policy}, sec.flags...), "_"), func(t *testing.T) {
			answers := s.answers(t, &sec)
			for i, r := range sec.rows {
				for _, wrong := range append(r.wrong(answers[i]), answers[i].malformed(s)...) {
					t.Errorf("%s.txt:%d: %s\n  %s %s\n  %s", sec.file, r.line, wrong, r.tool, r.shown(), answers[i])
				}
			}
		})
	}
	if count < 300 {
		t.Errorf("only %d calls", count)
	}
	t.Logf("%d calls in %d sections, under %d policies", count, len(c.sections), len(slices.Collect(maps.Keys(c.policies))))
}

func (r *row) shown() string {
	if r.command != "" {
		return r.command
	}
	return string(r.arguments)
}

// answers are those of one process to the rows of a section.
func (s *scene) answers(t testing.TB, sec *section) []*answer {
	t.Helper()
	var in bytes.Buffer
	for i, r := range sec.rows {
		in.Write(append(r.call(fmt.Sprint(i)), '\n'))
	}
	out := run(t, s.gate(sec.policy, append([]string{"--batch"}, sec.flags...)...), in.Bytes())
	if out.code != 0 {
		t.Fatalf("exit status %d: %s\n%.2000s", out.code, out.stderr, out.stdout)
	}
	all := parseAnswers(t, out.stdout)
	if len(all) != len(sec.rows) {
		t.Fatalf("%d answers to %d calls: %s", len(all), len(sec.rows), out.stderr)
	}
	for i := range sec.rows {
		if all[i].ID == nil || *all[i].ID != fmt.Sprint(i) {
			t.Fatalf("answer %d has the id %v", i, all[i].ID)
		}
	}
	return all
}

// wrong lists what an answer has that the row doesn't.
func (r *row) wrong(a *answer) (list []string) {
	if a.Decision != r.decision && (r.decision != "!allow" || a.Decision == "allow") {
		list = append(list, fmt.Sprintf("%s, and not %s", a.Decision, r.decision))
	}
	for _, x := range []struct{ name, got, want string }{
		{"reason", a.Reason, r.reason},
		{"capability", a.Capability, r.capability},
		{"metadata.path", a.Metadata.Path, r.path},
		{"risk", a.Risk, r.risk},
		{"declared", fmt.Sprint(a.Declared != nil && *a.Declared), r.declared},
	} {
		escapes := x.want == "escape" && (x.got == "workspace_escape" || x.got == "outside_workspace")
		if x.want != "" && x.got != x.want && !escapes {
			list = append(list, fmt.Sprintf("the %s is %q, and not %q", x.name, x.got, x.want))
		}
	}
	if r.texts != nil && !slices.ContainsFunc(r.texts, func(text string) bool {
		return strings.Contains(a.Message, text) || strings.Contains(a.Message, strings.Trim(strconv.Quote(text), `"`))
	}) {
		list = append(list, fmt.Sprintf("the message has none of %q", r.texts))
	}
	return list
}
