package seccomp

import (
	lib "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
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
func byNumber(info *arch.Info, refused *[newest + 1]unix.Errno, pass []int) Filter {
	prog := make([]unix.SockFilter, 0, 256)
	prog = append(prog,
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offArch},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(info.ID), Jt: 1},
		answerWith(lib.ActionKillProcess),
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offNumber})
	return Filter{Program: decide(prog, spans(refused, pass))}
}

func answerWith(a lib.Action) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: uint32(a)}
}

// spans covers all 32-bit numbers. Those with the x32 bit are killed; -1, which is how a tracer skips a call, has it
// but is no call of any ABI.
func spans(refused *[newest + 1]unix.Errno, pass []int) []span {
	s := make([]span, 1, 128)
	s[0].answer = lib.ActionAllow
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
	for nr, errno := range refused {
		if errno != 0 {
			one(uint32(nr), action(errno), lib.ActionAllow)
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

// decide appends a binary search for the span of the number in the accumulator: for n spans at most 2n-1 instructions
// when every jump is short.
func decide(prog []unix.SockFilter, s []span) []unix.SockFilter {
	if len(s) == 1 {
		return append(prog, answerWith(s[0].answer))
	}
	mid := len(s) / 2
	if below := 2*mid - 1; below <= 255 {
		prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: s[mid].from, Jt: uint8(below)})
		return decide(decide(prog, s[:mid]), s[mid:])
	}
	// A conditional jump is too short to get over the lower half.
	at := len(prog)
	prog = append(prog,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: s[mid].from, Jf: 1},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA})
	prog = decide(prog, s[:mid])
	prog[at+1].K = uint32(len(prog) - at - 2)
	return decide(prog, s[mid:])
}
