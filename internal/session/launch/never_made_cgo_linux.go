//go:build cgo

package launch

// neverMade is the number of threads that the runtime counts and never makes: one for calls from C (mstartm0 in Go's runtime).
const neverMade = 1
