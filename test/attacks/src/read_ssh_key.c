// Tries: to read ~/.ssh/id_ed25519 (argument 1) by every call that opens a file.
// Must get: EACCES from each; ENOSYS from openat2 is as good.
// Event: fs read of the key, reason outside_workspace.
#include "attack.h"
#include <linux/openat2.h>

static long by_open(void) { return fd_reads(syscall(SYS_openat, AT_FDCWD, args[0], O_RDONLY)); }

static long by_openat2(void)
{
	struct open_how how = {.flags = O_RDONLY};
	return fd_reads(syscall(SYS_openat2, AT_FDCWD, args[0], &how, sizeof(how)));
}

static long by_read_write(void) { return fd_reads(open(args[0], O_RDWR)); }

#ifdef SYS_open
static long by_legacy_open(void) { return fd_reads(syscall(SYS_open, args[0], O_RDONLY)); }
#endif

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("openat", by_open);
	attempt("openat2", by_openat2);
	attempt("read-write", by_read_write);
#ifdef SYS_open
	attempt("open", by_legacy_open);
#endif
}
