// Package run tests one promise with ordinary programs, signals, terminals and limits: that a command under
// `toolguard exec` behaves as it does without, as root and as an ordinary user, and that nothing of it is left when it has
// ended. All tests go through the real binary.
package run
