// Shared by all attacks: one line of answer for each attempt.
//
//	RESULT ok NAME               the attempt succeeded
//	RESULT denied ERRNO NAME     the kernel denied it
//	RESULT killed SIGNAL NAME    the kernel ended the process that tried
//	RESULT error TEXT            the attempt couldn't be made: never what a test expects
//
// Each attempt runs in a process of its own, so that none depends on another's state. A program exits 0 when
// it ran to its end, whatever it got.
#ifndef ATTACK_H
#define ATTACK_H
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((unused)) static char **args; // the program's arguments, without its name

__attribute__((unused, noreturn, format(printf, 1, 2))) static void error(const char *format, ...)
{
	char text[512];
	va_list list;
	va_start(list, format);
	int e = errno;
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	dprintf(1, "RESULT error %s: %s\n", text, strerror(e));
	_exit(0);
}

__attribute__((unused)) static void result(const char *name, long rc)
{
	if (rc >= 0)
		dprintf(1, "RESULT ok %s\n", name);
	else
		dprintf(1, "RESULT denied %s %s\n", strerrorname_np(errno) ?: "?", name);
}

// attempt calls f in a new process. f returns at least 0 when it succeeded, or -1 with errno.
__attribute__((unused)) static void attempt(const char *name, long (*f)(void))
{
	int status;
	pid_t pid = fork();
	if (pid < 0)
		error("fork");
	if (pid == 0) {
		result(name, f());
		_exit(0);
	}
	if (waitpid(pid, &status, 0) < 0)
		error("waitpid");
	if (WIFSIGNALED(status))
		dprintf(1, "RESULT killed SIG%s %s\n", sigabbrev_np(WTERMSIG(status)), name);
}

// each_thread calls f for every thread of a process, until one call succeeds. Their numbers are near the process's:
// tgkill's errors show which they are.
__attribute__((unused)) static long each_thread(pid_t process, long (*f)(pid_t thread))
{
	int e = ESRCH;
	for (pid_t t = process > 64 ? process - 64 : 1; t < process + 4096; t++) {
		if (syscall(SYS_tgkill, process, t, 0) < 0 && errno == ESRCH)
			continue;
		if (f(t) >= 0)
			return 0;
		if (errno != ESRCH) // it has ended meanwhile
			e = errno;
	}
	errno = e;
	return -1;
}

// path joins a folder and a name; a few results stay valid at a time.
__attribute__((unused)) static char *path(const char *dir, const char *name)
{
	static char buffers[8][4200];
	static int next;
	char *b = buffers[next++ % 8];
	snprintf(b, sizeof(buffers[0]), "%s/%s", dir, name);
	return b;
}

// fd_reads says whether a byte can be read from a descriptor that was opened for it.
__attribute__((unused)) static long fd_reads(int fd)
{
	char byte;
	if (fd < 0)
		return -1;
	return read(fd, &byte, 1) < 0 ? -1 : 0;
}

#endif
