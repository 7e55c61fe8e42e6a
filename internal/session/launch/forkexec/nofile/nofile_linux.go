package nofile

import (
	"runtime"
	"unsafe"
)

// Limit is struct rlimit64.
type Limit struct{ Cur, Max uint64 }

var initial = current()

// Raised returns the limit before package syscall raised it. It returns nil if it wasn't raised, or was set again since.
func Raised() *Limit {
	if l := current(); initial.Cur < l.Cur && l == (Limit{initial.Max - 1, initial.Max}) {
		return &initial
	}
	return nil
}

// current returns the current limit, or zero on an error.
func current() (l Limit) {
	const nofile = 7 // RLIMIT_NOFILE
	prlimit := uintptr(302)
	if runtime.GOARCH == "arm64" {
		prlimit = 261
	}
	_, _, _ = rawSyscall6(prlimit, 0, nofile, 0, uintptr(unsafe.Pointer(&l)), 0, 0)
	return l
}

// Package syscall keeps this function for linkname, go.dev/issue/67401.
//
//go:linkname rawSyscall6 syscall.RawSyscall6
func rawSyscall6(nr, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2, errno uintptr)
