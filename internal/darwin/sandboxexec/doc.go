// Package sandboxexec runs programs under a profile of Seatbelt, macOS's sandbox, by /usr/bin/sandbox-exec. Nothing here calls macOS: it makes
// argument lists, files and judgements, and starts a program whose path it's given, so that tests on other systems start a substitute.
//
// # The program
//
// sandbox-exec applies a profile to itself and then executes the command in the same process (execvp), so the process, its descriptors, its
// directory and its environment are the command's. The path is absolute: PATH is the user's. The profile is an argument (-p); a longer one than
// MaxInline is a file (-f), because arguments and environment together have at most 1 MiB (ARG_MAX in XNU's bsd/sys/syslimits.h). Values of the user
// are parameters (-DNAME=VALUE), never text of the profile.
//
// # Errors
//
// sandbox-exec has exit statuses of its own, which a command can have, too: 65 for a profile that doesn't compile (EX_DATAERR) and 71 (EX_OSERR) for one
// that the kernel doesn't apply. "sandbox_apply: Operation not permitted" is the kernel's answer within a sandbox: profiles don't nest. So the canary and
// the trial of a profile run before the command, and say which error it is.
//
// # The canary
//
// sandbox-exec is deprecated and enforces all the same; its version says nothing about that. So before each start a process in a sandbox of its own
// reads two files: the one that its profile allows must be read entirely, and the one that it denies not at all. Otherwise nothing starts.
//
// # Threats
//
// The file of a long profile is in a folder that the policy doesn't let the session write, and has no permissions for other users. A policy that lets
// the session write all such folders is rejected.
package sandboxexec
