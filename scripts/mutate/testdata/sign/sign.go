// Package sign is the package that the test of mutate mutates.
package sign

const limit = 500 + 500 // constants stay

// Sign is a number's sign. Its tests check limit only in part.
func Sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0 && n <= limit:
		return 1
	}
	return 0
}

// Length counts down to zero. With a mutant, it never ends.
func Length(n int, double bool) (length int) {
	for n > 0 {
		n--
		length += 2
	}
	if !double {
		return length / 2
	}
	return length
}

// Next is tested in another package.
func Next(n int) int {
	return n + 1
}

// Previous is not tested.
func Previous(n int) int {
	return n - 1
}
