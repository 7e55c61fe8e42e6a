// Package nofile knows what limit of open files this program was started with. Before main begins, package syscall raises the soft
// limit to one below the hard limit (syscall/rlimit.go), and it's the only one to know what there was before: it gives it back
// to what it starts itself, and to nobody else.
//
// So this package looks first. It imports nothing that leads to package syscall, and packages that wait for no other are
// initialized in the order of their import paths (The Go Programming Language Specification, "Program initialization"): "github.com"
// comes before "syscall". Were it otherwise some day, the command would get the raised limit; a test of whole sessions looks.
package nofile
