// Package proc reads /proc, and identifies a process by its pidfd.
//
// A number alone names a process only until it has been waited for: then another process can get the number. Where that matters, a
// Process is known by its number, its start time and its pidfd together, and its end can be waited for. DescendsFrom looks at each
// parent twice, so that no number that changed its owner in between is followed.
//
// What a process chooses itself is not to be trusted: its name, which stands in parentheses in /proc/PID/stat and may hold any
// character, and its command line, which may be as long as all of its memory. Stat skips the one, and ReadBeginning bounds the other.
package proc
