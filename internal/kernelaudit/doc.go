// Package kernelaudit reads denials from the kernel's audit records: those of Landlock (Linux 6.15 and newer) and of seccomp, which the
// kernel multicasts over netlink.
//
// # Content of records
//
// Checked on Linux 6.18. A Landlock denial is one LANDLOCK_ACCESS record with the domain that denied, the access rights or scopes that it
// denied (blockers) and the object. The SYSCALL record of the same serial adds pid, parent, user, program, audit session and errno. It needs
// no audit rule, but a process that was forked while auditing was off has none, so auditing must be on before the session's first fork. For
// an operation on a name (create, remove, rename, link) the path is that of the directory: the kernel checks before it looks the name up,
// and no other record has it either. The first denial of a domain is accompanied by a LANDLOCK_DOMAIN record that names the process which
// created it; when the domain is freed, another one has the number of all its denials, delivered or not. A SECCOMP record has no companion;
// it carries pid, user, audit session, program and system call.
//
// # Attribution to a session
//
// FreshSession gives the calling thread an audit session of its own, which its descendants inherit and which no process without
// CAP_AUDIT_CONTROL can leave. A Watch selects by it, and by the Landlock domains seen with it.
//
// toolguardd reads on behalf of processes that have no such capability (Owner). It identifies their domains by the user and the name of the
// thread that created them, which toolguardd has chosen itself: a process number can be reused, and any process can claim an audit session.
// Records of seccomp, which name no domain, count by the audit session that the owner is seen to begin, or else by the process's ancestors.
//
// # Trust in records
//
// Records count only if they come from the kernel (netlink port 0). Confined processes choose the names in them: the kernel writes a name
// either quoted, when it is plain, or in hexadecimal, so neither a file name nor a process name can forge a field. The parser accepts
// exactly that. It counts a record that it can't read and never guesses.
//
// # Losses
//
// The kernel drops records when its queue or the socket's buffer is full. Both are detected. Finish compares the delivered denials with the
// kernel's counts, and returns how many are missing, or that the number is unknown. If no loss is known, it compares only what the kernel
// has counted by then. Of domains that a confined program created for itself the kernel counts denials that it doesn't report, so these are
// left out in that case.
package kernelaudit
