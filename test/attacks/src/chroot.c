// Tries: to make the workspace (argument 1) its root.
// Must get: EPERM.
// Event: syscall chroot, reason syscall_denied.
#include "attack.h"

static long change(void) { return chroot(args[0]); }

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("chroot", change);
}
