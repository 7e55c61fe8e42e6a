//go:build unix

// Package callstate keeps the histories of invocations in a file (gate --state FILE), and in another one what people have allowed for more than
// once, for all processes of a user that share them.
//
// Each change is a transaction: lock, read, change, write to a temporary file, fsync, rename, fsync of the folder, unlock. Only then the
// caller answers, so that an answer that was given is never lost, whenever a process or the machine stops. The lock is on a file of its
// own, FILE.lock, which is never replaced: a lock on FILE would be on a file that another process has just replaced.
//
// # Threats
//
// The file counts only if nobody but the user could have written it: it's a regular file of the user with mode 0600, reached without
// following a symlink, in a folder in which no other user can replace it. A file that can't be read entirely is an error, never an
// empty store, and so is one that is larger than 4 MiB. A file that isn't there is a new store: the folder must be outside every grant
// of the agent.
//
// Invocations that weren't used for 30 days are removed, and the open calls of those that weren't used for a day: most hosts never report
// how calls end.
//
// A stored approval counts only with the text that a person has seen: its key is the digest of that text. One for a single use is removed
// from the disk before it's used: whatever happens then, it isn't used twice. Expired ones are never found, and the next change removes them.
package callstate
