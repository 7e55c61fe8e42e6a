// Tries: the 32-bit system calls of x86, whose numbers mean something else to a filter written for 64 bits: open a
// secret (argument 1), execve of a program (2), and getpid, which is harmless but foreign.
// Must get: the process is killed.
// Event: syscall, reason syscall_denied, arch i386.
#include "attack.h"

static long int80(long number, long a, long b, long c)
{
	long rc;
	__asm__ volatile("int $0x80" : "=a"(rc) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory", "r8", "r9", "r10", "r11");
	rc = (int)rc;
	if (rc < 0 && rc > -4096) {
		errno = -rc;
		return -1;
	}
	return rc;
}

// The 32-bit calls take addresses below 4 GiB.
static char *low(const char *text)
{
	char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	if (p == MAP_FAILED)
		error("mmap");
	return strcpy(p, text);
}

static long harmless(void) { return int80(20, 0, 0, 0); }
static long open_it(void) { return fd_reads(int80(5, (long)low(args[0]), O_RDONLY, 0)); }
static long execute(void)
{
	uint32_t argv[3] = {(uint32_t)(long)low("noop"), (uint32_t)(long)low("execve"), 0};
	void *low_argv = low("");
	memcpy(low_argv, argv, sizeof(argv));
	return int80(11, (long)low(args[1]), (long)low_argv, 0);
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("getpid", harmless);
	attempt("open", open_it);
	attempt("execve", execute);
	return 0;
}
