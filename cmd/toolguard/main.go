//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0
package main

import "os"

// The runtime would read the cgroup's processor limit at every start (0.2 ms) and watch it, for a program that computes next
// to nothing: hence the settings above.
func main() {
	a := &app{in: os.Stdin, out: newScreen(os.Stdout), err: newScreen(os.Stderr)}
	os.Exit(a.run(os.Args[1:]))
}
