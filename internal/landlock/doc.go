// Package landlock compiles a policy into Landlock rulesets, reports how far they enforce it, and applies them to the thread that starts
// the command.
//
// # What Landlock can enforce
//
// A ruleset names kinds of access, denies them all, and then grants some of them on folders with everything beneath, or on single files.
// Stacked rulesets intersect. A policy maps to one ruleset for each authority that declares fs, with a grant for each of its rules, and one
// more for each authority that declares commands. Landlock can't enforce these, and [Report] reports them rule by rule:
//   - a rule that denies beneath one that grants (a carve-out); so also patterns, protect, secrets and toolguard's own files beneath a grant;
//   - a rule that grants more than the rule of the folder around it, if the session may rename or link in that folder: a Landlock grant is
//     tied to the file or folder that it was made for, and moves along with it;
//   - creating without writing, and executing without reading: the kernel requires both;
//   - hosts, arguments, and the environment variables of a single program.
//
// If Landlock grants less than a rule, the rule is enforced, and the report calls Landlock stricter: creating or deleting a single file,
// for which the kernel checks the folder; a path that doesn't exist; a pattern that grants.
//
// One grant exceeds the policy: an ordinary user whose built-in rules grant the session's own entries of /proc gets all of /proc, as
// Landlock can't distinguish own entries from others (see openProc). The rule's row in the report and a stated gap name it.
//
// [StatedGaps] lists what no ruleset can enforce under any policy.
//
// # Threats
//
// Rule paths are canonical when the policy is compiled. Before Apply, another process may replace a part of such a path by a symlink. Every
// path is therefore opened so that a symlink anywhere in it is an error (openat2, RESOLVE_NO_SYMLINKS), and the grant is made on the opened
// file, not on a name. A domain belongs to a thread and to its descendants: nothing else of toolguard's process is restricted, and no
// process of the session runs before. In any domain the kernel also denies changes of mounts, and tracing of processes outside the domain
// (hook_sb_mount, hook_ptrace_access_check).
package landlock
