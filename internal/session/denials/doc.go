// Package denials makes the events of the denials in one session. Four mechanisms report them: the BPF programs (package loader),
// the programs on the session's cgroup (cgroupsock), egress (egress/message), and the kernel's audit records of Landlock and system call
// filters (kernelaudit).
//
// Describe makes an event of one record by the policy that decided, with the rule, its position and the smallest grant that would allow the
// operation. It uses the evaluator of `toolguard check`, and has no state. If the kernel and the evaluator disagree, the event reports a defect
// of toolguard (engine_error).
//
// A Collector serves the process that runs the command: it emits new denials at once, counts repeated ones, and lists the different ones for
// the report. A Follower does the same for toolguardd, which follows sessions that other processes started. A session's policy can be
// replaced while it runs: a denial is described by the policy that decided, which the kernel names by its generation. A Follower keeps those
// policies only while it needs them.
//
// # Guarantees
//
// Every denial that a mechanism reports is in an event, alone or as part of a count. Losses (the kernel's ring buffers are full, auditing was off,
// toolguardd was down) are in events of kind gap. The number of denials, policies and processes in memory is bounded.
//
// # Threats
//
// The confined processes choose paths, arguments, names and the rate of denials. Their text is quoted and truncated where it's shown (package
// event), and secrets are redacted. Information from /proc about a process is best effort: the process may have ended or executed
// another program since. It decides nothing.
package denials
