// Package firejail turns the mount plan of a session into the arguments and the profile of firejail, reports how far firejail together with
// Landlock enforces each rule of a policy, and probes whether firejail works on this machine.
//
// # What it enforces
//
// Mounts, by package mounts, as options of a profile that firejail reads from an inherited descriptor: it accepts only 127 arguments.
// firejail differs from bubblewrap where the plan says so (see [PlanOptions]): it leaves parts of the machine writable whatever is asked of it, so
// nothing relies on a read-only "/"; and nothing can be mounted in a folder that it hides. It makes a path a mount point by making it read-only
// and then writable again, and that only if the path belongs to the user. A session has its own PID and IPC namespaces, and without granted network
// access a network namespace with a loopback device alone.
//
// firejail also denies what nobody asked for: programs in /etc and /var can't be executed by ordinary users, some kernel files in /proc and /sys
// can't be read, and /run/user and other folders are covered. That is stricter than the policy, and is a stated gap.
//
// # Threats
//
// firejail is setuid root, and parses what a policy controls. It reads commas, quotes, brackets and other bytes in paths as something else: such
// paths are rejected, and so is every path that isn't plainly itself on a line of a profile. It needs a machine on which no_new_privs isn't set. In
// another firejail it executes the command without any restriction, and reports no error: the canary notices, and so does mounts.Verify,
// which runs in the session before the command. firejail finds its files by name and follows symlinks, for which Verify is there too.
package firejail
