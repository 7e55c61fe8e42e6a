package seccomp

import (
	"maps"
	"slices"

	lib "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data.
const (
	offNumber = 0
	offArch   = 4
)

// span is a run of numbers with one answer, up to where the next span begins.
type span struct {
	from   uint32
	answer lib.Action
}

// byNumber is the first filter: it kills what speaks a foreign ABI, and answers for calls by their number alone. pass
// are the numbers beyond the tables that aren't answered with ENOSYS.
func byNumber(info *arch.Info, refused map[uint32]unix.Errno, pass []int) []bpf.Instruction {
	head := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(info.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(lib.ActionKillProcess)},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
	}
	return append(head, decide(spans(refused, pass))...)
}

// spans covers all 32-bit numbers. Those with the x32 bit are killed; -1, which is how a tracer skips a call, has it
// but is no call of any ABI.
func spans(refused map[uint32]unix.Errno, pass []int) []span {
	s := []span{{0, lib.ActionAllow}}
	put := func(from uint32, a lib.Action) {
		last := &s[len(s)-1]
		switch {
		case last.answer == a:
		case last.from == from:
			last.answer = a
		default:
			s = append(s, span{from, a})
		}
	}
	one := func(nr uint32, a, others lib.Action) {
		put(nr, a)
		put(nr+1, others)
	}
	for _, nr := range slices.Sorted(maps.Keys(refused)) {
		if nr <= newest {
			one(nr, action(refused[nr]), lib.ActionAllow)
		}
	}
	unknown := action(unix.ENOSYS)
	put(newest+1, unknown)
	for _, nr := range pass {
		one(uint32(nr), lib.ActionAllow, unknown)
	}
	put(x32Bit, lib.ActionKillProcess)
	put(2*x32Bit, unknown)
	put(3*x32Bit, lib.ActionKillProcess)
	put(^uint32(0), unknown)
	return s
}

// decide is a binary search for the span of the number in the accumulator.
func decide(s []span) []bpf.Instruction {
	if len(s) == 1 {
		return []bpf.Instruction{bpf.RetConstant{Val: uint32(s[0].answer)}}
	}
	mid := len(s) / 2
	below, above := decide(s[:mid]), decide(s[mid:])
	jump := []bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: s[mid].from, SkipTrue: uint8(len(below))}}
	if len(below) > 255 { // too far for a conditional jump
		jump = []bpf.Instruction{
			bpf.JumpIf{Cond: bpf.JumpLessThan, Val: s[mid].from, SkipTrue: 1},
			bpf.Jump{Skip: uint32(len(below))},
		}
	}
	return slices.Concat(jump, below, above)
}
