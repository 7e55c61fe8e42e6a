//go:build linux && amd64

package differential

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
)

// denial is what an event tells.
type denial struct{ target, rule, reason string }

func (w want) denial(c *policy.Compiled) denial {
	d := denial{reason: string(w.Reason)}
	if w.Reason == policy.NoRule && !within(w.target, c.Workspace) {
		d.reason = string(policy.OutsideWorkspace)
	}
	if w.Reason != policy.PathUnresolved { // then the kernel knows a part of it at most
		d.target = text(w.target)
	}
	if a := c.Describe(w.Verdict, policyQuestion(w), ""); a.Rule != nil {
		d.rule = a.Rule.ID
	}
	return d
}

// told compares the events with the denials.
func (x *session) told() {
	x.t.Helper()
	f, err := os.Open(x.events)
	if err != nil {
		x.t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	got, lost, missing := map[denial]int{}, 0, 0
	for lines.Scan() {
		lost += gap(lines.Bytes())
		d, n, err := x.event(lines.Bytes())
		if err != nil {
			x.t.Fatal(err)
		}
		if n > 0 {
			got[d] += n
		}
	}
	for d, n := range x.denials {
		missing += max(0, n-got[d])
		if got[d] > n || missing > lost {
			x.t.Errorf("%d events instead of %d of %s, rule %q, reason %s, for %v", got[d], n, short(d.target), d.rule, d.reason, x.asked[d])
		}
		delete(got, d)
	}
	if lost > 0 {
		x.t.Logf("%d denials not told, %d events counted as lost", missing, lost)
	}
	for d, n := range got {
		x.t.Errorf("%d events too many of %s, rule %q, reason %s", n, short(d.target), d.rule, d.reason)
	}
}

// gap is how many events a line says are lost: the kernel's room for them is small, and a busy machine's reader slow.
func gap(line []byte) int {
	var e struct {
		Count    int
		Unmapped struct{ Kind event.Kind }
	}
	if json.Unmarshal(line, &e) != nil || e.Unmapped.Kind != event.Gap {
		return 0
	}
	return e.Count
}

// event is what an event tells, and how many denials it stands for: 0 for what isn't about the tree.
func (x *session) event(line []byte) (d denial, n int, err error) {
	var e struct {
		Count    int
		Unmapped struct{ Kind, Resource, Target, Rule, Reason string }
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return d, 0, err
	}
	u := e.Unmapped
	d = denial{unnamed(u.Target), u.Rule, u.Reason}
	switch {
	case u.Resource != policy.FS.String():
		return d, 0, nil
	case u.Reason == string(policy.PathUnresolved):
		d.target = ""
	case !strings.HasPrefix(u.Target, x.root) && x.denials[d] == 0: // the process's own doing; a symlink may lead out of the tree
		return d, 0, nil
	}
	return d, max(1, e.Count), nil
}

// last is the last denial that was told, once the session has ended.
func (x *session) last() (last denial) {
	told, _ := os.ReadFile(x.events)
	for line := range bytes.Lines(told) {
		if d, n, err := x.event(line); err == nil && n > 0 {
			last = d
		}
	}
	return last
}

// unnamed is the name that the expectation has for files without one, instead of the kernel's.
func unnamed(path string) string {
	if dir, name := filepath.Split(path); strings.HasPrefix(name, "#") {
		return dir + "#0"
	}
	return path
}

// text is a path as JSON can hold it.
func text(path string) string { return string([]rune(path)) }
