//go:build linux

package attacks

import (
	"path/filepath"
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
			return u.uid == 0 && w.who != "nobody" && landlockABI() >= 7 && auditMissing() == ""
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
			return (w.who == "" || w.who == u.name) && (w.below == 0 || landlockABI() < w.below)
		},
		flags: func(u user) []string {
			if u.uid == 0 {
				return []string{"--backend", "bpf", "--daemon", "none"}
			}
			return []string{"--backend", "bpf", "--daemon", "require"}
		},
	}
)

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
