package nofile

import (
	"runtime"
	"unsafe"
)

// Limit is struct rlimit64.
type Limit struct{ Cur, Max uint64 }

var initial = current()

// Raised is the limit from before it was raised, nil when it wasn't, or when it has been set anew since.
func Raised() *Limit {
	if l := current(); initial.Cur < l.Cur && l == (Limit{initial.Max - 1, initial.Max}) {
		return &initial
	}
	return nil
}

// current is the limit as it is; zero when the kernel doesn't say.
func current() (l Limit) {
	const nofile = 7 // RLIMIT_NOFILE
	prlimit := uintptr(302)
	if runtime.GOARCH == "arm64" {
		prlimit = 261
	}
	_, _, _ = rawSyscall6(prlimit, 0, nofile, 0, uintptr(unsafe.Pointer(&l)), 0, 0)
	return l
}

// Package syscall keeps this one for use from outside, go.dev/issue/67401.
//
//go:linkname rawSyscall6 syscall.RawSyscall6
func rawSyscall6(nr, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2, errno uintptr)
