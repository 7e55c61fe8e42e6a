package seccomp

import lib "github.com/elastic/go-seccomp-bpf"

// all is a set of conditions that must all hold for a call to be refused.
type all []lib.Condition

// is holds when the whole 64-bit argument is v.
func is(arg uint32, v uint64) lib.Condition {
	return lib.Condition{Argument: arg, Operation: lib.Equal, Value: v}
}

// not holds when any of the argument's 64 bits differs from v.
func not(arg uint32, v uint64) lib.Condition {
	return lib.Condition{Argument: arg, Operation: lib.NotEqual, Value: v}
}

// anyBit holds when at least one bit of mask is set.
func anyBit(arg uint32, mask uint64) lib.Condition {
	return lib.Condition{Argument: arg, Operation: lib.BitsSet, Value: mask}
}

// noBit holds when no bit of mask is set.
func noBit(arg uint32, mask uint64) lib.Condition {
	return lib.Condition{Argument: arg, Operation: lib.BitsNotSet, Value: mask}
}

// low32 holds when the low 32 bits of the argument are v, whatever the high ones are: the kernel cuts them off.
func low32(arg uint32, v uint32) all {
	a := all{noBit(arg, uint64(^v))}
	for bit := uint64(1); bit < 1<<32; bit <<= 1 {
		if uint64(v)&bit != 0 {
			a = append(a, anyBit(arg, bit))
		}
	}
	return a
}

// noneOf holds when the argument is none of the values.
func noneOf(arg uint32, values ...uint64) all {
	var a all
	for _, v := range values {
		a = append(a, not(arg, v))
	}
	return a
}

// and joins sets of conditions.
func and(sets ...all) all {
	var a all
	for _, s := range sets {
		a = append(a, s...)
	}
	return a
}

// holds evaluates the conditions as the assembled program does.
func (a all) holds(args *[6]uint64) bool {
	for _, c := range a {
		if !holds(c, args[c.Argument]) {
			return false
		}
	}
	return true
}

func holds(c lib.Condition, v uint64) bool {
	switch c.Operation {
	case lib.Equal:
		return v == c.Value
	case lib.NotEqual:
		return v != c.Value
	case lib.BitsSet:
		return v&c.Value != 0
	case lib.BitsNotSet:
		return v&c.Value == 0
	}
	return true // an operation that this package doesn't use: say that the rule is the one
}
