// Package landlock turns a compiled policy into Landlock rulesets, reports how far they enforce it, and applies them to
// the thread that starts the command.
//
// # What Landlock can say
//
// A ruleset names kinds of access, forbids them all, and then grants some of them on folders with everything beneath or on
// single files. Stacked rulesets intersect. So a policy maps onto it like this: one ruleset for each authority that
// declares fs, with a grant for each of its rules; one more for each that declares commands. What the language has and
// Landlock hasn't is reported by [Report], rule by rule, and not approximated:
//   - a rule that takes away beneath one that grants (a carve-out), and with it patterns, protect, secrets and toolguard's own
//     files beneath a grant;
//   - a rule that gives more than the rule around it, where the session may rename or link in the folder between: a
//     Landlock grant is tied to the file or folder that it was made for and goes along with it;
//   - creating without writing, executing without reading: the kernel asks for both;
//   - hosts, arguments, and the variables of a single program.
//
// Where Landlock only grants less than a rule, the rule is enforced, and the report says that Landlock is stricter: creating
// or deleting a single file, for which the kernel asks the folder; a path at which nothing is; a pattern that grants.
//
// One thing is granted beyond the policy: all of /proc to an ordinary user whose built-in rules grant the session's own entries
// there, which Landlock can't distinguish from others' (see openProc). Its row says so, and it's a stated gap.
//
// [StatedGaps] lists what no ruleset can hold whatever the policy says.
//
// # Threats
//
// Rule paths are canonical when the policy is compiled. Between that and Apply another process may have placed a symlink in one of
// them; every path is therefore opened so that a symlink anywhere in it is an error (openat2, RESOLVE_NO_SYMLINKS), and
// the grant goes to what was opened, not to a name. Domains belong to a thread and to what it starts: nothing else of
// toolguard's process is restricted, and nothing of the session runs before. Under any domain the kernel also refuses
// to change mounts, and to trace processes outside it (hook_sb_mount, hook_ptrace_access_check).
package landlock
