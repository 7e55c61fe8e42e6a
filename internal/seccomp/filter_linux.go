package seccomp

import (
	"fmt"
	"runtime"
	"slices"

	lib "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// Filter is one assembled program, ready for the kernel.
type Filter struct {
	Program []unix.SockFilter
	Silent  bool // what it refuses leaves no record
}

// Filters makes the programs that hold a session to c, in the order in which Load stacks them. abi is the
// kernel's Landlock ABI, which says what the filters must do because Landlock can't. A policy that Validate refuses is an
// error.
func Filters(c *policy.Compiled, abi int) ([]Filter, error) {
	if err := Validate(c); err != nil {
		return nil, err
	}
	info, err := native()
	if err != nil {
		return nil, err
	}
	rules, err := refusals(c, abi)
	if err != nil {
		return nil, err
	}
	var numbers [newest + 1]unix.Errno
	filters := make([]Filter, 1, 16)
	for _, r := range rules {
		nr, ok := info.SyscallNames[r.name]
		switch {
		case !ok: // not a call of this architecture
		case r.when == nil:
			numbers[nr] = r.errno
		default:
			f, err := byArguments(r)
			if err != nil {
				return nil, err
			}
			filters = append(filters, f)
		}
	}
	filters[0] = byNumber(info, &numbers, newerAllowed(c))
	silent, err := routine(rules)
	return append(filters, silent), err
}

// native is the table of this machine's architecture.
func native() (*arch.Info, error) {
	switch runtime.GOARCH {
	case "amd64":
		return arch.X86_64, nil
	case "arm64":
		return arch.AARCH64, nil
	}
	return nil, fmt.Errorf("no system call filters for the architecture %s: it takes amd64 or arm64", runtime.GOARCH)
}

func action(e unix.Errno) lib.Action { return lib.ActionErrno | lib.Action(e) }

// byArguments makes the filter of one call that is refused for some arguments: alone in its program, since the library's
// assembler can't do more safely (see the package comment).
func byArguments(r refusal) (Filter, error) {
	g := lib.SyscallGroup{Action: action(r.errno)}
	for _, set := range r.when {
		g.NamesWithCondtions = append(g.NamesWithCondtions,
			lib.NameWithConditions{Name: r.name, Conditions: lib.ArgumentConditions(set)})
	}
	return assemble(g)
}

// assemble makes a filter that allows what none of the groups refuses. Only the last group may have conditions.
func assemble(groups ...lib.SyscallGroup) (Filter, error) {
	p := lib.Policy{DefaultAction: lib.ActionAllow, Syscalls: groups}
	instructions, err := p.Assemble()
	if err != nil {
		return Filter{}, fmt.Errorf("assemble a system call filter: %w", err)
	}
	return pack(instructions)
}

// pack encodes instructions for the kernel.
func pack(instructions []bpf.Instruction) (Filter, error) {
	raw, err := bpf.Assemble(instructions)
	if err != nil {
		return Filter{}, fmt.Errorf("assemble a system call filter: %w", err)
	}
	f := Filter{Program: make([]unix.SockFilter, len(raw))}
	for i, r := range raw {
		f.Program[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return f, nil
}

// newerAllowed are the numbers beyond the tables that pass: the harmless ones and what the policy allows, without what it
// denies.
func newerAllowed(c *policy.Compiled) []int {
	var out []int
	for _, n := range newer {
		ok, spoke := n.harmless, false
		for _, l := range c.Layers {
			if slices.Contains(l.Syscalls.Deny, n.name) {
				ok, spoke = false, true
			} else if !spoke && slices.Contains(l.Syscalls.Allow, n.name) {
				ok = true
			}
		}
		if ok {
			out = append(out, n.nr)
		}
	}
	return out
}
