package seccomp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// leaf is the result for a number: a kernel action, or a rule about the call's arguments.
type leaf struct {
	action uint32
	rule   *denial // nil: action
}

var allowed = leaf{action: unix.SECCOMP_RET_ALLOW}

// span is a range of numbers with one result, up to the next span.
type span struct {
	from uint32
	leaf
}

// spans returns the spans of all 32-bit numbers: those in the table, which are allowed by default, and rest from newest+1.
func spans(known *table, rest []span) []span {
	s := make([]span, 1, 96)
	s[0].leaf = known[0]
	for nr, l := range known {
		s = appendSpan(s, uint32(nr), l)
	}
	for _, r := range rest {
		s = appendSpan(s, r.from, r.leaf)
	}
	return s
}

// appendSpan appends a span if its result differs from the previous one.
func appendSpan(s []span, from uint32, l leaf) []span {
	switch last := &s[len(s)-1]; {
	case last.leaf == l:
	case last.from == from:
		last.leaf = l
	default:
		s = append(s, span{from, l})
	}
	return s
}

// beyondTable returns the first filter's spans beyond the table: ENOSYS except for those in pass. Numbers with the x32 bit kill.
// -1, with which a tracer skips a call, has the bit but is no call of any ABI.
func beyondTable(pass []int) []span {
	unknown := leaf{action: retErrno(unix.ENOSYS)}
	kill := leaf{action: unix.SECCOMP_RET_KILL_PROCESS}
	s := []span{{newest + 1, unknown}}
	for _, nr := range pass {
		s = append(s, span{uint32(nr), allowed}, span{uint32(nr) + 1, unknown})
	}
	return append(s, span{x32Bit, kill}, span{2 * x32Bit, unknown}, span{3 * x32Bit, kill}, span{^uint32(0), unknown})
}

// assembler assembles one program.
type assembler struct {
	prog  []unix.SockFilter
	jumps []blockJump
}

// blockJump is a leaf that jumps to a block whose position isn't known yet.
type blockJump struct {
	at   int
	rule *denial
}

// assemble returns a program with an action for a foreign architecture, and spans for the other calls. The blocks for arguments
// come after the whole search, so that no comparison of the number follows them.
func assemble(arch, foreign uint32, s []span) ([]unix.SockFilter, error) {
	native := jump(unix.BPF_JEQ, arch)
	native.Jt = 1
	a := assembler{prog: make([]unix.SockFilter, 0, 4*len(s)+64), jumps: make([]blockJump, 0, 16)}
	a.prog = append(a.prog, load32(offArch), native, ret(foreign), load32(offNumber))
	a.search(s)
	for _, w := range a.jumps {
		a.prog[w.at].K = uint32(len(a.prog) - w.at - 1)
		var err error
		if a.prog, err = decideArguments(a.prog, w.rule.when, w.rule.errno); err != nil {
			return nil, fmt.Errorf("assemble the conditions for the system call %s: %w", w.rule.name, err)
		}
	}
	return a.prog, nil
}

// search appends a binary search for the span of the number in the accumulator: for n spans at most 2n-1 instructions if every jump
// is short.
func (a *assembler) search(s []span) {
	if len(s) == 1 {
		a.leaf(s[0].leaf)
		return
	}
	mid := len(s) / 2
	at := len(a.prog)
	a.prog = append(a.prog, jump(unix.BPF_JGE, s[mid].from))
	if below := 2*mid - 1; below <= 255 {
		a.prog[at].Jt = uint8(below)
		a.search(s[:mid])
	} else {
		// A conditional jump is too short to skip the lower half.
		a.prog[at].Jf = 1
		a.prog = append(a.prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA})
		a.search(s[:mid])
		a.prog[at+1].K = uint32(len(a.prog) - at - 2)
	}
	a.search(s[mid:])
}

func (a *assembler) leaf(l leaf) {
	if l.rule == nil {
		a.prog = append(a.prog, ret(l.action))
		return
	}
	a.jumps = append(a.jumps, blockJump{len(a.prog), l.rule})
	a.prog = append(a.prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA})
}
