// Tries: to read and write the memory of a process outside the session (argument 1: pid, 2: address of a secret).
// Must get: EPERM.
// Event: syscall process_vm_readv, process_vm_writev where seccomp denies them.
#include "attack.h"
#include <sys/uio.h>

static struct iovec here(char *b) { return (struct iovec){b, 6}; }
static struct iovec there(void) { return (struct iovec){(void *)strtoul(args[1], NULL, 16), 6}; }

static long reads(void)
{
	char b[6];
	struct iovec l = here(b), r = there();
	return process_vm_readv(atoi(args[0]), &l, 1, &r, 1, 0);
}

static long writes(void)
{
	char b[6] = "VICTIM";
	struct iovec l = here(b), r = there();
	return process_vm_writev(atoi(args[0]), &l, 1, &r, 1, 0);
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("readv", reads);
	attempt("writev", writes);
}
