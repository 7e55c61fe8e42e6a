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
}

// Filters makes the programs that hold a session to c, in the order in which Load stacks them. abi is the
// kernel's Landlock ABI, which says what the filters must do because Landlock can't.
func Filters(c *policy.Compiled, abi int) ([]Filter, error) {
	info, err := native()
	if err != nil {
		return nil, err
	}
	rules, err := refusals(c, abi)
	if err != nil {
		return nil, err
	}
	rules = slices.DeleteFunc(rules, func(r refusal) bool {
		_, ok := info.SyscallNames[r.name]
		return !ok
	})
	var whole []lib.SyscallGroup
	var single []lib.SyscallGroup
	for _, r := range rules {
		if r.when == nil {
			whole = addWhole(whole, r)
		} else {
			single = append(single, conditionalGroup(r))
		}
	}
	first, err := assemble(append(whole, single[0]), prologue(info, newerAllowed(c)))
	if err != nil {
		return nil, err
	}
	filters := []Filter{first}
	for _, g := range single[1:] {
		next, err := assemble([]lib.SyscallGroup{g}, nil)
		if err != nil {
			return nil, err
		}
		filters = append(filters, next)
	}
	return filters, nil
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

func addWhole(groups []lib.SyscallGroup, r refusal) []lib.SyscallGroup {
	for i := range groups {
		if groups[i].Action == action(r.errno) {
			groups[i].Names = append(groups[i].Names, r.name)
			return groups
		}
	}
	return append(groups, lib.SyscallGroup{Names: []string{r.name}, Action: action(r.errno)})
}

// conditionalGroup is a group of one system call: the library's assembler can't do more safely (see the package comment).
func conditionalGroup(r refusal) lib.SyscallGroup {
	g := lib.SyscallGroup{Action: action(r.errno)}
	for _, set := range r.when {
		g.NamesWithCondtions = append(g.NamesWithCondtions,
			lib.NameWithConditions{Name: r.name, Conditions: lib.ArgumentConditions(set)})
	}
	return g
}

// assemble makes one program: at most the last group has conditions, and everything else is allowed.
func assemble(groups []lib.SyscallGroup, before []bpf.Instruction) (Filter, error) {
	for i, g := range groups {
		if len(g.NamesWithCondtions) > 0 && (i < len(groups)-1 || len(g.Names) > 0) {
			return Filter{}, fmt.Errorf("a system call with conditions isn't the last of its filter")
		}
	}
	p := lib.Policy{DefaultAction: lib.ActionAllow, Syscalls: groups}
	instructions, err := p.Assemble()
	if err != nil {
		return Filter{}, fmt.Errorf("assemble a system call filter: %w", err)
	}
	raw, err := bpf.Assemble(append(before, instructions...))
	if err != nil {
		return Filter{}, fmt.Errorf("assemble a system call filter: %w", err)
	}
	f := Filter{Program: make([]unix.SockFilter, len(raw))}
	for i, r := range raw {
		f.Program[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return f, nil
}

// Offsets in struct seccomp_data.
const (
	offNumber = 0
	offArch   = 4
)

// prologue kills what speaks a foreign ABI and answers ENOSYS to calls that are newer than the tables, except those in
// pass; what is left falls through to the library's program.
func prologue(info *arch.Info, pass []int) []bpf.Instruction {
	kill := bpf.RetConstant{Val: uint32(lib.ActionKillProcess)}
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		kill,
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: newest, SkipFalse: uint8(4 + len(pass))},
	}
	// -1 is how a tracer skips a call; it is no call of the x32 ABI.
	p = append(p,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0xffffffff, SkipTrue: uint8(2 + len(pass))},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: x32Bit, SkipFalse: 1},
		kill)
	for i, nr := range pass {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(nr), SkipTrue: uint8(len(pass) - i)})
	}
	return append(p, bpf.RetConstant{Val: uint32(action(unix.ENOSYS))})
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
