package seccomp

import (
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// Filter is one assembled program.
type Filter struct {
	Program []unix.SockFilter
	Silent  bool // its denials leave no record
}

// FullMediation is the ABI of a backend that also decides about everything that Landlock doesn't.
const FullMediation = 100

// Backend describes the session's other mechanisms. The filters enforce what these don't.
type Backend struct {
	ABI    int  // of the kernel's Landlock, or FullMediation
	Net    bool // another mechanism decides about each address and port
	Sealed bool // memory files aren't executable without MFD_EXEC
}

// Filters returns the programs that enforce c, in the order of loading. It fails for a policy that Validate rejects.
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
		if nr, ok := m.number(rules[i].name); ok { // otherwise the architecture doesn't have the call
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

// table is a filter's result for each call in the tables, by number. It is large for a stack, so all filters share one.
type table [newest + 1]leaf

func (t *table) clear() {
	for i := range t {
		t[i] = allowed
	}
}

// native returns the machine that this program runs on.
func native() (machine, error) {
	switch runtime.GOARCH {
	case "amd64":
		return amd64, nil
	case "arm64":
		return arm64, nil
	}
	return 0, fmt.Errorf("no system call filters for the architecture %s: amd64 and arm64 are supported", runtime.GOARCH)
}

// leaf returns a filter's result for the call.
func (r *denial) leaf() leaf {
	if r.when == nil {
		return leaf{action: retErrno(r.errno)}
	}
	return leaf{rule: r}
}

// newerAllowed returns the allowed numbers beyond the tables: the harmless ones and those that the policy allows, without those
// that it denies.
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

// auditArch returns the AUDIT_ARCH_ value of a machine.
func (m machine) auditArch() uint32 {
	if m == arm64 {
		return archAARCH64
	}
	return archX8664
}
