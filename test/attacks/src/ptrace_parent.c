// Tries: to trace the process that started this one. Under toolguard that's the supervisor, which has no domain.
// Must get: EPERM.
// Event: syscall ptrace where seccomp denies it, else landlock's own record of it.
#include "attack.h"
#include <sys/ptrace.h>

int main(int argc, char **argv)
{
	// In this process itself: for a child made by attempt, the parent would be this program.
	long rc = ptrace(PTRACE_SEIZE, getppid(), 0, 0);
	result("seize-parent", rc);
}
