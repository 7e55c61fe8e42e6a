//go:build linux

package net

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// semantics is a policy of testdata/semantics.txt with its decisions.
type semantics struct {
	title          string
	access, global scope
	rows           []semanticsRow
}

// scope is an authority's [access].
type scope struct{ lines, rules string }

func (s *scope) add(line string) {
	if strings.HasPrefix(line, "{") {
		s.rules += line + ", "
	} else {
		s.lines += line + "\n"
	}
}

func (s *scope) toml() string {
	if s.rules == "" {
		return s.lines
	}
	return s.lines + "net = [" + s.rules + "]\n"
}

type semanticsRow struct {
	line           string
	verdict, by    string // allow, deny, error; the rule, or the reason without one
	event          string // in the session's event; "": allowed; "none": denied without an event
	method, target string
	via            string
}

// readSemantics reads the blocks.
func readSemantics(t *testing.T) (all []semantics) {
	t.Helper()
	text, err := os.ReadFile("testdata/semantics.txt")
	must(t, err)
	for i, block := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
		if i == 0 {
			continue // the format
		}
		var s semantics
		for line := range strings.Lines(block) {
			line = strings.TrimSpace(line)
			switch word, rest, _ := strings.Cut(line, " "); word {
			case "#":
				s.title += rest
			case "access":
				s.access.add(rest)
			case "global":
				s.global.add(rest)
			case "{":
				s.access.add(line)
			default:
				s.rows = append(s.rows, newSemanticsRow(line))
			}
		}
		all = append(all, s)
	}
	return all
}

func newSemanticsRow(line string) semanticsRow {
	words := strings.Fields(line)
	r := semanticsRow{line: line, verdict: words[0], by: words[1]}
	if words = words[2:]; words[0] == "event" {
		r.event, words = words[1], words[2:]
	} else if r.verdict != "allow" {
		r.event = r.by
	}
	if !strings.Contains(words[0], "://") {
		r.method, words = words[0], words[1:]
	}
	if r.target = strings.NewReplacer(`\0`, "\x00", `\n`, "\n").Replace(words[0]); len(words) == 3 {
		r.via = words[2]
	}
	return r
}

// check and a session's enforcement (egress and the kernel) decide alike.
func TestSemantics(t *testing.T) {
	for _, s := range readSemantics(t) {
		t.Run(strings.ReplaceAll(s.title, " ", "_"), func(t *testing.T) {
			t.Parallel()
			needs(t, "python3")
			s.compare(t)
		})
	}
}

func (s *semantics) compare(t *testing.T) {
	p := newFixture(t, s.access.toml(), "[authorities.global.access]\n"+s.global.toml())
	text, err := os.ReadFile("testdata/semantics.py")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(p.workspace, "try.py"), text, 0o600))
	bare, got := s.run(t, p.command("/usr/bin/python3 try.py")), s.run(t, p.confined("/usr/bin/python3 try.py"))
	events := p.denials()
	for i, a := range s.check(t, p) {
		r := &s.rows[i]
		if (a.Error != "") != (r.verdict == "error") || r.verdict != "error" && (a.Decision != r.verdict || a.by() != r.by) {
			t.Errorf("%s: check: %+v", r.line, a)
		}
		if bare[i] != "reached" {
			t.Errorf("%s: without toolguard: %s", r.line, bare[i])
		}
		if reached := got[i] == "reached"; reached != (r.event == "") {
			t.Errorf("%s: in a session: %s", r.line, got[i])
		}
		if reported := slices.ContainsFunc(events, func(e reported) bool { return r.matches(e, a.Target) }); reported != (r.event != "" && r.event != "none") {
			t.Errorf("%s: an event: %v, among %q", r.line, reported, events)
		}
	}
}

// checked is an answer of check.
type checked struct {
	Decision, Reason, Target, Error string
	Rule                            struct{ ID string }
}

func (a *checked) by() string {
	if a.Rule.ID != "" {
		return a.Rule.ID
	}
	return a.Reason
}

// check returns check's answers for all rows.
func (s *semantics) check(t *testing.T, p *fixture) (all []checked) {
	t.Helper()
	var in, out bytes.Buffer
	for i, r := range s.rows {
		action := r.method
		if action == "" {
			action = "connect"
		}
		fmt.Fprintf(&in, `{"id":%d,"resource":"net","action":%q,"target":%q}`+"\n", i, action, r.target)
	}
	cmd := exec.Command(binary, "check", "--policy", p.policy, "--batch")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.workspace, &in, &out, &out
	_ = cmd.Run() // its exit status is that of the worst answer
	for line := range strings.Lines(out.String()) {
		var a checked
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
		all = append(all, a)
	}
	if len(all) != len(s.rows) {
		t.Fatalf("check gives %d answers to %d questions: %s", len(all), len(s.rows), out.String())
	}
	return all
}

// run returns the results of all rows in a session, or without toolguard.
func (s *semantics) run(t *testing.T, cmd *exec.Cmd) []string {
	t.Helper()
	var in bytes.Buffer
	for _, r := range s.rows {
		line, err := json.Marshal(map[string]string{"method": r.method, "target": r.target, "via": r.via})
		must(t, err)
		in.Write(append(line, '\n'))
	}
	cmd.Stdin = &in
	output := outcomeOf(t, cmd).output
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if len(lines) != len(s.rows) {
		t.Fatalf("%d attempts have %d outcomes: %s", len(s.rows), len(lines), output)
	}
	return lines
}

// matches reports whether an event belongs to the row and has its reason. The event's target is check's target, or it with the path as it was
// sent or without one, or the query for the host's addresses, or one of these.
func (r *semanticsRow) matches(e reported, target string) bool {
	u := e.Unmapped
	if r.verdict == "error" {
		return u.Reason == r.event
	}
	names := []string{target}
	if to, err := url.Parse(target); err == nil {
		host, port := to.Hostname(), to.Port()
		_, path, _ := strings.Cut(strings.SplitN(r.target, "://", 2)[1], "/")
		names = append(names, to.Scheme+"://"+to.Host, to.Scheme+"://"+to.Host+"/"+path, "dns://"+host)
		network := "tcp"
		if to.Scheme == "udp" {
			network = "udp"
		}
		for _, ip := range addrsOf(host) {
			names = append(names, network+"://"+net.JoinHostPort(ip, port))
		}
	}
	if !slices.Contains(names, strings.TrimSuffix(u.Target, "/")) && !slices.Contains(names, u.Target) {
		return false
	}
	if r.event == "" {
		return true
	}
	return u.Rule == r.event || u.Rule == "" && (u.Reason == r.event || r.event == "host_not_listed" && u.Reason == "dns_denied")
}
