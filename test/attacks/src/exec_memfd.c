// Tries: to execute a program (argument 1) from memory, where no path and so no rule reaches it: memfd_create without
// flags and with MFD_EXEC, then fexecve; to map it as code, at once and by mprotect; a file without a name (O_TMPFILE in the
// workspace, argument 2).
// Must get: EACCES or EPERM.
// Event: fs execute, or syscall memfd_create, reason syscall_denied, where no mechanism sees its use.
#include "attack.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

static long run(int fd, const char *name)
{
	char *a[] = {"noop", (char *)name, NULL}, *env[] = {NULL};
	return syscall(SYS_execveat, fd, "", a, env, AT_EMPTY_PATH);
}

static void fill(int to)
{
	char block[65536];
	ssize_t n;
	int from = open(args[0], O_RDONLY);
	if (from < 0)
		error("open %s", args[0]);
	while ((n = read(from, block, sizeof(block))) > 0)
		if (write(to, block, n) != n)
			error("write");
}

static long memory(unsigned flags, const char *name)
{
	int fd = syscall(SYS_memfd_create, "x", flags);
	if (fd < 0)
		return -1;
	fill(fd);
	return run(fd, name);
}

static long map(int at_once)
{
	int fd = syscall(SYS_memfd_create, "x", 0);
	if (fd < 0)
		return -1;
	fill(fd);
	void *at = mmap(NULL, 4096, PROT_READ | (at_once ? PROT_EXEC : 0), MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return -1;
	return at_once ? 0 : mprotect(at, 4096, PROT_READ | PROT_EXEC);
}

static long mapped(void) { return map(1); }
static long remapped(void) { return map(0); }
static long plain(void) { return memory(0, "memfd"); }
static long executable(void) { return memory(MFD_EXEC, "memfd-exec"); }

static long nameless(void)
{
	char proc[64];
	int fd, writer = open(args[1], O_TMPFILE | O_RDWR, 0700);
	if (writer < 0)
		return -1;
	fill(writer);
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", writer);
	fd = open(proc, O_RDONLY);
	if (fd < 0)
		return -1;
	close(writer); // or execve fails with ETXTBSY
	return run(fd, "tmpfile");
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("memfd", plain);
	attempt("memfd-exec", executable);
	attempt("memfd-map", mapped);
	attempt("memfd-mprotect", remapped);
	attempt("tmpfile", nameless);
}
