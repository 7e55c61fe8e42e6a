// Tries: x32 system calls, 64-bit numbers with bit 30 set: getpid, open of a secret (argument 1), and execveat under
// its own x32 number.
// Must get: the process is killed, even on a kernel built without x32.
// Event: syscall, reason syscall_denied.
#include "attack.h"

#define X32 0x40000000L

static long harmless(void) { return syscall(X32 + SYS_getpid); }
static long open_it(void) { return fd_reads(syscall(X32 + SYS_open, args[0], O_RDONLY)); }
static long execute(void) { return syscall(X32 + 545, AT_FDCWD, "/bin/true", NULL, NULL, 0); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("getpid", harmless);
	attempt("open", open_it);
	attempt("execveat", execute);
}
