// Tries: to execute a listed program (argument 1) with other arguments than its rule lists, a program that isn't listed (2), a copy of
// the listed one in a folder where execution is granted (3), the listed one as the interpreter of a listed script (4) and through the
// dynamic loader; to execute the listed one by another name (argument 0, or a symlink's), and as the interpreter of a script that has
// another name for it (5) or its own (6); as one of two programs that it's listed as, with the other's name or arguments; to get a positive answer
// from AT_EXECVE_CHECK; and to change the arguments in a second thread while the kernel reads them.
// Must get: EACCES; if they change after the first check, the new process is killed.
// Event: commands execute, reason args_not_listed or command_not_listed.
#include "attack.h"
#include <pthread.h>

#if defined(__x86_64__)
#define LOADER "/lib64/ld-linux-x86-64.so.2"
#else
#define LOADER "/lib/ld-linux-aarch64.so.1"
#endif

#ifndef AT_EXECVE_CHECK
#define AT_EXECVE_CHECK 0x10000 /* since Linux 6.14 */
#endif

enum { TURNS = 60 };

static char *const noenv[] = {NULL};

static long run(const char *program, char *one, char *two)
{
	char *argv[] = {"noop", one, two, NULL};
	return execve(program, argv, noenv);
}

static long allowed(void) { return run(args[0], "allowed", NULL); }
static long any_rest(void) { return run(args[0], "any-rest", "--force"); }
static long other(void) { return run(args[0], "other", NULL); }
static long empty(void) { return run(args[0], "empty", ""); }
static long longer(void) { return run(args[0], "longer", "allowed"); }
static long unlisted(void) { return run(args[1], "unlisted", NULL); }
static long script(void) { return execve(args[3], (char *[]){"script", "allowed", NULL}, noenv); }
static long loader(void) { return execve(LOADER, (char *[]){"noop", args[0], "loader", NULL}, noenv); }

// called executes the listed program with an argument that its rule lists, by another name.
static long called(char *one, char *name) { return execve(args[0], (char *[]){name, one, NULL}, noenv); }
static long called_otherwise(void) { return called("called-otherwise", "noop-push"); }
static long called_before(void) { return called("called-before", "/usr/bin/renoop"); }
static long called_within(void) { return called("called-within", "noop/"); }
static long called_nothing(void) { return called("called-nothing", ""); }
static long called_path(void) { return called("called-path", "/no/where/noop"); }

// under executes it by another file's name, a symlink, and calls it as it may be called, or by that name.
static long under(const char *file, char *name, char *one)
{
	return execve(path(args[2], file), (char *[]){name, one, NULL}, noenv);
}

static long under_other(void) { return under("noop-push", "noop", "under-other"); }
static long second(void) { return under("second", "second", "second"); }
static long second_mixed(void) { return under("second", "noop", "second-mixed"); }
static long second_called(void) { return called("second-called", "second"); }
static long second_first(void) { return under("second", "second", "second-first"); }
static long first_second(void) { return called("first-second", "noop"); }

static long descriptor_allowed(void)
{
	int fd = open(args[0], O_PATH);
	char *argv[] = {"noop", "descriptor-allowed", NULL};
	return fd < 0 ? -1 : syscall(SYS_execveat, fd, "", argv, noenv, AT_EMPTY_PATH);
}

// of is a name of so many bytes that ends with this.
static char *of(size_t n, const char *end)
{
	char *name = malloc(n + 1);
	memset(name, 'x', n);
	strcpy(name + n - strlen(end), end);
	return name;
}

static long called_long(void) { return called("called-long", of(100000, "/noop")); }
static long called_longer(void) { return called("called-longer", of(100000, "/noop-push")); }
static long linked(void) { return execve(args[4], (char *[]){"linked", NULL}, noenv); }
static long named(void) { return execve(args[5], (char *[]){"named", NULL}, noenv); }

