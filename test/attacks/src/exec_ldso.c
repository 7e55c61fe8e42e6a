// Tries: to run a program that may be read but not executed (argument 1) by handing it to the dynamic loader, and by
// mapping its code executable, at once or later.
// Must get: EACCES where the backend sees executable mappings. Landlock has no hook for them: its stated gap.
// Event: none under landlock, where nothing is denied.
#include "attack.h"

#if defined(__x86_64__)
#define LOADER "/lib64/ld-linux-x86-64.so.2"
#else
#define LOADER "/lib/ld-linux-aarch64.so.1"
#endif

// The loader's exit status shows what it was denied.
static long by_loader(void)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		dup2(open("/dev/null", O_WRONLY), 1);
		dup2(1, 2);
		execl(LOADER, LOADER, args[0], NULL);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	errno = EACCES;
	return status ? -1 : 0;
}

static long by_mmap(void)
{
	int fd = open(args[0], O_RDONLY);
	if (fd < 0)
		return -1;
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0;
}

static long by_mprotect(void)
{
	int fd = open(args[0], O_RDONLY);
	void *code = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	if (code == MAP_FAILED)
		error("mmap");
	return mprotect(code, 4096, PROT_READ | PROT_EXEC);
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("loader", by_loader);
	attempt("mmap", by_mmap);
	attempt("mprotect", by_mprotect);
}
