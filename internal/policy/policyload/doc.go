// Package policyload reads and compiles the policy that a command line selects, for this machine, user, folder and terminal.
//
// Package policyfile reads policies for any machine; this package finds out what it needs to know about this one: the home, the
// PATH, the terminal, and the user's own policy where none is named.
package policyload
