// Package nofile knows the limit of open files with which this program was started. Before main, package syscall raises the soft
// limit to one below the hard limit (syscall/rlimit.go). It restores the original limit only for processes that it starts itself,
// and doesn't export it.
//
// So this package reads the limit first. It imports nothing that imports package syscall, and packages without uninitialized
// imports are initialized in the order of their import paths (The Go Programming Language Specification, "Program initialization"):
// "github.com" comes before "syscall". If that changes, the command has the raised limit; a test of whole sessions detects this.
package nofile
