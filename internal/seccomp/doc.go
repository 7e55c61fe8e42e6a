// Package seccomp turns a compiled policy into system call filters.
package seccomp
