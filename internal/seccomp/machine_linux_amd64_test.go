package seccomp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// data is struct seccomp_data, a filter's input.
type data struct {
	nr   uint32
	arch uint32
	ip   uint64
	args [6]uint64
}

// word is the 32-bit word at an offset, on a little-endian machine.
func (d *data) word(off uint32) uint32 {
	switch {
	case off == 0:
		return d.nr
	case off == 4:
		return d.arch
	case off == 8:
		return uint32(d.ip)
	case off == 12:
		return uint32(d.ip >> 32)
	case off < 64 && off%4 == 0:
		arg := d.args[(off-16)/8]
		if off%8 == 4 {
			arg >>= 32
		}
		return uint32(arg)
	}
	panic(fmt.Sprintf("load at offset %d", off))
}

// run executes a program like the kernel. It implements only the instructions of these filters.
func run(prog []unix.SockFilter, d *data) uint32 {
	var a uint32
	for pc := 0; ; pc++ {
		in := prog[pc]
		jump := func(cond bool) {
			if cond {
				pc += int(in.Jt)
			} else {
				pc += int(in.Jf)
			}
		}
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = d.word(in.K)
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump(a == in.K)
		case unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K:
			jump(a > in.K)
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump(a >= in.K)
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump(a&in.K != 0)
		case unix.BPF_RET | unix.BPF_K:
			return in.K
		default:
			panic(fmt.Sprintf("instruction %d: unknown code %#x", pc, in.Code))
		}
	}
}

// verdict returns the kernel's action for a call under stacked filters: the most restrictive one, and of equal ones
// that of the filter loaded last.
func verdict(filters []Filter, d *data) uint32 {
	best := uint32(unix.SECCOMP_RET_ALLOW)
	for i := len(filters) - 1; i >= 0; i-- {
		r := run(filters[i].Program, d)
		if int32(r&unix.SECCOMP_RET_ACTION_FULL) < int32(best&unix.SECCOMP_RET_ACTION_FULL) {
			best = r
		}
	}
	return best
}
