//go:debug updatemaxprocs=0
package main

import (
	"os"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/session/launch"
	"github.com/toolguard/toolguard/internal/terminal"
)

// The setting above stops the runtime from polling the cgroup's processor limit, which this program doesn't need. Only GOMAXPROCS
// in the environment also stops it from reading the limit once, at the start.
func main() {
	if len(os.Args) == 4 && os.Args[1] == launch.StageFlag {
		os.Exit(launch.RunStage(os.Args[2:]))
	}
	if code, ok := terminal.RunMonitor(); ok {
		os.Exit(code)
	}
	launch.RunLimitStage()
	growStack()
	a := &app{in: os.Stdin, out: output.NewFile(os.Stdout), err: output.NewFile(os.Stderr)}
	os.Exit(a.run(os.Args[1:]))
}

// growStack makes the stack as large at once as it becomes. The runtime would double it five times instead, each time with more
// frames to copy and correct, which takes 0.2 ms of every start.
//
//go:noinline
func growStack() {
	var b [24 << 10]byte
	touch(&b)
}

//go:noinline
func touch(b *[24 << 10]byte) { b[0] = 1 }
