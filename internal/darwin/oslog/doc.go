// Package oslog reads what macOS's unified log reports about denials of a sandbox: the lines that `log stream --style compact` prints. It is pure:
// package session starts the program log and passes its lines on.
//
// # Lines
//
// The kernel extension Sandbox logs a denial as
//
//	2026-09-18 06:19:41.380 E  kernel[0:5f489] (Sandbox) Sandbox: cat(41548) deny(1) file-read-data /Users/u/.ssh/id_ed25519
//
// The process is the one that was denied, the target is the resolved path, and may contain spaces. A line that begins its message with "2 duplicate
// reports for" counts further denials that equal an earlier one. "System Policy:" before the decision names another authority of the machine
// (SIP), which isn't the session's profile. The message of (with message "…") follows the target, on the same line or on a line of its own.
//
// # Which denials are a session's
//
// The log is the whole machine's. A session's default denial has the session's tag as its message (Tag), and its lines are the session's even where
// the process has ended. A denial by an explicit rule has no tag: it's the session's if its process is.
//
// # Best effort
//
// The log drops messages and merges equal ones, both without a trace, and its reader starts some time after the session. So an event from here has
// evidence = "oslog" and completeness = "best_effort", and the absence of an event proves nothing.
//
// # Threats
//
// The session chooses its processes' names and the paths that it opens, so it can make lines that look like others. It can only add denials of its
// own, which decide nothing.
package oslog
