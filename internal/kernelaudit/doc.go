// Package kernelaudit reads what the kernel itself says about refusals: the audit records of Landlock (Linux 6.15 and
// newer) and seccomp, as they are multicast over netlink.
//
// # Content of records
//
// Checked on Linux 6.18. A Landlock refusal is one LANDLOCK_ACCESS record, with the domain that refused, what it
// refused (blockers) and the object. The SYSCALL record of the same serial adds pid, parent, user, program, audit session
// and errno; it needs no audit rule, but a process that was forked while auditing was off has none, so auditing must be on
// before the session's first fork. For an operation on a name (create, remove, rename, link) the path is that of the
// directory: the kernel checks before it looks the name up, and no other record has it either. The first refusal of a
// domain is accompanied by a LANDLOCK_DOMAIN record that names the process which made it; when the domain ends, another
// one has the number of all denials, delivered or not. A SECCOMP record stands alone, and carries pid, user,
// audit session, program and system call.
//
// # Which session
//
// FreshSession gives the calling thread an audit session of its own, which everything it forks inherits and which no
// process without CAP_AUDIT_CONTROL can leave. A Watch selects by it, and by the Landlock domains seen with it.
//
// toolguardd reads for the sessions of processes that may not (Owner). It knows their domains by the user and the name of the thread that made
// them, which it has chosen itself: a process number can be another one's by then, and any process can claim an audit session. Records of seccomp,
// which name no domain, count by the audit session that the owner is seen to begin, or else by the process's ancestors.
//
// # What is believed
//
// Records count only when they come from the kernel (netlink port 0). The confined processes choose the names in them: the
// kernel writes a name either quoted, when it is plain, or in hexadecimal, so a field can't be forged by a file name or by
// a process name. The parser accepts exactly that and nothing else; a record it can't read is counted, never guessed at.
//
// # Losses
//
// The kernel drops records when its queue is full or the socket's buffer is. Both are detected. Finish compares what came
// with what the kernel counted, and says how many refusals are missing, or that it can't know. Where nothing
// is known to be lost it compares only what the kernel has counted by then; of domains that a confined program made for itself it counts
// denials that it doesn't report, so these are left out then.
package kernelaudit
