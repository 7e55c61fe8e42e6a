//go:build !cgo

package launch

// neverMade is the number of threads that the runtime counts and never makes.
const neverMade = 0
