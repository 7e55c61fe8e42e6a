// Package proc reads /proc, and identifies a process by its pidfd.
//
// After a process has been reaped, its pid can be reused. A Process is identified by its pid, its start time and its pidfd together, and its end
// can be awaited. DescendsFrom reads each parent twice, so that it follows no pid that was reused in between.
//
// A process chooses its name, which is in parentheses in /proc/PID/stat and may have any characters, and its command line, which may be as long
// as its memory. Neither is trusted: Stat skips the name, and ReadBeginning limits the command line.
package proc
