package seccomp

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data. Each argument is two words, the low one first on the supported machines.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

func load32(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(test uint16, k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, K: k}
}

func ret(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

func retErrno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// block is the part of a program that decides about one call by its arguments. At its entry, the accumulator has an unknown value.
// It loads every word before it compares it, and every path through it ends in a return.
type block struct {
	prog  []unix.SockFilter
	exits []exit // the exits of the current set of conditions, to the next one
}

// exit is a jump for a false condition.
type exit struct {
	at     int
	onTrue bool
}

// decideArguments appends the block of a call that is denied if one of the sets is true, else allowed.
func decideArguments(prog []unix.SockFilter, when []all, errno unix.Errno) ([]unix.SockFilter, error) {
	b := block{prog: prog}
	for _, set := range when {
		for _, c := range set {
			if err := b.condition(c); err != nil {
				return nil, err
			}
		}
		b.prog = append(b.prog, ret(retErrno(errno)))
		if err := b.patchExits(); err != nil {
			return nil, err
		}
	}
	return append(b.prog, ret(unix.SECCOMP_RET_ALLOW)), nil
}

// condition continues with the next instruction if c is true, and exits if not.
func (b *block) condition(c condition) error {
	if c.arg > 5 {
		return fmt.Errorf("a condition on argument %d", c.arg)
	}
	low := offArgs + 8*c.arg
	high := low + 4
	lowValue, highValue := uint32(c.value), uint32(c.value>>32)
	switch c.op {
	case lowEqual:
		b.require(low, unix.BPF_JEQ, lowValue)
	case equal:
		b.require(high, unix.BPF_JEQ, highValue)
		b.require(low, unix.BPF_JEQ, lowValue)
	case notEqual:
		b.prog = append(b.prog, load32(high), jump(unix.BPF_JEQ, highValue))
		b.prog[len(b.prog)-1].Jf = 2 // they differ: skip the low word
		b.reject(low, unix.BPF_JEQ, lowValue)
	case someBit:
		if highValue != 0 {
			b.prog = append(b.prog, load32(high), jump(unix.BPF_JSET, highValue))
			b.prog[len(b.prog)-1].Jt = 2 // one is set: skip the low word
		}
		b.require(low, unix.BPF_JSET, lowValue)
	case noneSet:
		if highValue != 0 {
			b.reject(high, unix.BPF_JSET, highValue)
		}
		b.reject(low, unix.BPF_JSET, lowValue)
	default:
		return fmt.Errorf("a condition with the unknown operation %d", c.op)
	}
	return nil
}

func (b *block) require(word uint32, test uint16, k uint32) { b.check(word, test, k, false) }

func (b *block) reject(word uint32, test uint16, k uint32) { b.check(word, test, k, true) }

// check loads a word and exits if the result of its test is onTrue.
func (b *block) check(word uint32, test uint16, k uint32, onTrue bool) {
	b.prog = append(b.prog, load32(word), jump(test, k))
	b.exits = append(b.exits, exit{len(b.prog) - 1, onTrue})
}

// patchExits sets the target of the exits to the next instruction.
func (b *block) patchExits() error {
	for _, e := range b.exits {
		distance := len(b.prog) - e.at - 1
		if distance > 255 {
			return fmt.Errorf("%d instructions are too many for one set of conditions", distance)
		}
		if e.onTrue {
			b.prog[e.at].Jt = uint8(distance)
		} else {
			b.prog[e.at].Jf = uint8(distance)
		}
	}
	b.exits = b.exits[:0]
	return nil
}
