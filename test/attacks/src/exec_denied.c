// Tries: to execute a program that may be read but not executed (argument 1): execve, a script in a folder
// where execution is granted (2) whose interpreter it is, execveat on a descriptor, execveat of O_PATH, fexecve through /proc/self/fd.
// Must get: EACCES.
// Event: fs execute of the program's own path.
#include "attack.h"

static char *const *as(const char *attempt)
{
	static char *a[3] = {"noop"};
	a[1] = (char *)attempt;
	return a;
}

static char *const noenv[] = {NULL};

static long by_execve(void) { return execve(args[0], as("execve"), noenv); }

static long as_interpreter(void)
{
	char *script = path(args[1], "script");
	int fd = open(script, O_WRONLY | O_CREAT | O_TRUNC, 0700);
	if (fd < 0 || dprintf(fd, "#!%s interpreter\n", args[0]) < 0 || close(fd) < 0)
		error("write %s", script);
	return execve(script, as("interpreter"), noenv);
}

static long by_descriptor(int flags, const char *name)
{
	int fd = open(args[0], flags);
	if (fd < 0)
		return -1;
	return syscall(SYS_execveat, fd, "", as(name), noenv, AT_EMPTY_PATH);
}

static long by_execveat(void) { return by_descriptor(O_RDONLY, "execveat"); }
static long by_execveat_path(void) { return by_descriptor(O_PATH, "execveat-opath"); }

static long by_proc(void)
{
	int fd = open(args[0], O_PATH);
	char proc[64];
	if (fd < 0)
		return -1;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	return execve(proc, as("proc-fd"), noenv);
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("execve", by_execve);
	attempt("interpreter", as_interpreter);
	attempt("execveat", by_execveat);
	attempt("execveat-opath", by_execveat_path);
	attempt("proc-fd", by_proc);
}
