// Package denials makes events of what is denied in one session. The mechanisms report it in four ways: the BPF programs (package loader),
// the programs on the session's cgroup (cgroupsock), egress (egress/message), and the kernel's audit records of Landlock and system call
// filters (kernelaudit).
//
// Describe is the heart of it: it makes an event of one record by the policy that decided, with the rule, its position and the smallest grant
// that would allow it. It uses the evaluator of `toolguard check`, and has no state. Where the kernel and the evaluator disagree, the event
// reports that as a mistake in toolguard (engine_error).
//
// A Collector serves the process that runs the command: it emits what is new at once, counts what repeats, and lists the different denials for
// the report. A Follower does the same for toolguardd, which follows sessions that other processes started. A session's policy can be
// replaced while it runs: a denial is described by the policy that decided, which the kernel names by its generation. A Follower keeps those
// policies only while it needs them.
//
// # What it guarantees
//
// Every denial that a mechanism reports is in an event, alone or as part of a count. What was lost (the kernel's rings are full, auditing was off,
// toolguardd was gone) is in an event of kind gap. A session can't make it keep more than a bounded number of denials, policies or processes.
//
// # Threats
//
// The confined processes choose paths, arguments, names and the rate of denials. Their text is quoted and cut short where it's shown (package
// event), and secrets are taken out of it. What is read from /proc about a process is best effort: the process may have ended or executed
// something else since. It decides nothing.
package denials
