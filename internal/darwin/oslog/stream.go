package oslog

import (
	"bufio"
	"io"
	"time"
)

// Program is the reader of the unified log. A sandboxed process can't run it.
const Program = "/usr/bin/log"

// Args are its arguments: the denials of all processes, as they happen.
func Args() []string {
	return []string{"stream", "--style", "compact", "--predicate", `sender == "Sandbox" AND eventMessage CONTAINS "deny("`}
}

// Read parses the output of the program to its end. ready is called once, when the program has begun, and denied with every denial. A tag on a line
// of its own belongs to the denial before it, so a denial is reported when the next line comes, or at the second tick of idle:
// the first one can come right after it.
func Read(r io.Reader, idle <-chan time.Time, ready func(), denied func(Denial)) error {
	lines, failed := make(chan string), make(chan error, 1)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(r)
		s.Buffer(nil, 64<<10)
		for s.Scan() {
			lines <- s.Text()
		}
		failed <- s.Err()
	}()
	var last *Denial
	flush := func() {
		if last != nil {
			denied(*last)
			last = nil
		}
	}
	for begun, recent := false, false; ; {
		select {
		case <-idle:
			if !recent {
				flush()
			}
			recent = false
		case line, more := <-lines:
			if !more {
				flush()
				return <-failed
			}
			if !begun { // "Filtering the log data using …"
				begun = true
				ready()
			}
			if rest, tag := cutTag(line); tag != "" && rest == "" {
				if last != nil {
					last.Tag = tag
				}
				flush()
				continue
			}
			flush()
			if d, ok := Parse(line); ok {
				last, recent = &d, true
			}
		}
	}
}
