package seccomp

import (
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// Filter is one assembled program, ready for the kernel.
type Filter struct {
	Program []unix.SockFilter
	Silent  bool // what it refuses leaves no record
}

// FullMediation is for a backend that sees all that Landlock doesn't, in place of an ABI.
const FullMediation = 100

// Backend are those who hold the session beside the filters, and leave the rest to them.
type Backend struct {
	ABI    int  // of the kernel's Landlock, or Whole
	Net    bool // another mechanism decides about each address and port
	Sealed bool // memory files can't be executed where nobody asks for it
}

// Filters makes the programs that hold a session to c, in the order in which they are to be stacked. A policy that Validate refuses
// is an error.
func Filters(c *policy.Compiled, o Backend) ([]Filter, error) {
	if err := Validate(c); err != nil {
		return nil, err
	}
	m, err := native()
	if err != nil {
		return nil, err
	}
	rules, err := denials(c, o)
	if err != nil {
		return nil, err
	}
	var known table
	known.clear()
	for i := range rules {
		if nr, ok := m.number(rules[i].name); ok { // or it's no call of this architecture
			known[nr] = rules[i].leaf()
		}
	}
	loud, err := assemble(m.auditArch(), unix.SECCOMP_RET_KILL_PROCESS, spans(&known, beyondTable(newerAllowed(c))))
	if err != nil {
		return nil, err
	}
	silent, err := unloggedFilter(m, rules, &known)
	if err != nil {
		return nil, err
	}
	return []Filter{{Program: loud}, {Program: silent, Silent: true}}, nil
}

// table is what a filter answers to each call that the tables know, by number. It's large for a stack: one serves all filters.
type table [newest + 1]leaf

func (t *table) clear() {
	for i := range t {
		t[i] = allowed
	}
}

// native is the machine that this program runs on.
func native() (machine, error) {
	switch runtime.GOARCH {
	case "amd64":
		return amd64, nil
	case "arm64":
		return arm64, nil
	}
	return 0, fmt.Errorf("no system call filters for the architecture %s: it takes amd64 or arm64", runtime.GOARCH)
}

// leaf is what a filter answers to the refused call.
func (r *denial) leaf() leaf {
	if r.when == nil {
		return leaf{action: retErrno(r.errno)}
	}
	return leaf{rule: r}
}

// newerAllowed are the numbers beyond the tables that pass: the harmless ones and what the policy allows, without what it
// denies.
func newerAllowed(c *policy.Compiled) []int {
	var out []int
	for _, n := range newer {
		ok, declared := n.harmless, false
		for _, l := range c.Layers {
			if slices.Contains(l.Syscalls.Deny, n.name) {
				ok, declared = false, true
			} else if !declared && slices.Contains(l.Syscalls.Allow, n.name) {
				ok = true
			}
		}
		if ok {
			out = append(out, n.nr)
		}
	}
	return out
}
