package seccomp

import "slices"

// operation is how a condition compares an argument.
type operation int

const (
	equal    operation = iota + 1 // all 64 bits are the value
	notEqual                      // some of the 64 bits differs
	someBit                       // at least one bit of the value is set
	noneSet                       // no bit of the value is set
	lowEqual                      // the low 32 bits are the value, whatever the high ones are
)

// condition is a condition on one argument of a call.
type condition struct {
	arg   uint32
	op    operation
	value uint64
}

// all is a set of conditions of which all must be true to deny a call.
type all []condition

// is holds when the whole 64-bit argument is v.
func is(arg uint32, v uint64) condition { return condition{arg, equal, v} }

// not holds when any of the argument's 64 bits differs from v.
func not(arg uint32, v uint64) condition { return condition{arg, notEqual, v} }

// anyBit holds when at least one bit of mask is set.
func anyBit(arg uint32, mask uint64) condition { return condition{arg, someBit, mask} }

// noBit holds when no bit of mask is set.
func noBit(arg uint32, mask uint64) condition { return condition{arg, noneSet, mask} }

// low32 holds when the low 32 bits of the argument are v, whatever the high ones are: the kernel cuts them off.
func low32(arg uint32, v uint32) all { return all{{arg, lowEqual, uint64(v)}} }

// noneOf holds when the argument is none of the values.
func noneOf(arg uint32, values ...uint64) all {
	a := make(all, 0, 8)
	for _, v := range values {
		a = append(a, not(arg, v))
	}
	return a
}

// and joins sets of conditions.
func and(sets ...all) all {
	a := make(all, 0, 8)
	for _, s := range sets {
		a = append(a, s...)
	}
	return a
}

// holds evaluates the conditions as the assembled program does.
func (a all) holds(args *[6]uint64) bool {
	return !slices.ContainsFunc(a, func(c condition) bool { return !c.holds(args[c.arg]) })
}

func (c condition) holds(v uint64) bool {
	switch c.op {
	case equal:
		return v == c.value
	case notEqual:
		return v != c.value
	case someBit:
		return v&c.value != 0
	case noneSet:
		return v&c.value == 0
	case lowEqual:
		return uint32(v) == uint32(c.value)
	}
	return true // unknown operation: attribute the denial to this rule
}
