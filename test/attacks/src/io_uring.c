// Tries: to set up an io_uring, whose operations no syscall filter sees.
// Must get: EPERM or ENOSYS.
// Event: syscall io_uring_setup, reason syscall_denied.
#include "attack.h"

static long setup(void)
{
	char params[120] = {0}; // struct io_uring_params
	return syscall(SYS_io_uring_setup, 1, params);
}

int main(int argc, char **argv)
{
	attempt("setup", setup);
}
