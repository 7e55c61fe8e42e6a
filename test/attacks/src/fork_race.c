// Tries: to find a moment in which a process isn't confined yet: forks from its first instruction on (a constructor,
// before main), and every process reads a secret (argument 1) as soon as it runs: by fork, vfork, a thread, and an
// execve of itself.
// Must get: EACCES from every one of them.
// Event: fs read, reason outside_workspace.
#include "attack.h"
#include <pthread.h>

enum { CHILDREN = 500 };

static _Atomic int *got; // shared by all processes: how many read the secret

static int reads(const char *file) { return fd_reads(open(file, O_RDONLY)) == 0; }

// The program's arguments aren't known to glibc's constructors by name; they get them as main does.
__attribute__((constructor)) static void first(int argc, char **argv)
{
	got = mmap(NULL, sizeof(*got), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (got == MAP_FAILED || argc < 2)
		return;
	if (argc == 3) // executed by itself
		_exit(reads(argv[1]));
	for (int i = 0; i < CHILDREN; i++) {
		pid_t pid = i % 2 ? fork() : syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (pid == 0) {
			if (reads(argv[1]))
				++*got;
			_exit(0);
		}
	}
	while (wait(NULL) > 0)
		;
}

static void *thread(void *file)
{
	if (reads(file))
		++*got;
	return NULL;
}

static long report(int n)
{
	errno = EACCES;
	return n > 0 ? n : -1;
}

// again executes this program again from a vfork; it exits 1 when it could read the secret.
static int again(char *self, char *secret)
{
	int status;
	pid_t pid = vfork();
	if (pid == 0) {
		execl(self, self, secret, "again", NULL);
		_exit(2);
	}
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status) == 2)
		error("execve of itself");
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	int before = *got, executed = 0;
	if (argc != 2)
		error("one argument");
	result("fork", report(before));

	for (int i = 0; i < 50; i++) {
		pthread_t t;
		if (pthread_create(&t, NULL, thread, argv[1]) == 0)
			pthread_join(t, NULL);
	}
	result("thread", report(*got - before));

	for (int i = 0; i < 50; i++)
		executed += again(argv[0], argv[1]);
	result("vfork-exec", report(executed));
}
