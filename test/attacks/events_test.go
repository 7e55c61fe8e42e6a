//go:build linux

package attacks

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// wanted describes the event of a denial. Empty fields aren't compared.
type wanted struct {
	resource, capability, target, rule string
	reasons                            []string
	none                               string // why there is no event
	who                                string // the user whose denial has the event; "" for every user
	below                              int    // Landlock's ABI from which on it denies that itself; 0: it doesn't
}

// fsEvent is the event of a denied file operation. Reasons are separated by spaces.
func fsEvent(capability, target, reasons string) wanted {
	return wanted{resource: "fs", capability: capability, target: target, reasons: strings.Fields(reasons)}
}

// by adds the rule that decided.
func (w wanted) by(rule string) wanted {
	w.rule = rule
	return w
}

// on adds the target.
func (w wanted) on(target string) wanted {
	w.target = target
	return w
}

// as limits the event to a user, where the kernel denies the other user's attempt before any LSM is called.
func (w wanted) as(user string) wanted {
	w.who = user
	return w
}

// callEvent is the event of a denied system call. Its resource is the one that the call is denied for.
func callEvent(name string) wanted {
	return wanted{capability: name, reasons: []string{"syscall_denied"}}
}

// commandEvent is the event of a program that wasn't to be executed.
func commandEvent(program, reason string) wanted {
	return wanted{resource: "commands", capability: "execute", target: program, reasons: []string{reason}}
}

// signalEvent is the event of a denied signal to a process, by its name.
func signalEvent(name string) wanted {
	return wanted{target: name, reasons: []string{"syscall_denied"}}
}

// bpfEvent is the event of an operation that the BPF programs deny to every session.
func bpfEvent(capability string) wanted {
	return wanted{resource: "always", capability: capability, reasons: []string{"syscall_denied"}}
}

// noEvent is the reason why a denial has no event.
func noEvent(why string) wanted { return wanted{none: why} }

// seen has the fields of an event that a test compares.
type seen struct{ Resource, Capability, Target, Rule, Reason string }

// witness looks for the event of each attempt, where the kernel's records can be read.
func (s *scene) witness(t *testing.T, a attack) {
	t.Helper()
	var events []seen
	for _, y := range a.tries {
		if y.event.none != "" || !s.backend.reported(s.user, y.event) {
			continue
		}
		if events == nil {
			events = s.events(t)
		}
		want := y.event
		want.target = s.expand(want.target)
		if !slices.ContainsFunc(events, want.fits) {
			t.Errorf("%s: no event fits %+v among\n%+v", y.name, want, events)
		}
	}
}

func (w wanted) fits(e seen) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	return same(w.resource, e.Resource) && same(w.capability, e.Capability) && same(w.target, e.Target) &&
		same(w.rule, e.Rule) && (len(w.reasons) == 0 || slices.Contains(w.reasons, e.Reason))
}

// events reads the denials that the run left.
func (s *scene) events(t *testing.T) []seen {
	t.Helper()
	f, err := os.Open(s.vars["EVENTS"])
	must(t, err)
	defer f.Close()
	var all []seen
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ Unmapped seen }
		var start struct {
			Unmapped struct {
				Removed []string `json:"removed_env"`
			}
		}
		must(t, json.Unmarshal(lines.Bytes(), &e))
		must(t, json.Unmarshal(lines.Bytes(), &start))
		all = append(all, e.Unmapped)
		for _, name := range start.Unmapped.Removed {
			all = append(all, seen{Resource: "env", Target: name})
		}
	}
	must(t, lines.Err())
	return all
}

// landlockABI is the kernel's; 0 where there is no Landlock.
func landlockABI() int {
	abi, _, err := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if err != 0 {
		return 0
	}
	return int(abi)
}

// auditMissing is the reason why the kernel's records can't be read here; "" if they can.
func auditMissing() string {
	if os.Getuid() != 0 {
		return "needs root"
	}
	if _, err := os.Stat("/proc/self/loginuid"); err != nil {
		return "needs a kernel with audit"
	}
	return ""
}
