package sign

// Even is tested in a child.
func Even(n int) bool {
	return n%2 == 0
}
