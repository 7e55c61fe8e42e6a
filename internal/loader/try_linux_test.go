package loader

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	childCommands["try"] = tryAll
	childCommands["be traced"] = beTraced
	childCommands["bind in a namespace"] = bindElsewhere
}

// try is an operation with its result in a session. Outside of a session it succeeds.
type try struct {
	name string
	do   func(p *tryState) error
	want error // in the session
	free error // outside of one
}

// tryState is what a child knows.
type tryState struct {
	Dir               string
	Outside           int // an outside process
	Toolguard, Thread int
	Abstract          string
	fds               int // a socket over which the test sends descriptors
}

const (
	eacces = unix.EACCES
	eperm  = unix.EPERM
	exdev  = unix.EXDEV
)

func rel(p *tryState, name string) string { return filepath.Join(p.Dir, name) }

func touch(name string) func(p *tryState) error {
	return func(p *tryState) error {
		return closing(unix.Open(rel(p, name), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644))
	}
}

func opening(name string, flags int) func(p *tryState) error { return creating(name, flags, 0o644) }

func creating(name string, flags int, mode uint32) func(p *tryState) error {
	return func(p *tryState) error { return closing(unix.Open(rel(p, name), flags, mode)) }
}

func closing(fd int, err error) error {
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func rename(from, to string, flags uint) func(p *tryState) error {
	return func(p *tryState) error {
		return unix.Renameat2(unix.AT_FDCWD, rel(p, from), unix.AT_FDCWD, rel(p, to), flags)
	}
}

func hardlink(from, to string) func(p *tryState) error {
	return func(p *tryState) error { return unix.Link(rel(p, from), rel(p, to)) }
}

// with does something with an open file.
func with(name string, flags int, f func(fd int) error) func(p *tryState) error {
	return func(p *tryState) error {
		fd, err := unix.Open(rel(p, name), flags|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		defer unix.Close(fd)
		return f(fd)
	}
}

func path(name string, f func(path string) error) func(p *tryState) error {
	return func(p *tryState) error { return f(rel(p, name)) }
}

func allTries() []try {
	var all []try
	for _, g := range [][]try{treeTries, fileTries, taskTries, kernelTries, socketTries} {
		all = append(all, g...)
	}
	for _, m := range metadata {
		all = append(all,
			try{m.name + " where updating is granted", m.do("change/meta-" + strings.ReplaceAll(m.name, " ", "-")), nil, nil},
			try{m.name + " where reading is", m.do("ro/meta-" + strings.ReplaceAll(m.name, " ", "-")), eacces, nil})
	}
	return all
}

// tryAll is the child: it tries everything and answers with the results.
func tryAll(args []string) (any, error) {
	var p tryState
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return nil, err
	}
	p.fds = 3
	answers := map[string]string{}
	for _, t := range allTries() {
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			done <- t.do(&p)
		}()
		select {
		case err := <-done:
			answers[t.name] = describe(err)
		case <-time.After(time.Minute):
			answers[t.name] = "hangs"
			fmt.Fprintln(os.Stderr, t.name, "hangs")
		}
	}
	return answers, nil
}

func describe(err error) string {
	var e unix.Errno
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &e) && errors.Unwrap(err) == nil, errors.As(err, new(*os.PathError)) && errors.As(err, &e):
		return unix.ErrnoName(e)
	default:
		return err.Error()
	}
}

func want(err error) string {
	if err == errAlive {
		return err.Error()
	}
	return describe(err)
}
