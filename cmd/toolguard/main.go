package main

import (
	"os"
)

func main() {
	a := &app{in: os.Stdin, out: newScreen(os.Stdout), err: newScreen(os.Stderr)}
	os.Exit(a.run(os.Args[1:]))
}
