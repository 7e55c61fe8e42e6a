// Toolguard runs commands under a policy that the kernel enforces.
//
// # Commands
//
//	toolguard exec      run a command under a policy
//	toolguard check     ask whether a policy allows something
//	toolguard explain   the same, with every rule that matched
//	toolguard policy    lint, show, fmt, diff, schema, init
//	toolguard why       explain what the last run was denied
//	toolguard allow     add rules to a policy that allow it
//	toolguard audit     verify and export toolguardd's events
//	toolguard doctor    show what this machine can enforce
//
// # Exit status
//
// exec returns the command's own status, 128+N when signal N ended it, 125 when toolguard failed or the policy can't be enforced (nothing was
// started then), 126 when the command may not be executed, 127 when there is no such command. Every other command
// returns 0, 1 when the answer is no (denied, errors in the policy, two policies that differ), or 2 when there is no
// answer.
//
// # Files
//
// There is one file per group of commands, with no logic beyond flags and order. load.go reads policies for all of them. Package output
// has every text that they write.
package main
