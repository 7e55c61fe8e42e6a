// Tries: to change what is mounted on the workspace (argument 1) with the older calls. Undoes what it did.
// Must get: EPERM.
// Event: syscall mount, umount2, pivot_root, reason syscall_denied.
#include "attack.h"

static long tmpfs(void)
{
	long rc = mount("none", args[0], "tmpfs", 0, NULL);
	if (rc == 0)
		umount2(args[0], MNT_DETACH);
	return rc;
}

static long bind_it(void)
{
	long rc = mount("/etc", args[0], NULL, MS_BIND, NULL);
	if (rc == 0)
		umount2(args[0], MNT_DETACH);
	return rc;
}

// Where nothing is mounted the error is EINVAL with the permission to unmount, and EPERM without it.
static long unmount(void) { return umount2(args[0], 0); }
static long pivot(void) { return syscall(SYS_pivot_root, args[0], args[0]); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("tmpfs", tmpfs);
	attempt("bind", bind_it);
	attempt("umount", unmount);
	attempt("pivot_root", pivot);
}