// ask only asks whether it would be executed; where the kernel can't be asked it's tried.
static long ask(const char *program, char *one)
{
	char *argv[] = {"noop", one, NULL};
	long rc = syscall(SYS_execveat, AT_FDCWD, program, argv, noenv, AT_EXECVE_CHECK);
	return rc < 0 && errno == EINVAL ? execve(program, argv, noenv) : rc;
}

static long asked(void) { return ask(args[0], "asked"); }
static long asked_unlisted(void) { return ask(args[1], "asked-unlisted"); }
static long asked_allowed(void)
{
	char *argv[] = {"noop", "allowed", NULL};
	long rc = syscall(SYS_execveat, AT_FDCWD, args[0], argv, noenv, AT_EXECVE_CHECK);
	return rc < 0 && errno == EINVAL ? 0 : rc;
}

static long by_descriptor(void)
{
	int fd = open(args[0], O_PATH);
	char *argv[] = {"noop", "descriptor", NULL};
	return fd < 0 ? -1 : syscall(SYS_execveat, fd, "", argv, noenv, AT_EMPTY_PATH);
}

// by_proc executes it by a name without the program's own.
static long by_proc(void)
{
	char name[64];
	snprintf(name, sizeof(name), "/proc/self/fd/%d", open(args[0], O_PATH));
	return execve(name, (char *[]){"noop", "by-proc", NULL}, noenv);
}

static long copied(void)
{
	char buffer[1 << 16], *to = path(args[2], "copy");
	int in = open(args[0], O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);
	ssize_t n;
	while ((n = read(in, buffer, sizeof(buffer))) > 0)
		if (write(out, buffer, n) != n)
			error("write %s", to);
	if (n < 0 || close(out) < 0)
		error("copy %s", args[0]);
	return run(to, "copy", NULL);
}

static char *volatile raced[] = {"noop", "allowed", NULL};
static volatile int changing;

static void *change(void *unused)
{
	for (changing = 1;;) {
		raced[1] = "race";
		raced[1] = "allowed";
	}
	return unused;
}

// race starts the program again and again; it prints the name that it was started by.
static long race(void)
{
	for (int i = 0; i < TURNS; i++) {
		char said[64] = "";
		int ends[2];
		if (pipe(ends) < 0)
			error("pipe");
		pid_t pid = fork();
		if (pid == 0) {
			pthread_t t;
			dup2(ends[1], 1);
			pthread_create(&t, NULL, change, NULL);
			while (!changing)
				usleep(1000);
			usleep(i * 50);
			syscall(SYS_execve, args[0], raced, noenv);
			_exit(0);
		}
		close(ends[1]);
		while (read(ends[0], said + strlen(said), sizeof(said) - 1 - strlen(said)) > 0)
			;
		close(ends[0]);
		waitpid(pid, NULL, 0);
		if (strstr(said, "race"))
			return 0;
	}
	errno = EACCES;
	return -1;
}

int main(int argc, char **argv)
{
	args = argv + 1;
	attempt("allowed", allowed);
	attempt("any-rest", any_rest);
	attempt("other", other);
	attempt("longer", longer);
	attempt("empty", empty);
	attempt("unlisted", unlisted);
	attempt("interpreter", script);
	attempt("called-otherwise", called_otherwise);
	attempt("called-before", called_before);
	attempt("called-within", called_within);
	attempt("called-nothing", called_nothing);
	attempt("called-path", called_path);
	attempt("called-long", called_long);
	attempt("called-longer", called_longer);
	attempt("linked", linked);
	attempt("named", named);
	attempt("under-other", under_other);
	attempt("second", second);
	attempt("second-mixed", second_mixed);
	attempt("second-called", second_called);
	attempt("second-first", second_first);
	attempt("first-second", first_second);
	attempt("descriptor-allowed", descriptor_allowed);
	attempt("loader", loader);
	attempt("asked", asked);
	attempt("asked-unlisted", asked_unlisted);
	attempt("asked-allowed", asked_allowed);
	attempt("descriptor", by_descriptor);
	attempt("by-proc", by_proc);
	attempt("copy", copied);
	attempt("race", race);
}
