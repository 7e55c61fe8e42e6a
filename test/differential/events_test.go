//go:build linux && amd64

package differential

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// denial has the fields of a denial's event.
type denial struct{ target, rule, reason string }

func (w want) denial(c *policy.Compiled) denial {
	d := denial{reason: string(w.Reason)}
	if w.Reason == policy.NoRule && !within(w.target, c.Workspace) {
		d.reason = string(policy.OutsideWorkspace)
	}
	if w.Reason != policy.PathUnresolved { // then the kernel has at most a part of the path
		d.target = text(w.target)
	}
	if a := explain.Describe(c, w.Verdict, policyQuestion(w), ""); a.Rule != nil {
		d.rule = a.Rule.ID
	}
	return d
}

// counts returns how often each denial is reported, and how many events were lost.
func (x *session) counts() (got map[denial]int, lost int) {
	x.t.Helper()
	f, err := os.Open(x.events)
	must(x.t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	got = map[denial]int{}
	for lines.Scan() {
		d, n, gap, err := x.event(lines.Bytes())
		must(x.t, err)
		if lost += gap; n > 0 {
			got[d] += n
		}
	}
	return got, lost
}

// reported compares the events with the denials.
func (x *session) reported() {
	x.t.Helper()
	got, lost := x.counts()
	missing := 0
	for d, n := range x.denials {
		missing += max(0, n-got[d])
		if got[d] > n || missing > lost {
			x.t.Errorf("%d events instead of %d of %s, rule %q, reason %s, for %v", got[d], n, short(d.target), d.rule, d.reason, x.asked[d])
		}
		delete(got, d)
	}
	if lost > 0 {
		x.t.Logf("%d denials not reported, %d events counted as lost", missing, lost)
	}
	for d, n := range got {
		x.t.Errorf("%d events too many of %s, rule %q, reason %s", n, short(d.target), d.rule, d.reason)
	}
}

// unexpected returns the reported denials that weren't expected, after the session's end.
func (x *session) unexpected() string {
	got, lost := x.counts()
	for d, n := range got {
		if n <= x.denials[d] {
			delete(got, d)
		}
	}
	return fmt.Sprintf("%#v; %d events were lost", got, lost)
}

// event parses a line. It returns the denial and its count, 0 if it isn't about the tree; or the number of lost events: the kernel's
// buffer is small, and the reader may be slow.
func (x *session) event(line []byte) (d denial, n, lost int, err error) {
	var e struct {
		Count    int
		Unmapped struct {
			Kind                           event.Kind
			Resource, Target, Rule, Reason string
		}
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return d, 0, 0, err
	}
	u := e.Unmapped
	d = denial{unnamed(u.Target), u.Rule, u.Reason}
	switch {
	case u.Kind == event.Gap:
		return d, 0, e.Count, nil
	case u.Resource != policy.FS.String():
		return d, 0, 0, nil
	case u.Reason == string(policy.PathUnresolved):
		d.target = ""
	case !strings.HasPrefix(u.Target, x.root) && x.denials[d] == 0: // an access of the process's own; a symlink may lead out of the tree
		return d, 0, 0, nil
	}
	return d, max(1, e.Count), 0, nil
}

// unnamed replaces the kernel's names of files without one.
func unnamed(path string) string {
	if dir, name := filepath.Split(path); strings.HasPrefix(name, "#") {
		return dir + "#0"
	}
	return path
}

// text returns a path in the form of JSON.
func text(path string) string { return string([]rune(path)) }
