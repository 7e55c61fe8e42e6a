//go:build linux

package attacks

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/daemontest"
)

// backend is a backend under which the attacks run.
type backend struct {
	name     string
	rows     func() []attack         // the rows for it, with its results
	reported func(user, wanted) bool // whether a denial has this event
	flags    func(user) []string
}

var (
	// bare is none: the attack without toolguard.
	bare = &backend{rows: rows}

	landlock = &backend{
		name: "landlock",
		rows: func() (list []attack) {
			abi := landlockABI()
			for _, a := range rows() {
				if (a.more == "" || a.anywhere) && abi >= a.from && (a.below == 0 || abi < a.below) {
					list = append(list, a)
				}
			}
			return list
		},
		reported: func(u user, w wanted) bool { // other users can't read the records: a stated gap
			return u.ID == 0 && w.who != "nobody" && landlockABI() >= 7 && auditMissing() == ""
		},
		flags: func(user) []string { return []string{"--backend", "landlock"} },
	}

	bpf = &backend{
		name: "bpf",
		rows: func() (list []attack) {
			for _, a := range rows() {
				if a.below == 0 { // it sees all that Landlock came to see later
					list = append(list, a.underBPF())
				}
			}
			return list
		},
		reported: func(u user, w wanted) bool {
			return (w.who == "" || w.who == u.Name) && (w.below == 0 || landlockABI() < w.below)
		},
		flags: func(u user) []string {
			if u.ID == 0 {
				return []string{"--backend", "bpf", "--daemon", "none"}
			}
			return []string{"--backend", "bpf", "--daemon", "require"}
		},
	}
)

// wrapped is the backend of a program that makes namespaces. Mounts deny with errors of their own, and report nothing; so all that counts is that
// what must be denied is. Rows with rules that it refuses are in TestConfinedWrapped's log.
func wrapped(name string) *backend {
	return &backend{
		name: name,
		rows: func() (list []attack) {
			for _, a := range landlock.rows() {
				list = append(list, a.loosened())
			}
			for _, a := range rows() {
				if a.more != "" && !a.anywhere {
					list = append(list, a.loosened())
				}
			}
			return list
		},
		reported: func(user, wanted) bool { return false },
		flags:    func(user) []string { return []string{"--backend", name} },
	}
}

// anyDenial is the result of an attempt that may fail in any way, anything that of one that a stated gap of landlock lets through.
const anyDenial, anything = "any denial", "anything"

// loosened is the attack with any denial instead of certain ones.
func (a attack) loosened() attack {
	tries := make([]try, len(a.tries))
	for i, y := range a.tries {
		root, ordinary, both := strings.Cut(y.confined, " / nobody ")
		loose := func(want string) string {
			switch {
			case a.gap != "" || slices.Contains(otherwise[a.prog], y.name) || strings.HasPrefix(want, ok+" "):
				return anything
			case want != ok:
				return anyDenial
			}
			return want
		}
		if y.confined = loose(root); both {
			y.confined += " / nobody " + loose(ordinary)
		}
		tries[i] = y
	}
	a.tries = tries
	if a.prog == "background" { // it names its process by a number in its own PID namespace; package launch has this test
		a.after = nil
	}
	return a
}

// otherwise are attempts, by their program, that end in another way within a wrapper.
var otherwise = map[string][]string{
	"threads_trace": {"has-threads", "oom_score_adj"}, // of the wrapper's process, which isn't toolguard
	"carve_out":     {"through"},                      // a symlink in a hidden folder can't be followed: stricter
	"git_hooks":     {"prepared", "nested"},           // only what exists at the start is protected: reported
}

// underBPF is the attack with its results under the bpf backend.
func (a attack) underBPF() attack {
	tries := make([]try, len(a.tries))
	for i, y := range a.tries {
		if other, ok := a.bpf[y.name]; ok {
			y.confined, y.event = other.confined, other.event
		}
		tries[i] = y
	}
	a.tries, a.gap = tries, a.bpfGap
	return a
}

// serve starts toolguardd, which lends ordinary users the programs of the bpf backend.
func serve(t *testing.T) {
	t.Helper()
	daemontest.Serve(t, filepath.Join(built.dir, "toolguardd"))
}
