// Tries: to find the variable TOOLGUARD_TEST_TOKEN, which the policy doesn't grant: in its own environment, in its own
// /proc entry, on its stack beyond environ, and in the environment of the process that started it.
// Must get: nothing ("denied ENOENT" where it may look and there is nothing, EACCES or EPERM where it may not look).
// Event: TOOLGUARD_TEST_TOKEN among the removed variables of the session's start; fs read of the parent's environ.
#include "attack.h"

static const char name[] = "TOOLGUARD_TEST_TOKEN=";

static long search(int fd)
{
	static char text[1 << 20];
	ssize_t n, all = 0;
	if (fd < 0)
		return -1;
	while ((n = read(fd, text + all, sizeof(text) - all)) > 0)
		all += n;
	if (n < 0)
		return -1;
	if (memmem(text, all, name, sizeof(name) - 1))
		return 0;
	errno = ENOENT;
	return -1;
}

static long own_proc(void) { return search(open("/proc/self/environ", O_RDONLY)); }

static long getenv_it(void)
{
	errno = ENOENT;
	return getenv("TOOLGUARD_TEST_TOKEN") ? 0 : -1;
}

int main(int argc, char **argv)
{
	char parent[64];
	snprintf(parent, sizeof(parent), "/proc/%d/environ", getppid());
	attempt("getenv", getenv_it);
	attempt("own-environ", own_proc);
	result("parent-environ", search(open(parent, O_RDONLY)));
}
