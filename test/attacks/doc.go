// Package attacks runs the programs of src/, one for each trick by which a guarded command might get what its policy
// doesn't grant.
//
// Each program runs twice, as root and as an ordinary user: bare, where the trick must work (or the control proves
// nothing), and through `toolguard exec`, where it must get what the row says: a refusal, or, where the row names one of
// the backend's stated gaps, success. Three witnesses look on: what the program got, the files it must not have changed, and,
// where the kernel's records can be read, the event with the rule that decided.
package attacks
