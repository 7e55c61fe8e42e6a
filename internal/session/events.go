package session

import (
	"runtime"
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// exitEvent returns how the command ended, and what it used.
func exitEvent(e *launch.Exit, r *Result, began time.Time, usage *event.Usage) *event.Exit {
	exit := &event.Exit{
		Code: r.Code, Wall: time.Since(began), Denials: r.Total, Orphans: r.Orphans,
		User: time.Duration(e.Usage.Utime.Nano()), System: time.Duration(e.Usage.Stime.Nano()),
		MaxRSS: uint64(e.Usage.Maxrss),
		Usage:  usage,
	}
	if runtime.GOOS == "linux" { // counts in KiB (getrusage(2)), macOS in bytes
		exit.MaxRSS *= 1024
	}
	if e.Status.Signaled() {
		exit.Signal = int(e.Status.Signal())
	}
	return exit
}
